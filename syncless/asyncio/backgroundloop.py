"""The background loop of a thread: a tasklet runs it as long as the thread lives.

So code in a tasklet, such as a WSGI application, can set an asyncio timer, start a task or wait for a
coroutine without creating a loop.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from syncless._core.cpython.forkhooks import at_fork
from syncless._core.current import current, may_park
from syncless._core.loop import Loop
from syncless._core.tasklet import spawn
from syncless._core.threadloop import current_loop
from syncless._core.wait.sync import Event
from syncless.asyncio.eventloop import EventLoop, running_loop

T = TypeVar("T")

_background: WeakKeyDictionary[Loop, BackgroundLoop] = WeakKeyDictionary()
"""The engine's loop of a thread -> the asyncio loop that always runs on it."""

told_of: WeakKeyDictionary[Loop, Callable[[], None]] = WeakKeyDictionary()
"""Called when that thread has its first one."""


class BackgroundLoop(EventLoop):
    """An event loop that runs in its own tasklet from its creation until close()."""

    of_thread = True

    def __init__(self) -> None:
        super().__init__()
        self._begin()

    def _begin(self) -> None:
        self._released: Event | None = None
        """Set when the tasklet in run_forever() is to go on."""
        self._tasklet = spawn(self._live)
        self._tasklet.name = "asyncio loop"

    def _live(self) -> None:
        try:
            super().run_forever()
        finally:
            if not self.is_closed():
                super().close()

    def __del__(self) -> None:
        pass  # it runs until its thread ends: that is no mistake of the program

    def is_running(self) -> bool:
        """Return whether the caller is a callback of the loop, or in another thread. Any other tasklet may
        wait in run_until_complete() and run_forever(), as if the loop did not run."""
        return super().is_running() and (asyncio._get_running_loop() is self or not self._is_this_threads())

    def run_until_complete(self, future: Awaitable[T]) -> T:  # type: ignore[override]
        """Wait for the future or coroutine, as await_() does, because the loop already runs."""
        return await_(future)

    def run_forever(self) -> None:
        """Wait until stop() is called; the loop already runs."""
        self._check_closed()
        self._released = Event()
        try:
            self._released.wait()
        finally:
            self._released = None

    def stop(self) -> None:
        """Make run_forever() return. The loop keeps running until close()."""
        if self._released is not None:
            self._released.set()

    def close(self) -> None:
        """End the loop. get_event_loop() then creates another one."""
        if not self.is_closed():
            super().stop()
            self._tasklet.join()


def _after_fork_in_child() -> None:
    """Restart this thread's loop in a new tasklet: a fork drops tasklets, but the program may have kept the
    loop, for example if workers are forked after the application was imported."""
    here = _background.get(current_loop()) if _background else None
    _background.clear()
    if here is not None and not here.is_closed():
        here._forked()
        here._begin()
        _background[current_loop()] = here
    for policy in _without_policies:  # as asyncio does with its own
        policy._local = threading.local()


at_fork(in_child=_after_fork_in_child)


def background_loop() -> BackgroundLoop:
    """Return this thread's background loop, which the first call creates."""
    loop = _background.get(current_loop())
    if loop is None or loop.is_closed():
        loop = _background[current_loop()] = BackgroundLoop()
        if told_of and (tell := told_of.pop(current_loop(), None)) is not None:
            tell()
    return loop


def await_(awaitable: Awaitable[T], timeout: float | None = None) -> T:
    """Park the tasklet until the coroutine, task or future is done; return its result or raise its exception
    (asyncio.CancelledError if it was cancelled).

    The awaitable runs in the loop to which it belongs, otherwise in the loop that runs in this thread,
    otherwise in the thread's background loop, with a copy of the tasklet's context. After `timeout` seconds
    it is cancelled, and TimeoutError is raised; it is also cancelled when an exception ends the wait (kill(),
    Timeout). Raise RuntimeError if the tasklet itself runs that loop and the loop belongs to another library:
    waiting would deadlock.
    """
    here = asyncio._get_running_loop()
    loop = (
        awaitable.get_loop() if asyncio.isfuture(awaitable) else here or running_loop() or background_loop()
    )
    if loop is here and not isinstance(loop, EventLoop):
        raise RuntimeError(f"await_() would stop the {type(loop).__name__} that runs here: use await")
    if current() is None:
        raise RuntimeError("await_() needs a tasklet, but this is a callback of the engine: spawn one")
    future: asyncio.Future[T] = asyncio.ensure_future(awaitable, loop=loop)
    done = Event()
    future.add_done_callback(lambda _: done.set())
    try:
        if not done.wait(timeout):
            raise TimeoutError(f"the awaited future was not done within {timeout} s")
    except BaseException:
        future.cancel()
        raise
    return future.result()


