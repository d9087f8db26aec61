"""What a server says of itself on stdout and stderr. That nobody reads it any more (a log's reader has ended, the disk is full) harms no
request: ``serve | tee log`` loses its tee by the same Ctrl-C that stops the server gracefully."""

from __future__ import annotations

import contextlib
import os
import sys


def tell(text: str) -> None:
    """A line on stdout."""
    try:
        print(text, flush=True)
    except (OSError, ValueError):
        pass


def complain(text: str) -> None:
    """A line on stderr."""
    try:
        print(f"syncless: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass


def flush() -> None:
    """Writes what print() has held back. Text that nobody reads goes nowhere from then on: the interpreter would try once more at its end,
    and end with status 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
        except (AttributeError, OSError, ValueError):
            pass  # there is none, it is full, or it is closed
