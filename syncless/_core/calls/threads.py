"""Calls in real OS threads: the calling tasklet waits for the result while others run.

run_in_thread() is public; files, lingering sockets and the patch have their own pools. Threads that are
tasklets belong to the patch (patches/threads.py).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import atexit
import contextvars
import os
import weakref
from _queue import Empty, SimpleQueue
from collections import deque
from collections.abc import Callable, Iterable
from sys import is_finalizing
from typing import Any, ParamSpec, TypeVar

from syncless._core.cpython.forkhooks import at_fork, look
from syncless._core.cpython.functions import original_of
from syncless._core.cpython.replacing import own_function
from syncless._core.cpython.tracing import begin_call, end_call
from syncless._core.current import directly
from syncless._core.threadloop import current_loop
from syncless._core.wait.sync import Event, Semaphore

P = ParamSpec("P")
T = TypeVar("T")

# The interpreter's own, whatever is put in their place (syncless.patches, a debugger).
start_os_thread, new_os_lock = own_function(_thread, "start_new_thread"), _thread.allocate_lock
_put, _get = original_of(SimpleQueue.put), original_of(SimpleQueue.get)
_sigmask, _get_ident = _signal.pthread_sigmask, original_of(_thread.get_ident)

FAULTS = {"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGTRAP"}
HELD_BACK = sorted(_signal.valid_signals() - {getattr(_signal, name) for name in FAULTS})
"""Signals that a pool's thread leaves to others. A fault is its own."""

IDLE_SECONDS = 10.0
"""Seconds. A worker thread that has had nothing to do for that time ends."""


_pools: weakref.WeakSet[ThreadPool] = weakref.WeakSet()
"""All that there are."""
_used: set[ThreadPool] = set()
"""Those that have threads, or have had some until the last fork, which looks at no others."""

workers: set[int] = set()
"""The threads of all pools, by their get_ident()."""

settle: Callable[[Callable[[], bool]], object] | None = None
"""settle(has_ended) is called in a tasklet that has given a call to a pool, before it waits: virtual time
gives the call a moment in which no other tasklet runs."""

_starting: deque[None] = deque()
"""One for each thread that has been started and has not begun."""


def start_thread(body: Callable[[], object]) -> None:
    """Run body() in an OS thread. Raise RuntimeError if the system refuses to start one.

    Danger: a new thread reads memory that the exiting interpreter frees, and crashes (CPython 3.10, 3.11).
    Decision: the exit waits until all threads have begun. Guarded by
    tests/core/test_threads.py::test_end_of_the_process_waits_for_threads_that_have_not_begun.
    """
    _starting.append(None)
    try:
        start_os_thread(_begin, (body,))
    except BaseException:
        _starting.pop()
        raise


def _begin(body: Callable[[], object]) -> None:
    """Run body() untraced.

    Fact: a debugger traces each new thread, and stops all threads at a breakpoint. Danger: the debugger's own
    thread opens a file, and waits for a pool thread that it has stopped. Decision: pool threads are not
    traced, except for calls of the program's functions. Guarded by
    tests/patches/test_tools.py::test_debugpy_stops_at_each_breakpoint.
    """
    end_call()
    _starting.pop()
    body()


def _wait_for_beginnings() -> None:
    never = new_os_lock()
    never.acquire()
    tries = 10_000
    while _starting and tries:
        never.acquire(timeout=0.001)
        tries -= 1


atexit.register(_wait_for_beginnings)


class _Waker(SimpleQueue[None]):
    """The queue in which an idle thread waits to be woken."""

    number: int
    """The system's number of the thread."""


class _Job:
    """One call on its way through a pool."""

    __slots__ = (
        "abandoned",
        "args",
        "context",
        "done",
        "error",
        "function",
        "kwargs",
        "mask",
        "place",
        "value",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        place: Semaphore | None = None,
    ):
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.context = contextvars.copy_context()
        self.done = Event()
        self.value: Any = None
        self.error: BaseException | None = None
        self.abandoned = False
        self.mask = _sigmask(_signal.SIG_BLOCK, ())
        """Signals that the calling thread blocks; child processes of the call inherit it."""
        self.place = place
        """Where a unit is given back when a thread is done with it."""


