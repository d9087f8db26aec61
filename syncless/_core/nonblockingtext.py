"""NonblockingText: a text stream whose reader may stop reading (a full pipe, a stopped terminal). Writing to
it never waits.

Takes text, and writes it to the descriptor of a text file immediately, as long as the descriptor accepts it:
so a crash loses nothing, and lines stay in order. When the descriptor accepts no more, an OS thread
continues, and up to HELD bytes wait for it. Further lines are dropped, and their number is reported when
there is room again. This module uses nothing of the engine. It is in this folder because the engine reports
errors through it, like the server and its master. The engine, once loaded, ensures that no tasklet runs
during a write: see set_directly().

Fact: O_NONBLOCK belongs to the open file, which other processes share. Danger: setting it breaks their
writes; without it, a pipe that looks ready blocks when another process fills it first. Decision: pipes and
terminals are reopened through /proc, which gives us our own open file; sockets are written with MSG_DONTWAIT.
Price: a descriptor. If reopening fails, the thread does all writes. Guarded by
tests/http/test_errorlog.py::test_server_goes_on_with_an_unread_stderr.
"""

from __future__ import annotations

import _socket
import _thread
import atexit
import contextlib
import io
import os
import select
import stat
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from syncless._core.cpython.forkhooks import at_fork, look
from syncless._core.cpython.functions import original_of
from syncless._core.cpython.replacing import own_function

# The interpreter's own, whatever is put in their place (syncless.patches, a debugger).
_start_new_thread, _sleep = own_function(_thread, "start_new_thread"), original_of(time.sleep)
_monotonic, _poll = time.monotonic, select.poll
_write, _open_fd, _dup = original_of(os.write), original_of(os.open), original_of(os.dup)
_close, _fstat = original_of(os.close), original_of(os.fstat)

HELD = 1 << 23
"""Bytes that wait for the reader at most (the access log: the same)."""
PIECE = 1 << 16
"""Bytes of a write at most."""
LAST_SECONDS = 2.0
"""For which an ending process waits for its last lines to be taken."""
SLOW_SECONDS = 0.02
"""A write to a file that has taken longer leaves the next ones to the thread."""

_directly: Callable[..., Any] = lambda function, *args: function(*args)  # noqa: E731
"""Calls function(*args), in which no tasklet parks or yields."""


def set_directly(function: Callable[..., Any]) -> None:
    """Make calls through the engine's directly(). Flushing a stream runs methods of its file, and any step
    may run a finaliser; under the patch both may wait."""
    global _directly
    _directly = function


_open_texts: weakref.WeakSet[NonblockingText] = weakref.WeakSet()


def is_plain(stream: Any) -> bool:
    """Return whether text that is written to the stream goes only to a descriptor."""
    if type(stream) is not io.TextIOWrapper:
        return False
    buffer = stream.buffer
    return (
        type(buffer.raw if type(buffer) is io.BufferedWriter else buffer) is io.FileIO
    )  # stderr has no buffer


