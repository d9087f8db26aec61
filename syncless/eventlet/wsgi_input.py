"""The body of a request, as `wsgi.input`; and how a header field is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["ChunkReadError", "Input", "capitalized", "encode_header_line"]


class ChunkReadError(ValueError):
    """A chunk of the request does not begin or end as it must."""


def encode_header_line(field: tuple[str, Any]) -> bytes:
    """Return a header field as bytes. Raise UnicodeEncodeError if it is not Latin-1."""
    name, value = field
    try:
        shown = str(name).encode("latin-1")
    except UnicodeEncodeError as error:
        error.reason += "; header names must be Latin-1"
        raise
    try:
        text = str(value).encode("latin-1")
    except UnicodeEncodeError as error:
        error.reason += "; encode header values beyond latin-1 as in RFC 2047 or RFC 8187"
        raise
    return shown + b": " + text + b"\r\n"


def capitalized(name: str) -> str:
    """Return the name of a header field with great letters; only those of ASCII change."""
    try:
        return "-".join(word.capitalize().decode("latin-1") for word in name.encode("latin-1").split(b"-"))
    except UnicodeEncodeError:
        return name


class Input:
    """Reads the body of a request, of a length or in chunks. If the client waits for it, the first read sends
    a response of status 100."""

    def __init__(
        self, rfile: Any, content_length: int, sock: Any, wfile: Any = None, chunked_input: bool = False
    ) -> None:
        self.rfile = rfile
        self._sock = sock
        self.content_length = content_length
        self.wfile = wfile
        self.chunked_input = chunked_input
        self.position = 0
        self.headers_sent = False
        """Whether the response has begun."""
        self.hundred_continue_headers: list[bytes] | None = None
        self._left = 0
        """Of the current chunk."""
        self._ended = False
        self._buffer = b""
        """Read of the chunks, and not given out yet."""

    def is_chunked(self) -> bool:
        return self.chunked_input

    def is_awaited(self) -> bool:
        """Return whether the client waits for a response of status 100."""
        return self.wfile is not None and (self.chunked_input or self.content_length > 0)

    def get_socket(self) -> Any:
        return self._sock

    # -- 100 Continue

    def set_hundred_continue_response_headers(
        self, headers: Iterable[tuple[str, Any]], capitalize_response_headers: bool = True
    ) -> None:
        """Say which header fields the next response of status 100 has."""
        lines = []
        for name, value in headers:
            if capitalize_response_headers:
                name = capitalized(name)
            lines.append(encode_header_line((name, value)))
        self.hundred_continue_headers = lines

    def send_hundred_continue_response(self) -> None:
        """Send a response of status 100 now; another message of chunks may follow it."""
        self._continue(self._out)

    _out: Any = None

    def _continue(self, out: Any) -> None:
        if out is None:
            return
        out.writelines([b"HTTP/1.1 100 Continue\r\n", *(self.hundred_continue_headers or ()), b"\r\n"])
        out.flush()
        self.hundred_continue_headers = None
        self._ended, self._left = False, 0

    def _begin(self) -> None:
        if self.wfile is not None:
            self._out, self.wfile = self.wfile, None
            if not self.headers_sent:
                self._continue(self._out)

    # -- reading

    def read(self, length: int | None = None) -> bytes:
        """Return so many bytes, or all; fewer at the end."""
        length = None if length is None or length < 0 else length
        if self.chunked_input:
            self._begin()
            while not self._ended and (length is None or len(self._buffer) < length):
                self._read_chunk(length)
            return self._take(len(self._buffer) if length is None else length)
        left = self.content_length - self.position
        size = left if length is None else min(length, left)
        if size <= 0:
            return b""
        self._begin()
        data: bytes = self.rfile.read(size)
        self.position += len(data)
        return data

    def readline(self, size: int | None = None) -> bytes:
        """Return a line, or so many bytes of it."""
        if self.chunked_input:
            self._begin()
            while b"\n" not in self._buffer and not self._ended:
                if size is not None and 0 <= size <= len(self._buffer):
                    break
                self._read_chunk(None)
            end = self._buffer.find(b"\n") + 1 or len(self._buffer)
            return self._take(end if size is None or size < 0 else min(end, size))
        left = self.content_length - self.position
        size = left if size is None or size < 0 else min(size, left)
        if size <= 0:
            return b""
        self._begin()
        data: bytes = self.rfile.readline(size)
        self.position += len(data)
        return data

    def readlines(self, hint: int | None = None) -> list[bytes]:
        """Return all lines."""
        return list(self)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def discard(self, buffer_size: int = 16 << 10) -> None:
        """Read to the end."""
        while self.read(buffer_size):
            pass

    def _take(self, size: int) -> bytes:
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        self.position += len(data)
        return data

    def _read_chunk(self, most: int | None) -> None:
        """Read a chunk, or a part of it, into the buffer."""
        if self._left == 0:
            self._left = self._chunk_size()
            if self._left == 0:
                self._read_trailer()
                self._ended = True
                return
        size = self._left if most is None else min(self._left, most)
        data = self.rfile.read(size)
        if len(data) < size:
            self._ended = True
            raise OSError("unexpected end of file while reading a chunk of the request")
        self._buffer += data
        self._left -= size
        if self._left == 0 and self.rfile.readline(3) not in (b"\r\n", b"\n"):
            self._ended = True
            raise ChunkReadError("a chunk of the request does not end with a line break")

    def _chunk_size(self) -> int:
        line = self.rfile.readline(1024)
        try:
            return int(line.partition(b";")[0].strip(), 16)
        except ValueError:
            self._ended = True
            raise ChunkReadError(f"not the size of a chunk: {line!r}") from None

    def _read_trailer(self) -> None:
        while self.rfile.readline(8193).strip(b"\r\n"):
            pass
