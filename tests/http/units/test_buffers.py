"""http/buffers: the contents of a buffer, the source of its memory, and the count of all of it."""

import pytest

from syncless.http.stream import Buffers

BLOCK = 8192


@pytest.fixture
def buffers():
    return Buffers(100_000)


def test_bytes_come_out_as_they_were_put_in_through_every_size(units, buffers):
    text = units.Bytes(buffers)
    whole = b""
    for size in (1, 100, BLOCK - 101, 1, 5 * BLOCK, 70_000):
        piece = bytes(range(256)) * (size // 256 + 1)
        text.append(piece[:size])
        whole += piece[:size]
        assert bytes(text) == whole
    assert units.owned(buffers)[:2] == (1, text.room)
    text.release()
    assert bytes(text) == b"" and units.owned(buffers)[:2] == (0, 0)


def test_block_is_used_again(units, buffers):
    first = units.Bytes(buffers)
    first.append(b"a")
    first.release()
    assert units.owned(buffers) == (0, 0, 1)
    second = units.Bytes(buffers)
    second.append(b"b")
    assert units.owned(buffers) == (1, BLOCK, 0)


def test_pool_keeps_no_more_than_sixty_four_blocks(units, buffers):
    many = [units.Bytes(buffers) for _ in range(80)]
    for text in many:
        text.append(b"x")
    assert units.owned(buffers) == (80, 80 * BLOCK, 0)
    del many, text
    assert units.owned(buffers) == (0, 0, 64)


def test_block_that_is_outgrown_goes_back_to_the_pool(units, buffers):
    text = units.Bytes(buffers)
    text.append(b"x" * BLOCK)
    text.append(b"y")
    assert units.owned(buffers) == (1, 2 * BLOCK, 1)
    assert bytes(text) == b"x" * BLOCK + b"y"


def test_little_is_held_without_room_for_more(units, buffers):
    text = units.Bytes(buffers)
    text.hold(b"x" * 50)
    assert units.owned(buffers) == (1, 50, 0)
    text.hold(b"y" * 30)
    assert bytes(text) == b"x" * 50 + b"y" * 30 and units.owned(buffers)[1] == text.room == 100
    large = units.Bytes(buffers)
    large.hold(b"z" * 3000)
    assert large.room == BLOCK


def test_memory_that_grew_to_a_blocks_size_may_be_pooled(units, buffers):
    text = units.Bytes(buffers)
    text.hold(b"x" * 2048)
    text.append(b"y")
    text.append(b"y" * 4096)
    assert text.room == BLOCK and units.owned(buffers) == (1, BLOCK, 0)
    text.release()
    assert units.owned(buffers) == (0, 0, 1)


def test_gigabyte_is_the_most_in_one_piece_and_in_all(units, buffers):
    text = units.Bytes(buffers)
    with pytest.raises(MemoryError):
        text.reserve((1 << 30) + 1)
    text.append(b"kept")
    really = text.pretend((1 << 30) - 5, 1 << 30)
    try:
        with pytest.raises(MemoryError):
            text.reserve(1 << 20)
    finally:
        text.pretend(*really)
    assert bytes(text) == b"kept" and units.owned(buffers)[:2] == (1, BLOCK)


@pytest.mark.parametrize("size", [1, 100, BLOCK + 1])
@pytest.mark.parametrize("call", ["append", "hold"])
@pytest.mark.parametrize("before", [b"", b"x" * BLOCK])
def test_shortage_of_memory_leaves_buffer_and_counts_as_they_were(units, buffers, before, call, size):
    testcapi = pytest.importorskip("_testcapi")
    text = units.Bytes(buffers)
    if before:
        text.append(before)
    owned = units.owned(buffers)
    data = b"y" * size
    function = getattr(text, call)
    failed = False
    testcapi.set_nomemory(0, 0)
    try:
        function(data)
    except MemoryError:
        failed = True
    finally:
        testcapi.remove_mem_hooks()
    assert failed and units.owned(buffers) == owned and bytes(text) == before
    function(data)
    assert bytes(text) == before + data
