"""What is kept of a frame's head says the same as the library that has read it."""

import zlib

import pytest

library = pytest.importorskip("websockets.frames", reason="it reads the frames: pip install websockets")
from websockets.exceptions import PayloadTooBig, ProtocolError  # noqa: E402
from websockets.extensions.permessage_deflate import PerMessageDeflate  # noqa: E402

from syncless.http.websocket import frames  # noqa: E402

MASK = b"\x01\x02\x03\x04"
MOST = 100


def as_the_library_reads(data):
    """(opcode, payload, last) of a frame, or the code of the close frame that it deserves."""
    at = 0

    def exactly(size):
        nonlocal at
        yield from ()
        at += size
        return data[at - size : at]

    try:
        next(library.Frame.parse(exactly, mask=True, max_size=MOST, extensions=[]))
    except StopIteration as done:
        return done.value.opcode, done.value.data, done.value.fin
    except ProtocolError:
        return 1002
    except PayloadTooBig:
        return 1009


def as_we_read(data):
    reader = frames.Frames([])
    reader.feed(data)
    try:
        return reader.next(MOST)
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
    assert as_we_read(data) == as_we_read(data) == (frames.TEXT, b"hello", True)
    for at in range(1, len(data)):
        reader = frames.Frames([])
        reader.feed(data[:at])
        assert reader.next(MOST) is None
        reader.feed(data[at:] + data + data[:at])
        assert [reader.next(MOST) for _ in range(3)] == [(frames.TEXT, b"hello", True)] * 2 + [None]


def test_message_too_long_for_what_is_left_is_refused_though_its_head_is_known():
    data = b"\x82\x8a" + MASK + bytes(10)
    for most, expected in ((10, frames.BINARY), (9, 1009), (10, frames.BINARY)):
        reader = frames.Frames([])
        reader.feed(data)
        try:
            found = reader.next(most)[0]
        except frames.Broken as error:
            found = error.code
        assert found == expected


@pytest.mark.parametrize("message", ["", "é", "x" * 125, "x" * 126, b"", b"x" * 65535, b"x" * 65536])
def test_message_is_written_as_by_the_library(message):
    """The first time, and when its head is known."""
    opcode = frames.TEXT if isinstance(message, str) else frames.BINARY
    data = message.encode() if isinstance(message, str) else message
    expected = library.Frame(opcode, data).serialize(mask=False)
    assert [frames.Frames([]).message(message) for _ in range(3)] == [expected] * 3


def packed(data):
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH))[:-4]


def compressed(data):
    """A compressed message, with a mask of zeros."""
    payload = packed(data)
    return b"\xc2\xfe" + len(payload).to_bytes(2, "big") + bytes(4) + payload


def deflating(clock):
    inflate = PerMessageDeflate(False, False, 15, 15)
    return frames.Frames([inflate], 1 << 20, clock)


def test_messages_that_grow_a_thousand_times_have_a_bound_a_second():
    now = [0.0]
    reader = deflating(lambda: now[0])
    bomb = compressed(bytes(1 << 20))
    for _ in range(3):
        reader.feed(bomb)
        assert len(reader.next(1 << 20)[1]) == 1 << 20
        now[0] += 1
    reader.feed(bomb * 2)
    assert len(reader.next(1 << 20)[1]) == 1 << 20
    with pytest.raises(frames.Broken, match="unpacked") as found:
        reader.next(1 << 20)
    assert found.value.code == 1009


def test_messages_that_grow_as_text_does_have_none():
    reader = deflating(lambda: 0.0)
    message = compressed(b"".join(b'{"number": %d}, ' % number for number in range(10_000)))
    for _ in range(20):
        reader.feed(message)
        assert len(reader.next(1 << 20)[1]) > 150_000