class _NoPolicy:
    """A substitute for asyncio's own policy, which Python 3.16 has removed: only functions set and return a
    thread's loop there."""

    def __init__(self) -> None:
        self._local = threading.local()
        _without_policies.add(self)

    def set_event_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
        if loop is not None and not isinstance(loop, asyncio.AbstractEventLoop):
            kind = type(loop).__name__
            raise TypeError(f"loop must be an instance of AbstractEventLoop or None, not {kind!r}")
        self._local._loop = loop


_without_policies: WeakSet[_NoPolicy] = WeakSet()


def _policy_type() -> Any:
    """Return asyncio's own policy type, or None."""
    with warnings.catch_warnings():  # policies are deprecated since Python 3.14
        warnings.simplefilter("ignore", DeprecationWarning)
        if not hasattr(asyncio.events, "_event_loop_policy"):
            return None
        return getattr(asyncio, "DefaultEventLoopPolicy", None)


DefaultPolicy: Any = _policy_type() or _NoPolicy
HAS_POLICIES = DefaultPolicy is not _NoPolicy


class EventLoopPolicy(DefaultPolicy):  # type: ignore[misc]
    """A policy that creates EventLoops, and gives a thread without a loop its background loop."""

    _loop_factory = EventLoop

    def get_event_loop(self) -> asyncio.AbstractEventLoop:
        loop: Any = getattr(self._local, "_loop", None)
        return background_loop() if loop is None else loop

    def functions(self) -> list[Callable[..., Any]]:
        """Return the functions of asyncio.events that use this policy, to be bound there if asyncio has no
        policies."""

        def get_event_loop() -> asyncio.AbstractEventLoop:
            """asyncio.get_event_loop"""
            running: asyncio.AbstractEventLoop | None = asyncio._get_running_loop()
            return self.get_event_loop() if running is None else running

        def set_event_loop(loop: asyncio.AbstractEventLoop | None) -> None:
            """asyncio.set_event_loop"""
            self.set_event_loop(loop)

        def new_event_loop() -> asyncio.AbstractEventLoop:
            """asyncio.new_event_loop"""
            return EventLoop()

        return [get_event_loop, set_event_loop, new_event_loop]


class OfferingPolicy(DefaultPolicy):  # type: ignore[misc]
    """Works like asyncio's own policy, but gives a tasklet its thread's background loop if no other loop is
    set. A loop that asyncio makes there would never run, and its timers would never fire."""

    def get_event_loop(self) -> asyncio.AbstractEventLoop:
        unset = getattr(self._local, "_loop", None) is None
        return background_loop() if unset and may_park() else super().get_event_loop()


def _offering(original: Callable[[], asyncio.AbstractEventLoop]) -> Callable[[], asyncio.AbstractEventLoop]:
    """Like OfferingPolicy, for Python versions without policies."""

    def get_event_loop() -> asyncio.AbstractEventLoop:
        """asyncio.get_event_loop"""
        try:
            return original()
        except Exception:  # a RuntimeError: no loop is set
            if not may_park():
                raise
        return background_loop()

    return get_event_loop


def offer() -> None:
    """Make OfferingPolicy asyncio's policy in an unpatched server, unless the program has chosen a policy. A
    loop that the program has set is kept."""
    events: Any = asyncio.events  # asyncio warns where it is asked for its policy
    if not HAS_POLICIES:
        if events.get_event_loop.__module__ != __name__:
            _bind([_offering(events.get_event_loop)])
        return
    chosen = events._event_loop_policy
    if chosen is None or type(chosen) is DefaultPolicy:
        policy = OfferingPolicy()
        policy.__dict__.update({} if chosen is None else chosen.__dict__)
        events._event_loop_policy = policy


def install() -> None:
    """Make all new asyncio loops EventLoops: asyncio.run() uses one, and get_event_loop() returns a thread's
    background loop, which always runs."""
    if not HAS_POLICIES:
        _bind(EventLoopPolicy().functions())
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.set_event_loop_policy(EventLoopPolicy())


def _bind(functions: Iterable[Callable[..., Any]]) -> None:
    """Bind the functions in asyncio. Without the patch, a module keeps a function that it has imported by
    name."""
    for function in functions:
        for module in (asyncio, asyncio.events):
            setattr(module, function.__name__, function)
