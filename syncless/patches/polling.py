"""Patches select, poll and epoll: each first checks without waiting, then waits for an epoll descriptor,
which the loop can watch.

So selectors, asyncio and everything else that uses these calls wait cooperatively, too.

Fact: macOS and the BSDs have no epoll. Decision: there the loop watches each descriptor. The loop supports
only reading and writing, so for other events (POLLPRI, the third list of select) the call checks again at
intervals. Guarded by tests/patches/test_polling.py.
"""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable
from typing import Any

from syncless._core.cpython.functions import class_of, original_of
from syncless._core.cpython.layouts import checked
from syncless._core.current import give_way, wait_readable
from syncless._core.wait import select as engine
from syncless.patches.registry import Patcher

LONGEST = 2_000_000
"""Seconds. The interpreter accepts any timeout up to this."""
LONGEST_POLL = 1000 * LONGEST
"""The same in milliseconds."""
INTERVAL = 0.02
"""Seconds. Without epoll, the time between two looks for events that the loop does not know."""

watched_by = checked("poll objects")
_select: Any = original_of(select.select)
_epoll: Any = class_of(select, "epoll") if hasattr(select, "epoll") else None
_epoll_poll: Any = original_of(_epoll.poll) if _epoll else None
_poll: Any = getattr(select, "poll", None)
_poll_type: Any = type(_poll()) if _poll else None
_poll_poll: Any = original_of(_poll_type.poll) if _poll_type else None


def _deadline(seconds: float | None) -> float:
    return math.inf if seconds is None else time.monotonic() + seconds


def _left(until: float) -> float | None:
    return None if until == math.inf else until - time.monotonic()


def _wait(fd: int, until: float) -> bool:
    """Park until the epoll descriptor has an event. Return False after the timeout."""
    left = _left(until)
    return (left is None or left > 0) and wait_readable(fd, left)


def _wait_for_any(masks: dict[int, int], until: float) -> bool:
    """Do the same for several descriptors, each with a mask of events, where there is no epoll."""
    left = _left(until)
    if left is not None and left <= 0:
        return False
    reading = select.POLLIN | getattr(select, "POLLRDNORM", 0)
    writing = select.POLLOUT | getattr(select, "POLLWRNORM", 0)
    cases = [engine.readable(fd) for fd, mask in masks.items() if mask & reading]
    cases += [engine.writable(fd) for fd, mask in masks.items() if mask & writing]
    if any(not mask or mask & ~(reading | writing) for mask in masks.values()):
        left = INTERVAL if left is None else min(left, INTERVAL)
    engine.select([*cases, engine.after(left)])
    return True


def _wait_until(look: Callable[[], Any], masks: dict[int, int], until: float) -> Any:
    """Call look() whenever one of the descriptors may be ready, until it finds something or the timeout
    expires.

    If another tasklet has already read the data, wait for the next event.
    """
    if _epoll is None:
        while _wait_for_any(masks, until):
            found = look()
            if any(found):
                return found
        return look()
    with _epoll() as watched:
        for fd, mask in masks.items():
            watched.register(fd, mask)
        while _wait(watched.fileno(), until):
            found = look()
            if any(found):
                return found
    return look()


def _is_usual(timeout: Any, least: float, most: float) -> bool:
    return timeout is None or (type(timeout) in (int, float) and least <= timeout <= most)


def _let_it_refuse(wait: Callable[[int], object]) -> None:
    """Pass an unusual timeout to the original function, which may refuse it. The descriptor is ready, so
    nothing waits."""
    left, right = os.pipe()
    try:
        wait(right)
    finally:
        os.close(left)
        os.close(right)


def _watching(poll: Any, fd: int) -> Any:
    poll.register(fd, select.POLLOUT)  # as EPOLLOUT
    return poll


def _number(thing: Any) -> int:
    return thing if isinstance(thing, int) else int(thing.fileno())


def cooperative_select(rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None, /) -> Any:
    """select.select, cooperative."""
    if not _is_usual(timeout, 0, LONGEST):
        _let_it_refuse(lambda ready: _select([], [ready], [], timeout))
    lists = rlist, wlist, xlist
    if type(rlist) is not list or type(wlist) is not list or type(xlist) is not list:
        for things in (rlist, wlist, xlist):
            if not hasattr(things, "__iter__") and not hasattr(things, "__getitem__"):
                _select(rlist, wlist, xlist, 0)  # which refuses it
        lists = list(rlist), list(wlist), list(xlist)  # an iterator could be read only once
    give_way()  # a loop around it may never find anything to wait for
    found = _select(*lists, 0)
    if found[0] or found[1] or found[2] or timeout == 0:
        return found
    masks: dict[int, int] = {}
    for things, mask in zip(lists, (select.POLLIN, select.POLLOUT, select.POLLPRI), strict=True):
        for thing in things:
            masks[_number(thing)] = masks.get(_number(thing), 0) | mask  # EPOLLIN is POLLIN, and so on
    return _wait_until(lambda: _select(*lists, 0), masks, _deadline(timeout))


def epoll_poll(self: Any, timeout: float | None = None, maxevents: int = -1) -> Any:
    """select.epoll.poll, cooperative."""
    if not _is_usual(timeout, -LONGEST, LONGEST):
        with select.epoll() as watched:
            _let_it_refuse(lambda ready: _epoll_poll(_watching(watched, ready), timeout))
    give_way()
    found = _epoll_poll(self, 0, maxevents)
    if found or timeout == 0:
        return found
    until = _deadline(None if timeout is None or timeout < 0 else timeout)
    while _wait(self.fileno(), until):
        found = _epoll_poll(self, 0, maxevents)
        if found:
            return found
    return _epoll_poll(self, 0, maxevents)


def poll_poll(self: Any, timeout: float | None = None, /) -> Any:
    """select.poll().poll, cooperative."""
    if not _is_usual(timeout, -LONGEST_POLL, LONGEST_POLL):
        _let_it_refuse(lambda ready: _poll_poll(_watching(_poll(), ready), timeout))
    give_way()
    found = _poll_poll(self, 0)
    if found or timeout == 0:
        return found
    until = _deadline(None if timeout is None or timeout < 0 else timeout / 1000)
    return _wait_until(lambda: _poll_poll(self, 0), watched_by(self), until)


def patch(patcher: Patcher) -> None:
    patcher.rebind(select, "select", cooperative_select, "stops the thread")
    if _epoll is not None:
        patcher.member_in_place(_epoll, "poll", epoll_poll, "stops the thread", kept=True)
    if _poll_type is not None:
        patcher.member_in_place(_poll_type, "poll", poll_poll, "stops the thread", kept=True)
