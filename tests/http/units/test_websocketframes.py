"""What is kept of a frame's head says the same as the library that has read it."""

import zlib

import pytest

websockets = pytest.importorskip("websockets.frames", reason="it reads the frames: pip install websockets")
from websockets.exceptions import PayloadTooBig, ProtocolError  # noqa: E402
from websockets.extensions.permessage_deflate import PerMessageDeflate  # noqa: E402

from syncless.http.websocket import frames, library  # noqa: E402

MASK = b"\x01\x02\x03\x04"
MOST = 100
TEXT, BINARY = websockets.Opcode.TEXT, websockets.Opcode.BINARY


def new(*more):
    return frames.Frames(library, *more)


def next_of(reader, most=MOST):
    """(opcode, payload, last), or None."""
    return (reader.opcode, reader.payload, reader.last) if reader.next(most) else None


def as_the_library_reads(data):
    """(opcode, payload, last) of a frame, or the code of the close frame that it deserves."""
    at = 0

    def exactly(size):
        nonlocal at
        yield from ()
        at += size
        return data[at - size : at]

    try:
        next(websockets.Frame.parse(exactly, mask=True, max_size=MOST, extensions=[]))
    except StopIteration as done:
        return done.value.opcode, done.value.data, done.value.fin
    except ProtocolError:
        return 1002
    except PayloadTooBig:
        return 1009


def as_we_read(data):
    reader = new()
    reader.feed(data)
    try:
        return next_of(reader)
    except frames.Broken as error:
        return error.code


def test_each_head_is_read_as_by_the_library_also_again():
    for first in range(256):
        for second in (0x80, 0x81, 0x80 + MOST, 0x81 + MOST, 0xFD, 0xFE, 0, 1, 0x7D):
            size = second & 0x7F
            data = bytes([first, second]) + (b"\0\x7e" if size == 126 else b"") + MASK + bytes(range(size))
            expected = as_the_library_reads(data)
            assert [as_we_read(data) for _ in range(3)] == [expected] * 3, (first, second)


def test_frame_that_is_known_is_read_in_parts_too():
    data = b"\x81\x85" + MASK + bytes(a ^ b for a, b in zip(b"hello", MASK + MASK, strict=False))
    assert as_we_read(data) == as_we_read(data) == (TEXT, b"hello", True)
    for at in range(1, len(data)):
        reader = new()
        reader.feed(data[:at])
        assert next_of(reader) is None
        reader.feed(data[at:] + data + data[:at])
        assert [next_of(reader) for _ in range(3)] == [(TEXT, b"hello", True)] * 2 + [None]


@pytest.mark.parametrize("size", [126, 127, 65_535, 65_536, 100_001])
def test_long_frame_is_read_as_by_the_library_also_again(size):
    payload = bytes(place % 251 for place in range(size))
    length = b"\xfe" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xff" + size.to_bytes(8, "big")
    data = b"\x82" + length + MASK + bytes(byte ^ MASK[place % 4] for place, byte in enumerate(payload))
    for _ in range(3):
        reader = new()
        reader.feed(data + data[:5])
        assert next_of(reader, size) == (BINARY, payload, True)
        assert next_of(reader, size) is None
        reader.feed(data[5:])
        assert next_of(reader, size) == (BINARY, payload, True)
    reader.feed(data)
    with pytest.raises(frames.Broken) as found:
        next_of(reader, size - 1)
    assert found.value.code == 1009


def test_message_too_long_for_what_is_left_is_refused_though_its_head_is_known():
    data = b"\x82\x8a" + MASK + bytes(10)
    for most, expected in ((10, BINARY), (9, 1009), (10, BINARY)):
        reader = new()
        reader.feed(data)
        try:
            found = next_of(reader, most)[0]
        except frames.Broken as error:
            found = error.code
        assert found == expected


@pytest.mark.parametrize("message", ["", "é", "x" * 125, "x" * 126, b"", b"x" * 65535, b"x" * 65536])
def test_message_is_written_as_by_the_library(message):
    """The first time, and when its head is known."""
    opcode = TEXT if isinstance(message, str) else BINARY
    data = message.encode() if isinstance(message, str) else message
    expected = websockets.Frame(opcode, data).serialize(mask=False)
    assert [new().message(message) for _ in range(3)] == [expected] * 3


def packed(data):
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH))[:-4]


def compressed(data):
    """A compressed message, with a mask of zeros."""
    payload = packed(data)
    return b"\xc2\xfe" + len(payload).to_bytes(2, "big") + bytes(4) + payload


def deflating(clock):
    inflate = PerMessageDeflate(False, False, 15, 15)
    return new(inflate, 1 << 20, clock)


