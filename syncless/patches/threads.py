"""Patches _thread, and with it threading, queue, concurrent.futures and everything else that uses its locks
and threads.

A thread started from now on is a tasklet of the thread that starts it. Locks, RLocks and SimpleQueues, old
and new, park instead of blocking (see patches/types/locks.pyx), except in OS threads without a loop, where
they are unchanged. So everything built on them waits cooperatively, too. Condition, Event and Queue get
faster implementations (see patches/types/locks.pyx).
"""

from __future__ import annotations

import _thread
import dis  # noqa: F401  cleanup.py needs it where a tasklet waits for a module's lock, which must import nothing
import importlib
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextvars import Context
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

from syncless._core.calls.threads import start_os_thread, thread_count
from syncless._core.cpython.forkhooks import at_fork, look
from syncless._core.cpython.functions import class_of, original_of
from syncless._core.cpython.threadlocal import separate_thread_locals
from syncless._core.current import current, may_park
from syncless._core.handling import is_main_thread
from syncless._core.tasklet import Tasklet, as_thread, at_end_of_slot, end_thread_locals, set_in, spawn
from syncless._core.threadloop import all_loops, current_loop
from syncless._core.wait.sync import Event
from syncless.patches import anyio, deadlocks, debuggers, stacks
from syncless.patches.preemption import Preemption
from syncless.patches.registry import Patcher, instances_of, when_imported
from syncless.patches.types import locks
from syncless.patches.types.locks import watch_threads

_active: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
_current_thread = original_of(threading.current_thread)
_get_ident = original_of(_thread.get_ident)
_dummy_init = threading._DummyThread.__init__  # type: ignore[attr-defined]
_condition: Any = class_of(threading, "Condition")
_thread_class: Any = class_of(threading, "Thread")

LOCK = {
    "acquire": locks.lock_acquire,
    "acquire_lock": locks.lock_acquire,
    "__enter__": locks.lock_enter,
    "locked": locks.lock_locked,
    "locked_lock": locks.lock_locked,
    "release": locks.lock_release,
    "release_lock": locks.lock_release,
    "__exit__": locks.lock_exit,
}
RLOCK = {
    "acquire": locks.rlock_acquire,
    "__enter__": locks.rlock_enter,
    "release": locks.rlock_release,
    "__exit__": locks.rlock_exit,
    "_is_owned": locks.rlock_is_owned,
    "_recursion_count": locks.rlock_recursion_count,
    "_release_save": locks.rlock_release_save,
    "_acquire_restore": locks.rlock_acquire_restore,
}
SIMPLE_QUEUE = {
    "put": locks.simple_queue_put,
    "put_nowait": locks.simple_queue_put_nowait,
    "get_nowait": locks.simple_queue_get_nowait,
    "get": locks.simple_queue_get,
}
CONDITION = {
    "__enter__": locks.condition_enter,
    "__exit__": locks.condition_exit,
    "wait": locks.condition_wait,
    "notify": locks.condition_notify,
    "notify_all": locks.condition_notify_all,
}
EVENT = {
    "is_set": locks.event_is_set,
    "set": locks.event_set,
    "clear": locks.event_clear,
    "wait": locks.event_wait,
}
QUEUE = {"put": locks.queue_put, "get": locks.queue_get}
INTERRUPTED = "may be interrupted in the middle"
"""Fact: these take a lock to give something back, or wait for a thread to begin. Danger: what is thrown at a
tasklet that waits there leaves it taken for ever, as a module's lock that nobody can import any more, or
leaves a thread that nobody knows. Decision: it is raised at the next wait. Guarded by
tests/patches/test_locks.py and test_threads.py."""
HANDLERS = frozenset({"asgiref.sync", "falcon.util.sync", "litestar.concurrency", "quart.utils"})
"""Modules that call synchronous handlers by the default executor of asyncio's loop."""


def this_tasklet() -> Tasklet[Any]:
    """Return the running tasklet, or the main tasklet in a callback of the loop."""
    loop = current_loop()
    return current() or loop.main


running: set[Tasklet[Any]] = set()
"""The threads that are tasklets and have not ended."""
_preemption = Preemption(running.__contains__)


def let_preemption_rest(rests: bool) -> None:
    """Preempt no thread by its processor time, or do so again."""
    _preemption.rests = rests


