"""What a server says of itself on stdout and stderr. That nobody reads it any more (a log's reader has ended, the disk is full) harms no
request: ``serve | tee log`` loses its tee by the same Ctrl-C that stops the server gracefully."""

from __future__ import annotations

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
    """Writes what print() has held back."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # there is none, nobody reads it, or it is closed


def drop_what_nobody_reads() -> None:
    """For the end of a program: the interpreter would fail to write it once more, and end with status 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        except (AttributeError, OSError, ValueError):
            pass
