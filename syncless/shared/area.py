"""The store that this process shares with others: Redis after connect(), otherwise memory, which the master
makes before it forks its workers, or else the first use. A child has that of its parent."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from syncless._core.cpython.forkhooks import at_fork
from syncless.http import running
from syncless.shared.errors import Unavailable
from syncless.shared.store import Store

if TYPE_CHECKING:
    from syncless.shared.embedded import Memory

_store: Store | None = None
_memory: Memory | None = None
_url = ""
"""That connect() was given."""
_failure = ""
"""Why the master could not make the memory."""


def store() -> Store:
    """Return the store. Raise Unavailable if there is none."""
    global _store
    if _store is None:
        _store = region()
    return _store


def region() -> Memory:
    """Return the memory that the processes of this machine share. Raise Unavailable if there is none."""
    if _memory is None:
        begin()
    if _memory is None:
        raise Unavailable(_failure)
    return _memory


def begin() -> None:
    """Make the memory, if there is none yet. If that fails, its first use raises: most servers need none."""
    global _memory, _failure
    if _memory is not None or _failure:
        return
    limits = running.limits()
    try:
        embedded = import_module("syncless.shared.embedded")
        _memory = embedded.Memory(limits.shared_value_bytes, limits.shared_ring_bytes)
    except ImportError:
        _failure = "this syncless was built without shared memory: the system has no robust mutexes"
    except OSError as error:
        _failure = str(error)


def connect(url: str) -> None:
    """Share with all servers and programs that use this Redis: ``connect("redis://host:6379/0")``. `serve()`
    does it for its argument ``shared``; other programs call it before their first use of `syncless.shared`.
    It does not wait. Raise ValueError if the URL is wrong or the package redis is missing, RuntimeError if
    something else is shared already."""
    global _store, _url
    if _store is not None and _url != url:
        raise RuntimeError("something else is shared already: connect() must come before the first use")
    _store, _url = redis(url), url


def redis(url: str) -> Store:
    """Return a store at this URL. Raise ValueError, which says what to write or to install."""
    try:
        module = import_module("syncless.shared.redisstore")
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "redis":
            raise
        raise ValueError("shared: Redis needs the package redis: pip install 'syncless[redis]'") from None
    made: Store = module.Redis(url, running.limits())
    return made


def largest_message() -> int:
    """Return the bytes of the largest message."""
    return min(running.limits().shared_message_bytes, store().ring_bytes // 4 - 512)


def largest_value() -> int:
    """Return the bytes of the largest value."""
    return store().value_bytes // 4


def figures() -> dict[str, int]:
    """Return counts, and sizes in bytes, of all processes together: ``messages`` published and
    ``overwritten``, ``ring_bytes``; ``entries`` of the store, ``used_bytes`` of its ``value_bytes``, values
    that were ``evicted`` to make room or had ``expired``; processes that died in the midst of a change
    (``repaired``). With Redis, entries, bytes and values are all that it has, and what is overwritten is not
    counted."""
    return store().figures()


def _leave_to_parent() -> None:
    for each in (_store, _memory):
        if each is not None:
            each.leave_to_parent()


at_fork(in_child=_leave_to_parent)