def _begin_child() -> None:
    """Forget the parent's threads in the child of a fork, where only the thread that forked continues."""
    running.intersection_update({this_tasklet()} if all_loops() else ())
    if running:
        _preemption.start()


at_fork(at_first_use=_begin_child)


def unended() -> list[str]:
    """Return the names of all other threads that are tasklets and have not ended."""
    look()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    me = this_tasklet()
    return sorted(names.get(id(each)) or repr(each) for each in running if each is not me)


def _tell(function: Callable[..., object], error: BaseException) -> None:
    """Pass an uncaught exception to sys.unraisablehook, by raising it in a finaliser."""

    class Ended:
        def __del__(self) -> None:
            raise error

    Ended.__del__.__qualname__ = f"thread started by {function!r}"
    Ended()


def count() -> int:
    """Return the number of the program's threads, like _thread._count: OS threads and tasklets, but not the
    threads of run_in_thread."""
    return int(_count()) - thread_count() + len(running)


_count: Any = original_of(_thread._count)
_module_lock: Any = importlib._bootstrap._ModuleLock  # type: ignore[attr-defined]


def _body(function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run a thread's function in a tasklet, and report errors as the interpreter does."""
    try:
        function(*args, **kwargs)
    except SystemExit:
        pass
    except BaseException as error:
        _tell(function, error)
    finally:
        end_thread_locals()
        locks.thread_has_ended(this_tasklet())


def waits_in_c(function: Callable[..., object]) -> bool:
    """Return whether a thread's function is a C function of a library. Such a thread waits or computes in C,
    where it cannot park: the poller of grpc.aio does so until the process ends.

    A function of the standard library waits cooperatively, or does not wait.
    """
    thread = getattr(function, "__self__", None)
    if isinstance(thread, _thread_class) and _definer(type(thread), "run") is _thread_class:
        function = getattr(thread, "_target", None) or function
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__func__", function)
    if isinstance(function, FunctionType) or isinstance(vars(type(function)).get("__call__"), FunctionType):
        return False
    module = getattr(function, "__module__", None) or type(getattr(function, "__self__", None)).__module__
    return not isinstance(function, type) and module.partition(".")[0] not in _WITHOUT_WAITS


def _definer(cls: type, name: str) -> type | None:
    """Return the class that defines the member, even if the member is a wrapper that is new at each
    access."""
    return next((each for each in cls.__mro__ if name in vars(each)), None)


_WITHOUT_WAITS = {*sys.stdlib_module_names, "syncless", "greenlet"} - {"ctypes", "_ctypes"}


def start_new_thread(
    function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, /
) -> int:
    """Start a tasklet as a thread, like _thread.start_new_thread."""
    if not callable(function):
        raise TypeError("first arg must be callable")
    if not isinstance(args, tuple):
        raise TypeError("2nd arg must be a tuple")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise TypeError("optional 3rd arg must be a dictionary")
    if waits_in_c(function):
        return int(_start_os_thread(function, args, kwargs or {}))
    no_variables = Context()  # as in a new OS thread
    tasklet = as_thread(no_variables.run(spawn, _body, function, args, kwargs or {}))
    look()
    if not _preemption.wanted:
        _preemption.start()
    running.add(tasklet)
    tasklet.add_done_callback(_has_ended)  # also if it is killed before it begins
    return id(tasklet)


def _has_ended(tasklet: Tasklet[Any]) -> None:
    running.discard(tasklet)
    if not running:
        _preemption.stop()


def start_new(
    function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, /
) -> int:
    """_thread.start_new, the old name."""
    return start_new_thread(function, args, kwargs)


def set_sentinel() -> Any:
    """Return a lock that is released when the calling thread ends, like _thread._set_sentinel. Up to Python
    3.12, join() waits for this lock."""
    if locks.get_ident() == _get_os_ident():
        made = _set_sentinel()
        watch_threads()
        return made
    return locks.end_of_thread(this_tasklet())


def os_ident(ident: int) -> int:
    """Return the ident of the OS thread for an ident in the program.

    Fact: the system accepts any ident, and reads memory at that address. Danger: the ident of a tasklet is
    the address of another object. Decision: return the OS thread in which the tasklet runs.
    """
    frames = _current_frames()
    if ident in frames or (ident not in _active and ident != locks.get_ident()):
        return ident
    return next((loop.thread_id for loop in all_loops() if loop.thread_id in frames), _get_os_ident())


def pthread_kill(thread_id: int, signalnum: int, /) -> None:
    """Call signal.pthread_kill, also for a thread that is a tasklet."""
    _pthread_kill(os_ident(thread_id), signalnum)


def pthread_getcpuclockid(thread_id: int, /) -> int:
    """Return the clock of a thread, like time.pthread_getcpuclockid. All tasklets of an OS thread share
    it."""
    return int(_pthread_getcpuclockid(os_ident(thread_id)))


_current_frames = original_of(sys._current_frames)
_pthread_kill: Any = original_of(getattr(signal, "pthread_kill", None))
_pthread_getcpuclockid: Any = original_of(getattr(time, "pthread_getcpuclockid", None))
_set_sentinel: Any = original_of(getattr(_thread, "_set_sentinel", None))
_get_os_ident = original_of(_thread.get_ident)


_start_joinable_thread: Any = original_of(getattr(_thread, "start_joinable_thread", None))
_handle_type: Any = getattr(_thread, "_ThreadHandle", None)
_join_handle: Any = getattr(_handle_type, "join", None)
_start_os_thread = original_of(_thread.start_new_thread)
_ends: dict[int, Event] = {}
"""id of the handle of an OS thread that tasklets join -> event set when the thread has ended."""


def _set_at_end(handle: Any, ended: Event) -> None:
    try:
        _join_handle(handle)
    finally:
        _ends.pop(id(handle), None)
        ended.set()


def join_handle(self: Any, timeout: float | None = None) -> None:
    """Join an OS thread, like _ThreadHandle.join (Python 3.13): one other OS thread waits in C on behalf of
    all joiners."""
    waits = timeout is None or timeout < 0
    cannot_wait = self.is_done() or self.ident in (0, locks.get_ident())
    if cannot_wait or timeout == 0 or not may_park() or sys.is_finalizing():
        _join_handle(self, timeout)
        return
    look()
    ended = _ends.get(id(self))
    if ended is None:
        ended = _ends[id(self)] = Event()
        start_os_thread(_set_at_end, (self, ended))
    ended.wait(None if waits else timeout)


at_fork(at_first_use=_ends.clear)  # the waiting OS threads are the parent's


class ThreadHandle:
    """A _thread._ThreadHandle (Python 3.13) for a thread that is a tasklet."""

    def __init__(self) -> None:
        self.ident = 0
        self._done = Event()

    def is_done(self) -> bool:
        """Return whether the thread or the interpreter has ended."""
        return self._done.is_set() or (self.ident != 0 and sys.is_finalizing())

    def _set_done(self) -> None:
        self._must_be_started()
        self._done.set()

    def _must_be_started(self) -> None:
        if not self.ident:
            raise RuntimeError("thread not started")

    def join(self, timeout: float | None = None) -> None:
        self._must_be_started()
        if self.ident == locks.get_ident():
            raise RuntimeError("Cannot join current thread")
        if not self.is_done():
            self._done.wait(None if timeout is None or timeout < 0 else timeout)


def start_joinable_thread(function: Callable[[], object], *, handle: Any = None, daemon: bool = True) -> Any:
    """Start a thread like _thread.start_joinable_thread (Python 3.13). The thread is a tasklet, unless its
    handle was made before the patch."""
    if handle is not None and not isinstance(handle, ThreadHandle):
        return _start_joinable_thread(function, handle=handle, daemon=daemon)
    made = handle if handle is not None else ThreadHandle()
    if made.ident:
        raise RuntimeError("thread already started")

    def body() -> None:
        try:
            function()
        finally:
            end_thread_locals()
            made._set_done()

    made.ident = _start_os_thread(body, ()) if waits_in_c(function) else start_new_thread(body, ())
    return made


_shutdown: Any = original_of(getattr(_thread, "_shutdown", None))


def shutdown() -> None:
    """Wait for all non-daemon threads, including those started meanwhile, like _thread._shutdown (Python
    3.13)."""
    spared = {threading.main_thread(), threading.current_thread()}
    while left := [thread for thread in threading.enumerate() if not thread.daemon and thread not in spared]:
        for thread in left:
            thread._started.wait()  # type: ignore[attr-defined]
            thread.join()
    _shutdown()


_set_name: Any = original_of(getattr(_thread, "set_name", None))


def set_name(name: str) -> None:
    """Name the thread like _thread.set_name (Python 3.14); a thread that is a tasklet does not rename its OS
    thread."""
    if is_main_thread():
        _set_name(name)


_get_name: Any = original_of(getattr(_thread, "_get_name", None))


def get_name() -> str:
    """Return the thread's name like _thread._get_name (Python 3.15), as the system would shorten it."""
    if is_main_thread():
        return str(_get_name())
    encoded = current_thread().name.encode(sys.getfilesystemencoding(), "replace")
    return os.fsdecode(encoded.partition(b"\0")[0][: getattr(_thread, "_NAME_MAXLEN", None)])


def current_thread() -> threading.Thread:
    """Return the current thread; in a callback of an asyncio loop, return the thread that runs the loop."""
    # a debugger sees one for each task, see get_ident() in locks.pyx
    thread = _active.get(locks.get_ident()) if locks.is_in_tracer() else None
    return thread_of_loop() if thread is None else thread


def thread_of_loop() -> threading.Thread:
    """Return the current thread, as current_thread() does outside trace functions."""
    thread = _active.get(locks.get_thread_ident())
    return _current_thread() if thread is None else thread


def get_main_thread_ident() -> int:
    """Replace _thread._get_main_thread_ident (Python 3.13): after a fork, the tasklet that forked is the main
    thread."""
    return locks.get_ident()


def dummy_init(self: Any, *args: Any) -> None:
    """Initialise a threading._DummyThread. If it represents a tasklet or a task, it is forgotten when that
    ends."""
    _dummy_init(self, *args)
    owner = locks.owner()
    if owner is None:
        return
    number = locks.get_ident()
    forget = partial(_active.pop, number, None)
    if isinstance(owner, Tasklet):
        owner.add_done_callback(partial(_active.pop, number))  # a debugger would step into a function here
    elif not hasattr(owner, "get_name"):
        at_end_of_slot(forget)
    else:
        weakref.finalize(owner, forget).atexit = False


_set_everywhere: dict[bool, Any] = {
    False: original_of(getattr(sys, "_settraceallthreads", None)),
    True: original_of(getattr(sys, "_setprofileallthreads", None)),
}
"""By whether it is the profile function: the interpreter's own (Python 3.12)."""


def _set_in_all(profile: bool, function: Any) -> None:
    _set_everywhere[profile](function)
    for loop in all_loops():
        for tasklet in loop.tasklets():
            if tasklet.status in ("waiting", "ready"):
                set_in(tasklet, profile, function)


def set_trace_in_all_threads(function: Any, /) -> None:
    """Replace sys._settraceallthreads, for threading.settrace_all_threads()."""
    _set_in_all(False, function)


def set_profile_in_all_threads(function: Any, /) -> None:
    """Replace sys._setprofileallthreads, for threading.setprofile_all_threads()."""
    _set_in_all(True, function)


def _keep_their_idents() -> None:
    """Keep the thread of this loop in `threading`, which would lose it when a tasklet ends after
    unpatching."""
    ident = _get_ident()
    thread = _active.get(ident)

    def forget(tasklet: Tasklet[Any]) -> None:
        _active.pop(id(tasklet), None)
        if thread is not None:
            _active[ident] = thread

    for tasklet in running:
        tasklet.add_done_callback(forget)


def _renew_conditions() -> None:
    """Rebind the lock methods that each Condition has stored, because the old methods know only OS
    threads."""
    for made in instances_of(_condition):
        lock = made.__dict__.get("_lock")
        for name in ("acquire", "release", "_release_save", "_acquire_restore", "_is_owned"):
            if name in made.__dict__ and hasattr(lock, name):
                made.__dict__[name] = getattr(lock, name)


def _in_place(patcher: Patcher, owner: type, members: dict[str, Any], why: str) -> None:
    for name, new in members.items():
        if name in vars(owner):
            patcher.member_in_place(owner, name, new, why, kept=True)


def _members(patcher: Patcher, owner: Any, members: dict[str, Any], why: str) -> None:
    for name, new in members.items():
        patcher.member(owner, name, new, why)


def patch(patcher: Patcher) -> None:
    loop = current_loop()  # this thread has one from now on
    if is_main_thread():
        loop.when_stuck = deadlocks.look
        patcher.at_undo(partial(setattr, loop, "when_stuck", None))
    # noted first, because it must be undone last
    target = "threading.Condition.__dict__"
    patcher.note(target, _renew_conditions, "keeps methods of its lock", _renew_conditions)
    _in_place(patcher, _thread.LockType, LOCK, "stops the thread")
    _in_place(patcher, _thread.RLock, RLOCK, "stops the thread, and belongs to it")
    watch_threads()
    locks.ask(False)
    patcher.at_undo(partial(locks.ask, True))
    _renew_conditions()
    patcher.rebind(_thread, "get_ident", locks.get_ident, "is the same for all tasklets of a thread")
    patcher.at_undo(_keep_their_idents)
    patcher.rebind(threading, "current_thread", current_thread, "is another for each callback of asyncio")
    patcher.rebind(_thread, "_get_main_thread_ident", get_main_thread_ident, "knows OS threads only")
    patcher.rebind(_thread, "start_new_thread", start_new_thread, "starts an OS thread")
    patcher.rebind(_thread, "start_new", start_new, "starts an OS thread")
    patcher.rebind(_thread, "_count", count, "counts OS threads")
    patcher.rebind(_thread, "set_name", set_name, "names the OS thread")
    patcher.rebind(_thread, "_get_name", get_name, "names the OS thread")
    patcher.rebind(_thread, "_set_sentinel", set_sentinel, "waits for the end of an OS thread")
    # a debugger's in its place gives the handle to the interpreter's function, which starts an OS thread
    if isinstance(getattr(_thread, "start_joinable_thread", None), BuiltinFunctionType):
        patcher.rebind(_thread, "_ThreadHandle", ThreadHandle, "waits for the end of an OS thread")
    patcher.rebind(_thread, "start_joinable_thread", start_joinable_thread, "starts an OS thread")
    patcher.rebind(_thread, "_shutdown", shutdown, "does not know of threads that are tasklets")
    patcher.rebind(signal, "pthread_kill", pthread_kill, "knows OS threads only")
    patcher.rebind(time, "pthread_getcpuclockid", pthread_getcpuclockid, "knows OS threads only")
    patcher.rebind(sys, "_settraceallthreads", set_trace_in_all_threads, "sees the running tasklet only")
    patcher.rebind(sys, "_setprofileallthreads", set_profile_in_all_threads, "sees the running tasklet only")
    stacks.patch(patcher)
    debuggers.patch(patcher, thread_of_loop)
    _members(patcher, _condition, CONDITION, "takes the long way through Python")
    semaphores = (class_of(threading, name) for name in ("Semaphore", "BoundedSemaphore"))
    for owner in (_module_lock, *semaphores):
        patcher.done_whole(owner, "release", INTERRUPTED)
    patcher.done_whole(_thread_class, "start", INTERRUPTED)
    _members(patcher, class_of(threading, "Event"), EVENT, "takes the long way through Python")
    if hasattr(_thread_class, "_wait_for_tstate_lock"):
        why = "takes a thread for ended when its join is interrupted"
        patcher.member(_thread_class, "_wait_for_tstate_lock", locks.wait_for_tstate_lock, why)
    patcher.member(threading._DummyThread, "__init__", dummy_init, "stays in memory for ever")  # type: ignore[attr-defined]
    why = "is the same for all tasklets of a thread"
    patcher.note("threading.local", separate_thread_locals, why, lambda: separate_thread_locals(False))
    separate_thread_locals(True)
    if _handle_type is not None:
        patcher.member_in_place(_handle_type, "join", join_handle, "stops the thread")
    when_imported(patcher, "anyio._backends._asyncio", anyio.patch)
    when_imported(patcher, "syncless.asyncio.eventloop", _call_handlers_in_tasklets)
    when_imported(patcher, "ddtrace.bootstrap.cloning", _keep_modules)


def _call_handlers_in_tasklets(patcher: Patcher, module: Any) -> None:
    why = "calls synchronous handlers of frameworks in a few OS threads"
    patcher.member(module.EventLoop, "callers_in_tasklets", HANDLERS, why)


def _keep_modules(patcher: Patcher, module: Any) -> None:
    """Keep `import ddtrace.auto` from reloading threading and _thread, unpatched, where gevent is
    installed."""
    patcher.member_of_module(module, "enabled", False, "loads threading anew for the sake of gevent")


def patch_queue(patcher: Patcher) -> None:
    import _queue
    import queue

    fifo = class_of(queue, "Queue")
    _in_place(patcher, _queue.SimpleQueue, SIMPLE_QUEUE, "stops the thread")
    _members(patcher, fifo, QUEUE, "takes the long way through Python")
    patcher.done_whole(fifo, "task_done", INTERRUPTED)
