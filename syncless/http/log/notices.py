"""Messages of a server about itself on stdout and stderr.

A full disk, or a log reader that has ended or is stuck, does not harm requests: in ``serve | tee log``,
Ctrl-C ends tee while the server still shuts down gracefully.
"""

from __future__ import annotations

import contextlib
import os
import sys

from syncless._core.nonblockingtext import drain, standard

NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str, keep: str = "") -> str:
    """Return the text with all unprintable characters escaped, except for those in `keep`: text from a client
    must neither begin a new line in a log nor move a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def _escape(c: str) -> str:
    """Escape a character as in a Python string, without the codec, which another user may be unable to
    import."""
    number = ord(c)
    if c in NAMED:
        return NAMED[c]
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def tell(text: str) -> None:
    """Print a line to stdout."""
    _write("stdout", f"{text}\n")


def complain(text: str) -> None:
    """Print a line to stderr."""
    _write("stderr", f"syncless: {text}\n")


def open_missing() -> None:
    """Open /dev/null for each of stdin, stdout and stderr that was closed when the process started (``2>&-``,
    some init scripts). Otherwise a connection could get descriptor 2 and what is written to stderr."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number: this one
            if getattr(sys, name) is None:
                mode = "w" if fd else "r"
                setattr(sys, name, os.fdopen(fd, mode, encoding="utf-8", errors="replace", closefd=False))


def _write(name: str, text: str) -> None:
    stream = standard(name)
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):
            stream.write(text)
            stream.flush()


def flush() -> None:
    """Write what print() has buffered. If nobody reads a stream, discard its text from then on: otherwise the
    interpreter would retry when it exits, and exit with status 120."""
    drain()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
        except (AttributeError, OSError, ValueError):
            pass  # there is none, it is full, or it is closed
