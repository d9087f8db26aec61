"""Messages of a server about itself on stdout and stderr.

A log's reader that has ended or stands still, and a full disk, harm no request: ``serve | tee log`` loses its
tee by the same Ctrl-C that stops the server gracefully.
"""

from __future__ import annotations

import contextlib
import os
import sys

from syncless._core.nonblockingtext import drain, standard

NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str, keep: str = "") -> str:
    """Return the text with everything escaped that is not printable, except for the characters to keep: text
    of a client must neither begin a line of its own in a log nor move a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def _escape(c: str) -> str:
    """Escape text as in a Python string, without the codec, which another user may be unable to import."""
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
    """Open /dev/null for each of stdin, stdout and stderr that the process was started without (``2>&-``,
    some init scripts). Else a connection could get the number, and what others write to stderr."""
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
    """Write what print() has held back. Text that nobody reads goes nowhere from then on: the interpreter
    would try once more at its end, and end with status 120."""
    drain()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
        except (AttributeError, OSError, ValueError):
            pass  # there is none, it is full, or it is closed
