"""Tasklets that nothing can wake: each waits for an object that only unreachable or equally stuck ones know.

First, from the roots down: modules, OS threads, and the tasklets that may go on reach objects; who waits for
one of these may go on, too. Then, from each object that is left up to those that refer to it: one whose count
of references is larger than those that are found is held by C code that cannot be seen, such as a timer or a
cache, and so its waiters count as alive. A tasklet is never named wrongly for a reference in a place that the
garbage collector sees; one that is not named may be stuck all the same.

Fact: a frame of a tasklet that waits shows its variables, not what lies on its stack of values, and native
code shows nothing. Danger: the waiter's own call holds references to the object, and to the condition or the
queue around it. Decision: those types may have some that nobody explains.
"""

from __future__ import annotations

import gc
import queue
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from types import BuiltinMethodType, CellType, FrameType, FunctionType, MethodType
from typing import Any

from syncless._core.cpython.functions import original_of
from syncless._core.loop import Loop
from syncless._core.tasklet import Tasklet
from syncless._core.wait.sync import Waits

ENDED_BY_OTHERS = {
    *("event", "semaphore", "lock", "queue", "item of a queue", "room in a queue"),
    *("channel", "sender on a channel", "receiver on a channel"),
    *("end of a tasklet", "end of the work in a queue"),
}
"""The words for waits that only another tasklet or thread can end."""
_current_frames = original_of(sys._current_frames)


def find_leaks(loops: Iterable[Loop]) -> list[Tasklet[Any]]:
    """Return the tasklets of these loops that nothing can wake, oldest first. In a large program it takes
    seconds."""
    everyone = [tasklet for loop in loops for tasklet in loop.tasklets()]
    waits = Waits()
    wakers = waits.wakers()
    waiting = _waiting(everyone, waits)
    for each in gc.get_referents(*wakers):  # of a Timeout
        if _is_tasklet(each):
            waiting.pop(each, None)
    search = _Search(waiting, sys._getframe(1))
    search.begin(wakers)
    for tasklet in everyone:
        if tasklet not in waiting:
            search.add(tasklet)
    search.spread()
    search.doubt()
    search.spread()
    still = _waiting(everyone, Waits())  # another thread may have woken one meanwhile, and forgotten it
    return [tasklet for tasklet, thing in search.stuck.items() if still.get(tasklet) is thing]


def _waiting(everyone: list[Tasklet[Any]], waits: Waits) -> dict[Tasklet[Any], Any]:
    """Those that wait, without limit, for what only another can do, and the object of each."""
    endless = waits.endless()
    return {
        tasklet: tasklet.waiting_object
        for tasklet in everyone
        if tasklet in endless and tasklet.waiting_for in ENDED_BY_OTHERS
    }


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _variables(frame: FrameType | None) -> Iterator[dict[str, Any]]:
    for each in _callers(frame):
        if each.f_locals is not each.f_globals:
            names = each.f_locals
            yield names if type(names) is dict else dict(names)
        else:
            yield {"": each.f_globals}


def _is_tasklet(thing: Any) -> bool:
    """As isinstance(), which would ask a proxy, such as a library's, for its class."""
    return issubclass(type(thing), Tasklet)


class _Search:
    def __init__(self, waiting: dict[Tasklet[Any], Any], caller: FrameType):
        self.stuck = waiting
        self._caller = caller
        self._reached: set[int] = set()
        self._todo: list[Any] = []
        self._variables: Counter[int] = Counter()
        """References in variables of those that are stuck, by id."""
        # of the search, or by which the interpreter knows threads
        active = threading._active  # type: ignore[attr-defined]
        self._kept = [names for tasklet in waiting for names in _variables(tasklet.frame)]
        mine = [waiting, self._todo, self.__dict__, self._kept, *self._kept, active]
        self._own = set(map(id, mine))
        self._reached |= self._own
        for names in self._kept:
            self._variables.update(map(id, names.values()))
        self._codes = Counter(frame.f_code for tasklet in waiting for frame in _callers(tasklet.frame))

    def begin(self, wakers: list[object]) -> None:
        """Add the roots."""
        stuck = set(map(id, self.stuck))
        threads = dict(threading._active)  # type: ignore[attr-defined]
        self._todo += [
            sys.modules,
            wakers,
            [thread for ident, thread in threads.items() if ident not in stuck],
        ]
        self._todo += [signal.getsignal(number) for number in signal.valid_signals()]
        for frame in _current_frames().values():
            self._add_frames(frame)

    def add(self, tasklet: Tasklet[Any]) -> None:
        """The tasklet may go on."""
        self.stuck.pop(tasklet, None)
        self._reached.add(id(tasklet))
        self._todo += [gc.get_referents(tasklet), tasklet.waiting_object]
        self._add_frames(tasklet.frame)

    def _add_frames(self, frame: FrameType | None) -> None:
        frame = self._caller if self._caller in _callers(frame) else frame
        self._todo.extend(list(names.values()) for names in _variables(frame))

    def spread(self) -> None:
        """Go on to all that can be reached, and with the tasklets that wait for it."""
        todo, reached, stuck = self._todo, self._reached, self.stuck
        get_referents, is_tracked = gc.get_referents, gc.is_tracked
        kinds = set(map(type, stuck))
        while True:
            while todo:
                thing = todo.pop()
                if type(thing) in kinds and thing in stuck:
                    continue
                for each in get_referents(thing):
                    if id(each) not in reached:
                        reached.add(id(each))
                        # the collector leaves out a tuple or a dictionary of what refers to nothing
                        if is_tracked(each) or type(each) in (dict, tuple):
                            todo.append(each)
            woken = [tasklet for tasklet, thing in stuck.items() if self._may_end(thing)]
            if not woken:
                return
            for tasklet in woken:
                self.add(tasklet)

    def _may_end(self, thing: Any) -> bool:
        return thing not in self.stuck if _is_tasklet(thing) else id(thing) in self._reached

    def doubt(self) -> None:
        """Add what something refers to that the search has not seen."""
        hidden = self._reached.difference(map(id, self.stuck))
        unseen = [one for one in gc.get_objects() if id(one) not in hidden and type(one) is not FrameType]
        holders: dict[int, list[int]] = {}
        for place, one in enumerate(unseen):
            for each in gc.get_referents(one):
                holders.setdefault(id(each), []).append(place)
        todo = [id(thing) for thing in self.stuck.values() if not _is_tasklet(thing)]
        looked = set(todo)
        while todo:
            for place in holders.get(todo.pop(), ()):
                one = unseen[place]
                if id(one) in looked or _is_tasklet(one):
                    continue
                looked.add(id(one))
                todo.append(id(one))
                # of this function: `unseen`, `one`, and the argument of getrefcount()
                known = 3 + len(holders.get(id(one), ())) + 2 * self._variables[id(one)]
                if type(one) is FunctionType:
                    known += self._codes[one.__code__]  # a frame refers to its function
                if sys.getrefcount(one) > known and not issubclass(type(one), _IN_CALLS):
                    self._todo.append(one)


_IN_CALLS = (
    *(deque, queue.Queue, queue.SimpleQueue, threading.Condition, threading.Event, threading.Semaphore),
    *(threading.Thread, threading.Barrier, MethodType, BuiltinMethodType, CellType),
)
"""Types of which the calls that wait hold references."""
