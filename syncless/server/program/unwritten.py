"""What nobody has written yet when a worker ends: buffers of open files.

Fact: a worker ends by os._exit(), because destructors of what it has from its master are not its to run: a
temporary directory of an application that was loaded before the fork would go with the first worker. Danger:
lines in the buffer of a file that nobody closes are lost. Decision: a worker flushes the files that are open
at its end, and closes compressed ones that it has opened itself. A master flushes before its first fork, so
that no line is written twice. Price: a look at all objects, once in each process. Guarded by
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
    """Flush in the master, whose files stay open."""
    found = _files()
    _write(found)
    _inherited.extend(map(weakref.ref, found))


def write_the_rest() -> None:
    """Write the rest in a worker that ends."""
    inherited = [file for each in _inherited if (file := each()) is not None]
    known = set(map(id, inherited))
    own = [file for file in _files() if id(file) not in known]
    _write([*inherited, *own], closes=frozenset(id(file) for file in own if _depth(file) == COMPRESSED))


def _files() -> list[Any]:
    return [each for each in gc.get_objects() if issubclass(type(each), io.IOBase)]


COMPRESSED = 1


def _depth(file: Any) -> int:
    """Text is encoded, and compressed, before it lies in a buffer of bytes."""
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
