"""select, poll and epoll: each asks without waiting first, and then waits for an epoll descriptor, which the loop can watch.

With them selectors, asyncio and everything else that stands on them wait cooperatively, too.
"""

from __future__ import annotations

import math
import select
import selectors
import time
from typing import Any

from syncless._core.loop import give_way, wait_readable
from syncless.patches.registry import Patcher

_select: Any = select.select
_epoll = getattr(select, "epoll", None)
_epoll_poll: Any = _epoll.poll if _epoll else None
_poll_type: Any = type(select.poll()) if hasattr(select, "poll") else None
_poll_poll: Any = _poll_type.poll if _poll_type else None


def _deadline(seconds: float | None) -> float:
    return math.inf if seconds is None else time.monotonic() + seconds


def _wait(fd: int, until: float) -> bool:
    """Parks until the epoll descriptor has something to tell. False if the time is over."""
    left = until - time.monotonic()
    if left <= 0:
        return False
    try:
        wait_readable(fd, None if left == math.inf else left)
    except TimeoutError:
        return False
    return True


def _number(thing: Any) -> int:
    return thing if isinstance(thing, int) else int(thing.fileno())


def cooperative_select(rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None, /) -> Any:
    """select.select, cooperative."""
    if timeout is not None and timeout < 0:
        raise ValueError("timeout must be non-negative")
    lists = rlist, wlist, xlist
    if type(rlist) is not list or type(wlist) is not list or type(xlist) is not list:
        lists = list(rlist), list(wlist), list(xlist)  # what is used up by looking at it must be looked at twice
    give_way()  # a loop around it may never find anything to wait for
    found = _select(*lists, 0)
    if found[0] or found[1] or found[2] or timeout == 0 or _epoll is None:
        return found
    masks: dict[int, int] = {}
    for things, mask in zip(lists, (select.EPOLLIN, select.EPOLLOUT, select.EPOLLPRI), strict=True):
        for thing in things:
            masks[_number(thing)] = masks.get(_number(thing), 0) | mask
    until = _deadline(timeout)
    with _epoll() as watched:
        for fd, mask in masks.items():
            watched.register(fd, mask)
        while _wait(watched.fileno(), until):
            found = _select(*lists, 0)
            if any(found):
                return found
            # an event that was nobody's: another one read what there was; the loop asks again
    return _select(*lists, 0)


def epoll_poll(self: Any, timeout: float | None = None, maxevents: int = -1) -> Any:
    """select.epoll.poll, cooperative."""
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


class Poll:
    """select.poll(), cooperative."""

    def __init__(self) -> None:
        self._poll = _poll_type_make()
        self._masks: dict[int, int] = {}

    def register(self, fd: Any, eventmask: int = 7, /) -> None:
        self._poll.register(fd, eventmask)
        self._masks[_number(fd)] = eventmask

    def modify(self, fd: Any, eventmask: int, /) -> None:
        self._poll.modify(fd, eventmask)
        self._masks[_number(fd)] = eventmask

    def unregister(self, fd: Any, /) -> None:
        self._poll.unregister(fd)
        self._masks.pop(_number(fd), None)

    def poll(self, timeout: float | None = None, /) -> Any:
        give_way()
        found = self._poll.poll(0)
        if found or timeout == 0 or _epoll is None:
            return found
        until = _deadline(None if timeout is None or timeout < 0 else timeout / 1000)
        with _epoll() as watched:
            for fd, mask in self._masks.items():
                watched.register(fd, mask)
            while _wait(watched.fileno(), until):
                found = self._poll.poll(0)
                if found:
                    return found
        return self._poll.poll(0)


_poll_type_make: Any = getattr(select, "poll", None)


def patch(patcher: Patcher) -> None:
    patcher.rebind(select, "select", cooperative_select, "stops the thread")
    if _epoll is not None:
        patcher.member(_epoll, "poll", epoll_poll, "stops the thread")
    if _poll_type is not None:
        patcher.rebind(select, "poll", Poll, "makes objects whose poll() stops the thread")
        patcher.member(selectors.PollSelector, "_selector_cls", Poll, "keeps select.poll")
    patcher.member(selectors.SelectSelector, "_select", staticmethod(cooperative_select), "keeps select.select")
