"""A WSGI application that compresses the responses of another one (see http/content/compression.py).

The head waits for the first part of the body, because compression also depends on the size of the body. Each
part that the application yields or writes is flushed immediately, so that a client sees each event of a
stream; the blocks of a file are not flushed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from syncless.apps.wsgi.filewrapper import FileWrapper
from syncless.http.content.compression import Compression, Compressor, compressed, whole
from syncless.http.content.filepart import FilePart


class Compressed:
    """Calls an application, and compresses its responses if that pays off."""

    def __init__(self, application: Any, compression: Compression):
        self.application = application
        self.compression = compression

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes] | None:
        answer = _Answer(self.compression, environ, start_response)
        result = self.application(environ, answer.start)
        if result is None or answer.head is None or answer.begun:  # an error; a generator, or write()
            return result if result is None else _Body(answer, result)
        if isinstance(result, (list, tuple)):
            return answer.send_whole(result)
        if isinstance(result, (FilePart, FileWrapper)):
            region = result.region()
            answer.begin(None if region is None else region[2])
            if answer.encoded:  # not by sendfile
                return _Body(answer, result if answer.compressor else (), close=result, flush=False)
            return result
        return _Body(answer, result)


class _Answer:
    """One response: its head, and the compressor once it has been chosen."""

    def __init__(self, compression: Compression, environ: dict[str, Any], start_response: Any):
        self.compression = compression
        self.environ = environ
        self.start_response = start_response
        self.head: tuple[str, list[tuple[str, str]]] | None = None
        self.exc_info: Any = None
        self.begun = False
        self.encoded = False
        """Whether the head says so; an answer to HEAD has no compressor all the same."""
        self.compressor: Compressor | None = None
        self.write: Any = None

    def start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        """Note the status and headers: this is the application's start_response()."""
        if self.begun:
            self.start_response(status, headers, exc_info)  # raises if it is too late
            self.begun = self.encoded = False
            self.compressor = None
        elif self.head is not None and exc_info is None:
            raise AssertionError("start_response() was called a second time without exc_info (PEP 3333)")
        # the application may change its list afterwards
        self.head = status, headers[:] if type(headers) is list else headers
        self.exc_info = exc_info
        return self.put

    def begin(self, size: int | None = None) -> None:
        """Send the head to the server. `size` is the size of the whole body, if known."""
        if self.begun or self.head is None:
            return
        self.begun = True
        status, headers = self.head
        make = None
        try:
            headers, make = self.compression.plan(
                self.environ.get("HTTP_ACCEPT_ENCODING", ""), status, headers, size
            )
        except (AttributeError, TypeError, ValueError):
            pass  # the server says what is wrong with them
        exc_info, self.exc_info = self.exc_info, None  # it refers to frames, and they to us
        self.write = self.start_response(status, headers, exc_info)
        self.encoded = make is not None
        if make is not None and self.environ["REQUEST_METHOD"] != "HEAD":
            self.compressor = make()

    def send_whole(self, parts: list[bytes] | tuple[bytes, ...]) -> Iterable[bytes]:
        """Return the body for a list or a tuple, whose total size is known."""
        if not all(isinstance(part, bytes) for part in parts):
            self.begin(0)
            return parts  # the server says what is wrong with them
        self.begin(sum(map(len, parts)))
        if self.compressor is not None:
            return [whole(self.compressor, parts)]
        return iter(()) if self.encoded else parts  # a list's size would be the Content-Length

    def put(self, data: bytes) -> None:
        """Send a part of the body: this is the application's write()."""
        self.begin()
        if self.compressor is None:
            self.write(data)
        else:
            self.write(b"".join([*compressed(self.compressor, data), self.compressor.flush_block()]))


class _Body:
    """The body that the server iterates over and closes."""

    def __init__(self, answer: _Answer, parts: Any, *, close: Any = None, flush: bool = True):
        self._answer = answer
        self._parts = parts
        self._closed = parts if close is None else close
        self._flush = flush

    def __iter__(self) -> Iterator[bytes]:
        answer = self._answer
        for part in self._parts:
            if part:
                answer.begin()
            if answer.compressor is None or not isinstance(part, bytes):
                yield part
            elif part:
                yield from compressed(answer.compressor, part)
                if self._flush:
                    yield answer.compressor.flush_block()
        answer.begin(0)
        if answer.compressor is not None:
            yield answer.compressor.finish()

    def close(self) -> None:
        close = getattr(self._closed, "close", None)
        if close is not None:
            close()