def test_messages_that_grow_a_thousand_times_have_a_bound_a_second():
    now = [0.0]
    reader = deflating(lambda: now[0])
    bomb = compressed(bytes(1 << 20))
    for _ in range(3):
        reader.feed(bomb)
        assert len(next_of(reader, 1 << 20)[1]) == 1 << 20
        now[0] += 1
    reader.feed(bomb * 2)
    assert len(next_of(reader, 1 << 20)[1]) == 1 << 20
    with pytest.raises(frames.Broken, match="decompressed") as found:
        next_of(reader, 1 << 20)
    assert found.value.code == 1009


def test_messages_that_grow_as_text_does_have_none():
    reader = deflating(lambda: 0.0)
    message = compressed(b"".join(b'{"number": %d}, ' % number for number in range(10_000)))
    for _ in range(20):
        reader.feed(message)
        assert len(next_of(reader, 1 << 20)[1]) > 150_000


def test_a_compressed_head_is_known_only_where_compression_is_agreed_upon():
    for _ in range(3):
        reader = deflating(lambda: 0.0)
        reader.feed(compressed(b"text"))
        assert next_of(reader) == (BINARY, b"text", True)
        reader = new()
        reader.feed(compressed(b"text"))
        with pytest.raises(frames.Broken) as found:
            next_of(reader)
        assert found.value.code == 1002


@pytest.mark.parametrize("first", [0xC0, 0xC8, 0xC9, 0xCA, 0xA1, 0x91, 0xE1])
def test_only_the_first_frame_of_a_message_says_that_it_is_compressed(first):
    for _ in range(3):
        reader = deflating(lambda: 0.0)
        reader.feed(bytes([first, 0x80]) + MASK)
        with pytest.raises(frames.Broken) as found:
            next_of(reader)
        assert found.value.code == 1002


def test_unpacked_message_may_have_the_limit_and_no_more():
    for size, expected in ((MOST, bytes(MOST)), (MOST + 1, None), (0, b"")):
        for _ in range(2):
            reader = deflating(lambda: 0.0)
            reader.feed(compressed(bytes(size)))
            if expected is None:
                with pytest.raises(frames.Broken, match="larger than 100 bytes"):
                    next_of(reader)
            else:
                assert next_of(reader) == (BINARY, expected, True)


def test_message_that_cannot_be_unpacked_is_refused():
    reader = deflating(lambda: 0.0)
    reader.feed(b"\xc2\x84" + bytes(4) + b"\xff\xff\xff\xff")
    with pytest.raises(frames.Broken, match="decompressed") as found:
        next_of(reader)
    assert found.value.code == 1002


def test_messages_in_pieces_plain_ones_between_and_ended_data_are_unpacked():
    """RFC 7692, 7.2.3: its examples."""
    whole, ended = bytes.fromhex("f248cdc9c90700"), bytes.fromhex("f348cdc9c9070000")
    again = bytes.fromhex("f200110000")
    reader = deflating(lambda: 0.0)
    for first, payload in (
        (0xC1, whole),
        (0xC1, again),
        (0x81, b"plain"),
        (0x41, whole[:3]),
        (0x89, b"ping"),
        (0x80, whole[3:]),
        (0xC1, ended),
        (0xC1, whole),
    ):
        reader.feed(bytes([first, 0x80 | len(payload)]) + bytes(4) + payload)
    found = [next_of(reader) for _ in range(8)]
    assert [text for _, text, _ in found[:3]] == [b"Hello", b"Hello", b"plain"]
    assert found[4] == (9, b"ping", True) and found[3][1] + found[5][1] == b"Hello"
    assert [text for _, text, _ in found[6:]] == [b"Hello", b"Hello"] and next_of(reader) is None


@pytest.mark.parametrize("forgets", [False, True])
def test_messages_are_packed_as_agreed_upon(forgets):
    writer = new(PerMessageDeflate(False, forgets, 15, 9, {"level": 1}))
    unpacker = zlib.decompressobj(wbits=-9)
    sizes = []
    for message in ("", "a" * 1000, "", b"", "a" * 1000, b"\0" * 70_000, ""):
        made = writer.message(message)
        head = 2 if made[1] < 126 else 4 if made[1] == 126 else 10
        assert made[0] == (0xC1 if isinstance(message, str) else 0xC2)
        if forgets:
            unpacker = zlib.decompressobj(wbits=-9)
        text = unpacker.decompress(made[head:] + b"\0\0\xff\xff")
        assert text == (message.encode() if isinstance(message, str) else message)
        sizes.append(len(made))
    assert (sizes[4] < sizes[1]) is not forgets
