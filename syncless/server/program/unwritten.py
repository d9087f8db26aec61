"""Writes the buffers of open files when a worker ends.

Fact: a worker ends by os._exit(), because it must not run the destructors of its master's objects: a
temporary directory of an application loaded before the fork would be removed by the first worker. Danger:
lines in the buffer of a file that nobody closes are lost. Decision: a worker flushes the files that are open
at its end, and closes compressed files that it has opened itself. A master flushes before its first fork, so
that no line is written twice. Price: a search through all objects, once in each process. Guarded by
tests/server/test_worker_ends.py.
"""

from __future__ import annotations

import gc
import io
import weakref
from typing import Any

from syncless.http.log.errorlog import process_log

_inherited: list[weakref.ref[Any]] = []
"""Files of the master's. The collector does not show those that it has frozen."""


def flush_before_fork() -> None:
    """Flush the open files of the master, which stay open."""
    found = _files()
    _write(found)
    _inherited.extend(map(weakref.ref, found))


def write_the_rest() -> None:
    """Write the remaining buffers of a worker that ends."""
    inherited = [file for each in _inherited if (file := each()) is not None]
    known = set(map(id, inherited))
    own = [file for file in _files() if id(file) not in known]
    _write([*inherited, *own], closes=frozenset(id(file) for file in own if _depth(file) == COMPRESSED))


def _files() -> list[Any]:
    return [each for each in gc.get_objects() if issubclass(type(each), io.IOBase)]


COMPRESSED = 1


def _depth(file: Any) -> int:
    """Return the rank of a file for flushing: text is encoded and compressed before it reaches a buffer of
    bytes."""
    if isinstance(file, io.BufferedWriter | io.BufferedRandom):
        return 2
    return COMPRESSED if isinstance(file, io.BufferedIOBase) else 0


def _write(files: list[Any], closes: frozenset[int] = frozenset()) -> None:
    for file in sorted(files, key=_depth):
        try:
            if not file.closed and file.writable():
                file.close() if id(file) in closes else file.flush()
        except (ValueError, BrokenPipeError):
            pass  # it is detached, or nobody reads it
        except Exception as error:
            process_log().error(f"{file!r} cannot be written:", error)