class NonblockingText:
    """A text stream (write, writelines, flush) on top of a plain one, see is_plain().

    Either the caller of write() or the thread holds the token while it writes to the descriptor. Other
    callers queue their text and return. Each step is one call of C code, because finalisers, signal handlers
    and other threads may run between steps.
    """

    def __init__(self, stream: TextIO):
        self.stream = stream
        self._token: list[None] = [None]
        self._waiting: deque[bytes] = deque()
        self._held = 0
        self._dropped = 0
        self._slow = False
        self._fd = -1
        """Our own way to the same file."""
        self._file: tuple[int, int] | None = None
        self._socket: Any = None
        self._may_block = False
        with contextlib.suppress(OSError, ValueError):
            self._look()  # now: errors are written when descriptors have run out
        _open_texts.add(self)

    # -- a text stream -----------------------------------------------------------------------------

    def write(self, text: str) -> int:
        look()
        return int(_directly(self._put, text))

    def _put(self, text: str) -> int:
        data = text.encode(self.stream.encoding or "utf-8", "backslashreplace")
        if not self._waiting and self._take():
            try:
                data = data[self._write_now(data) :]
            finally:
                self._token.append(None)
        if data:
            if self._held + len(data) > HELD:
                self._dropped += text.count("\n") or 1
            else:
                self._held += len(data)
                self._waiting.extend(data[at : at + PIECE] for at in range(0, len(data), PIECE))
        if self._waiting and self._take():
            try:
                _start_new_thread(self._go_on, ())
            except RuntimeError:  # the system refuses, or the interpreter ends; the next write tries again
                self._token.append(None)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Do nothing: text that the reader can take is never held back."""

    @property
    def encoding(self) -> str:
        return self.stream.encoding

    def fileno(self) -> int:
        return self.stream.fileno()

    def isatty(self) -> bool:
        return self.stream.isatty()

    # -- the descriptor ----------------------------------------------------------------------------

    def _take(self) -> bool:
        try:
            self._token.pop()
        except IndexError:
            return False
        return True

    def _write_now(self, data: bytes) -> int:
        """Write without waiting. Return the number of bytes that were written or can never be written."""
        done = 0
        try:
            self._look()
            if self._may_block or self._slow:
                return 0
            if _ready(self._fd, 0):
                self._flush_others()
            while done < len(data):
                done += self._send(data[done : done + PIECE])
        except BlockingIOError:
            pass
        except (OSError, ValueError):
            return len(data)  # a full disk, a reader that has left, a closed stream
        return done

    def _flush_others(self) -> None:
        """Flush text that others have written to the stream, unless a tasklet is in the middle of a write,
        which the buffer reports as a reentrant call. The buffer is flushed first: a text file loses text that
        its buffer refuses."""
        with contextlib.suppress(RuntimeError):
            self.stream.buffer.flush()
            self.stream.flush()

    def _send(self, data: bytes) -> int:
        if self._socket is not None:
            return int(self._socket.send(data, _socket.MSG_DONTWAIT))
        began = _monotonic()
        done = _write(self._fd, data)
        self._slow = _monotonic() - began > SLOW_SECONDS
        return done

    def _look(self) -> None:
        """Open our own descriptor of the stream's file if the file has changed since the last call."""
        fd = self.stream.fileno()
        found = _fstat(fd)
        file = found.st_dev, found.st_ino
        if self._file == file and _identity(self._fd) == file:
            return
        self._give_back()
        self._may_block = self._slow = False
        try:
            self._open(fd, found.st_mode)
            self._file = file
        except OSError:  # no descriptor is left: the stream's own will do until there is one
            self._fd = fd
            self._may_block = not stat.S_ISREG(found.st_mode)

    def _open(self, fd: int, mode: int) -> None:
        if stat.S_ISSOCK(mode):
            self._fd = _dup(fd)
            self._socket = _socket.socket(fileno=self._fd)
        elif stat.S_ISREG(mode):
            self._fd = _dup(fd)
        else:
            try:
                self._fd = _open_fd(
                    f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                )
            except OSError:
                self._fd = _dup(fd)
                self._may_block = True

    def _give_back(self) -> None:
        if (
            self._file is not None and _identity(self._fd) == self._file
        ):  # else a daemon has closed it, and the number is another's
            _close(self._fd)
        if self._socket is not None:
            self._socket.detach()
        self._socket, self._fd, self._file = None, -1, None

    def _go_on(self) -> None:
        """Hold the token, in the OS thread, until all waiting text has been written."""
        while True:
            try:
                while self._waiting:
                    self._write_all(self._waiting.popleft())
                self._held = 0
                if self._dropped:
                    dropped, self._dropped = self._dropped, 0
                    self._write_all(
                        f"syncless: this stream was not read; {dropped} lines were dropped\n".encode()
                    )
            finally:
                self._token.append(None)
            if not self._waiting or not self._take():
                return

    def _write_all(self, data: bytes) -> None:
        self._held -= len(data)
        while data:
            try:
                data = data[self._send(data) :]
            except BlockingIOError:
                _ready(self._fd, 1000)
            except OSError:
                return

    # -- the end -----------------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Whether text waits to be written."""
        look()
        return bool(self._waiting) or not self._token

    def drain(self, seconds: float = LAST_SECONDS) -> None:
        """Wait until all is written, for at most `seconds`. This blocks the thread; in a server, call sleep()
        while text is `pending`."""
        ends = _monotonic() + seconds
        while self.pending and _monotonic() < ends:
            _sleep(0.005)

    def close(self) -> None:
        """Close our descriptor, unless the thread still uses it. The stream's owner closes the stream."""
        look()
        if self._take():
            try:
                self._give_back()
            finally:
                self._token.append(None)

    def _forget(self) -> None:
        self._token[:] = [None]
        self._waiting.clear()
        self._held = self._dropped = 0


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        found = _fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _ready(fd: int, milliseconds: int) -> bool:
    poll = _poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(milliseconds))


_standard: dict[str, NonblockingText] = {}


def standard(name: str) -> Any:
    """Return sys.stdout or sys.stderr as a stream whose writes never wait. If the stream is not plain, return
    it unchanged; it may be None."""
    stream = getattr(sys, name)
    if not is_plain(stream):
        return stream
    text = _standard.get(name)
    if text is None or text.stream is not stream:
        text = _standard[name] = NonblockingText(stream)
    return text


def drain(seconds: float = LAST_SECONDS) -> None:
    """Wait until all streams have written their last lines, for at most `seconds`."""
    ends = _monotonic() + seconds
    for text in list(_open_texts):
        text.drain(ends - _monotonic())


def _after_fork_in_child() -> None:
    for text in _open_texts:  # the parent writes the waiting text; its thread did not come along
        text._forget()


at_fork(at_first_use=_after_fork_in_child)
atexit.register(drain)