class ThreadPool:
    """At most `size` OS threads, started when needed, that run calls in FIFO order. For a size that changes,
    pass a function.

    Fact: a finaliser or a signal handler may run between any two steps here and call the same pool, so it
    would wait forever for a lock. Danger: a thread ends or becomes idle just when a new call relies on it.
    Decision: each step is one call of C code. The caller first puts the call into the backlog, then looks for
    a thread. A thread first marks itself idle, or ends, and then checks the backlog again. Guarded by
    tests/core/test_loop.py::test_calls_given_while_threads_fall_idle.
    """

    def __init__(self, size: int | Callable[[], int], traced: bool = False):
        """If `traced`, calls begin with the functions of threading.settrace() and setprofile(), as new
        threads do."""
        self._size = size if callable(size) else lambda: size
        self._traced = traced
        if self.size < 1:
            raise ValueError(f"the size of a pool must be at least 1 thread, not {size}")
        self._backlog: deque[_Job] = deque()
        self._idle: list[_Waker] = []
        """Of threads that have nothing to do, the last one last."""
        self._threads = 0
        self._ends = False
        """Idle threads end at once."""
        _pools.add(self)

    @property
    def size(self) -> int:
        return self._size()

    def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run function(*args, **kwargs) in a thread; the tasklet waits for its result or exception. A tasklet
        that is killed or times out resumes immediately: a call that has not begun is dropped; any other call
        runs to its end, and its result is lost.
        """
        return self._run(_Job(function, args, kwargs))  # type: ignore[no-any-return]

    def start(self, function: Callable[[], object]) -> None:
        """Schedule function() to run in a thread. No code waits for it: the function must handle its own
        exceptions."""
        look()
        self._give(_Job(function, (), {}))

    def end_threads(self) -> list[int]:
        """Let threads end as soon as no calls are left. Return the native IDs of the idle threads."""
        look()
        self._ends = True
        numbers = []
        while self._idle:
            try:
                waker = self._idle.pop()
            except IndexError:
                break  # the last one has just found something to do
            numbers.append(waker.number)
            _put(waker, None)
        return numbers

    def _run(self, job: _Job) -> Any:
        if is_finalizing():  # no other thread runs any more
            return job.function(*job.args, **job.kwargs)
        loop = current_loop()  # first: so begins the child of a library in C
        look()
        try:
            self._give(job)
        except RuntimeError as error:  # Python 3.12 starts none from the beginning of its end
            if "interpreter shutdown" not in str(error):
                raise
            return job.function(*job.args, **job.kwargs)
        loop.jobs += 1
        try:
            if settle is not None:
                settle(job.done.is_set)
            job.done.wait()
        except BaseException:
            job.abandoned = True
            raise
        finally:
            loop.jobs -= 1
        if job.error is not None:
            try:
                raise job.error
            finally:
                job.error = None  # the traceback refers to this frame, which refers to the job
        return job.value

    def _give(self, job: _Job) -> None:
        self._backlog.append(job)
        if self._idle:
            try:
                _put(self._idle.pop(), None)
                return
            except IndexError:
                pass  # somebody else was faster
        if self._threads < self.size:
            self._threads += 1
            _used.add(self)
            try:
                start_thread(self._work)
            except RuntimeError:  # the system refuses
                self._threads -= 1
                if not self._threads:
                    self._backlog.remove(job)
                    if job.place is not None:
                        job.place.release()
                    raise

    def _work(self) -> None:
        """Run jobs until the thread ends. Between jobs the thread blocks signals: a signal that the program
        blocks would end the process here."""
        _sigmask(_signal.SIG_BLOCK, HELD_BACK)
        waker = _Waker()
        waker.number = _thread.get_native_id()
        ident = _get_ident()
        workers.add(ident)
        while (job := self._next(waker)) is not None:
            if not job.abandoned:
                _sigmask(_signal.SIG_SETMASK, job.mask)
                if self._traced:
                    begin_call()
                try:
                    job.value = job.context.run(job.function, *job.args, **job.kwargs)
                except BaseException as error:
                    job.error = error
                if self._traced:
                    end_call()
                _sigmask(_signal.SIG_BLOCK, HELD_BACK)
            job.done.set()
            if job.place is not None:
                job.place.release()
            del job
        workers.discard(ident)

    def _next(self, waker: _Waker) -> _Job | None:
        """Return the next job, or None if the thread must end, such as after IDLE_SECONDS without a job."""
        while True:
            if self._threads > self.size:  # which has changed: others do what there is
                self._threads -= 1
                if self._threads:
                    return None
                self._threads += 1
            try:
                return self._backlog.popleft()
            except IndexError:
                if self._ends:
                    self._threads -= 1
                    if not self._backlog:
                        return None
                    self._threads += 1
                self._idle.append(waker)
            if (self._backlog or self._ends) and self._is_withdrawn(waker):
                continue
            try:
                _get(waker, timeout=IDLE_SECONDS)
            except Empty:
                if self._is_withdrawn(waker):
                    self._threads -= 1
                    if not self._backlog:
                        return None
                    self._threads += 1
                else:
                    _get(waker)  # the word is on its way

    def _is_withdrawn(self, waker: _Waker) -> bool:
        """Remove the waker from the idle ones. Return False if another thread has just removed it, to wake
        this one."""
        try:
            self._idle.remove(waker)
        except ValueError:
            return False
        return True


class Share:
    """At most `size` of the many threads of one pool, for calls that may all wait for the same resource, such
    as a disk or a lock.

    A call keeps its place until its thread has finished it, even if no tasklet waits for it any more.
    """

    def __init__(self, size: int):
        self.size = size
        self._places = Semaphore(size)
        _shares.add(self)

    def is_free(self) -> bool:
        """Return whether no call has a place or waits for one."""
        look()
        return self._places.value == self.size

    def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Like ThreadPool.run(), but wait for a place first."""
        return self.run_soon(None, function, *args, **kwargs)

    def run_soon(self, seconds: float | None, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Like run(), but wait for a place for at most `seconds`, then run without one."""
        look()
        places = self._places
        job = _Job(function, args, kwargs, places if places.acquire(timeout=seconds) else None)
        return _many._run(job)  # type: ignore[no-any-return]


def run_unwaited(function: Callable[[], object]) -> None:
    """Like ThreadPool.start(), but in the pool that the shares use."""
    _many.start(function)


_shares: weakref.WeakSet[Share] = weakref.WeakSet()
_many = ThreadPool(1024)
_pool = ThreadPool(32, traced=True)


def run_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run function(*args, **kwargs) in a real OS thread of a shared pool (32 threads) while other tasklets
    run.

    Use it for calls that would block the loop: C libraries, or long computations that release the GIL. Return
    the function's result, or raise its exception. The function sees the caller's context variables.
    """
    return _pool.run(function, *args, **kwargs)


def thread_count() -> int:
    """Return the current number of OS threads in the shared pool."""
    look()
    return _pool._threads


def wait_until_left(numbers: Iterable[int], seconds: float) -> None:
    """Wait in this OS thread, for at most `seconds`, until the system has removed these ending threads."""
    never = new_os_lock()
    never.acquire()
    tries = int(seconds / 0.0001)
    for number in numbers:
        while tries and directly(os.path.exists, f"/proc/self/task/{number}"):
            never.acquire(timeout=0.0001)
            tries -= 1


_resting: list[ThreadPool] = []
"""Whose idle threads have ended because the process forks, see sidethread.py."""


def _before_fork() -> None:
    numbers = []
    for pool in list(_used):
        if not pool._threads:
            _used.discard(pool)
        elif not pool._ends:
            numbers += pool.end_threads()
            _resting.append(pool)
    wait_until_left(numbers, 1.0)


def _after_fork_in_parent() -> None:
    while _resting:
        _resting.pop()._ends = False


def _after_fork_in_child() -> None:
    _after_fork_in_parent()
    _starting.clear()
    _used.clear()
    for pool in _pools:  # their threads did not come along, and who waited for them is not here either
        pool._backlog.clear()
        pool._idle.clear()
        pool._threads = 0
    for share in _shares:
        share._places = Semaphore(share.size)


at_fork(before=_before_fork, in_parent=_after_fork_in_parent, at_first_use=_after_fork_in_child)
