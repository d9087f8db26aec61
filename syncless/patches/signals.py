"""Patches signals: waiting for a signal parks the tasklet, and handlers are called in the main tasklet.

A handler is called immediately, wherever the main OS thread is, on top of the main tasklet's wait, as
`_core/handling.pyx` explains. So its exceptions (above all KeyboardInterrupt) are raised in the main tasklet,
not in the running one, which may be a thread that would print the exception and continue. If the main tasklet
has not yet raised the previous exception, the running tasklet blocks the OS thread, and the new exception is
raised in that tasklet.

The main tasklet is the main thread; in the child of a fork it is the tasklet that forked. No other tasklet
can set handlers.

sigwait and similar calls wait for a descriptor that reports blocked signals. Systems other than Linux have
none; there the calls query the kernel every few milliseconds. A signal that is not blocked would end the
process meanwhile. So the signal has a handler as long as a tasklet waits for it. Blocking the signal instead
would not work: child processes and new OS threads would inherit the mask, and older threads would not block
the signal.
"""

from __future__ import annotations

import _thread
import errno
import math
import os
import signal
import stat
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from syncless._core.calls.descriptors import pending_descriptor
from syncless._core.cpython.functions import original_of
from syncless._core.current import current, give_way
from syncless._core.handling import call_handler, is_main_thread, main_tasklet
from syncless._core.tasklet import Tasklet
from syncless._core.threadloop import current_loop
from syncless._core.wait.select import readable, select
from syncless._core.wait.sync import Event
from syncless.patches.registry import Patcher, when_imported
from syncless.tools.results import AsyncResult

PAUSE = 0.005
"""Seconds between two checks for a signal, where no descriptor tells of it."""

_get_os_ident = original_of(_thread.get_ident)
_signal, _getsignal = original_of(signal.signal), original_of(signal.getsignal)
_set_wakeup_fd = original_of(signal.set_wakeup_fd)
_sigtimedwait: Any = original_of(getattr(signal, "sigtimedwait", None))
_sigwait: Any = original_of(getattr(signal, "sigwait", None))
_pthread_sigmask: Any = original_of(getattr(signal, "pthread_sigmask", None))
_named_signals = {int(number) for number in signal.Signals}
_masks: weakref.WeakKeyDictionary[Tasklet[Any], set[Any]] = weakref.WeakKeyDictionary()
"""The signals blocked by tasklets other than the main one."""
_came: list[Event] = []
"""An event for each tasklet in pause()."""
_wakeup: tuple[int, bool] = (-1, True)
"""The program's own wake-up descriptor, and whether to warn when it is full."""
_more_wakeups: weakref.WeakKeyDictionary[Tasklet[Any], tuple[int, bool]] = weakref.WeakKeyDictionary()
"""The same for other tasklets, which run a loop that only knows OS threads."""


in_its_thread: list[Callable[[Tasklet[Any]], bool]] = []
"""Whether a tasklet is no thread of its own for the program: greenlets of eventlet and gevent are in that of
the hub."""


def _hears_signals() -> bool:
    """Return whether this code may set handlers."""
    me = current()
    if is_main_thread():
        return True
    return me is not None and main_tasklet() is not None and any(asks(me) for asks in in_its_thread)


class Handler:
    """Calls a handler of the program."""

    def __init__(self, function: Callable[[int, Any], object]):
        self.function = function

    def __call__(self, number: int, frame: Any) -> None:
        _write_wakeups(number)
        try:
            call_handler(self.function, number, frame)
        finally:
            _tell_pausing()


def _tell_pausing() -> None:
    while _came:
        _came.pop().set()


def _write_wakeups(number: int) -> None:
    for fd, warn in (_wakeup, *_more_wakeups.values()):
        if fd >= 0:
            _write_wakeup(fd, warn, number)


def _write_wakeup(fd: int, warn: bool, number: int) -> None:
    ignored = f"Exception ignored when trying to write to the signal wakeup fd {fd}"
    try:
        os.write(fd, bytes([number]))
    except BlockingIOError:
        if warn:
            print(f"{ignored}: it is full", file=sys.stderr)
    except OSError as error:
        print(f"{ignored}: {error}", file=sys.stderr)


class Awaited:
    """Replaces the handler of an unblocked signal while tasklets wait for that signal."""

    def __init__(self, before: Any):
        self.before = before
        self.waiters: list[AsyncResult[int]] = []

    def __call__(self, number: int, frame: Any) -> None:
        for waiter in self.waiters:
            if not waiter.ready():
                waiter.set(number)
                return


def _shown(handler: Any) -> Any:
    while isinstance(handler, Awaited):
        handler = handler.before
    return handler.function if isinstance(handler, Handler) else handler


def set_signal(signalnum: int, handler: Any) -> Any:
    """Set a handler like signal.signal; the handler interrupts the main tasklet."""
    if not _hears_signals():
        raise ValueError("signal only works in main thread of the main interpreter")
    new = Handler(handler) if callable(handler) else handler
    old = _getsignal(signalnum)
    if not isinstance(old, Awaited):
        return _shown(_signal(signalnum, new))
    _signal(signalnum, new)  # which refuses an object that is no handler
    _signal(signalnum, old)
    shown, old.before = _shown(old), new
    return shown


def getsignal(signalnum: int) -> Any:
    """Return the handler that the program has set, like signal.getsignal."""
    return _shown(_getsignal(signalnum))


def set_wakeup_fd(fd: int, /, *, warn_on_full_buffer: bool = True) -> int:
    """Set the program's descriptor, like signal.set_wakeup_fd. The loop has its own, and also writes to this
    one."""
    if not _hears_signals():
        raise ValueError("set_wakeup_fd only works in main thread of the main interpreter")
    return _take_wakeup_fd(fd, warn_on_full_buffer)


def set_wakeup_fd_of_tasklet(fd: int, /, *, warn_on_full_buffer: bool = True) -> int:
    """Replace signal.set_wakeup_fd for uvloop, in any tasklet. Each tasklet has its own descriptor."""
    if is_main_thread() or main_tasklet() is None:
        return set_wakeup_fd(fd, warn_on_full_buffer=warn_on_full_buffer)
    return _take_wakeup_fd(fd, warn_on_full_buffer, current())


def _take_wakeup_fd(fd: int, warn: bool, tasklet: Tasklet[Any] | None = None) -> int:
    global _wakeup
    if fd != -1 and (stat.S_ISREG(os.fstat(fd).st_mode) or os.get_blocking(fd)):
        raise ValueError(f"the fd {fd} must be in non-blocking mode")
    if tasklet is None:
        before, _wakeup = _wakeup[0], (fd, warn)
    else:
        before = _more_wakeups.pop(tasklet, (-1, True))[0]
        if fd != -1:
            _more_wakeups[tasklet] = fd, warn
    return before


def pthread_sigmask(how: int, mask: Any) -> set[Any]:
    """Change the mask like signal.pthread_sigmask. Signals go to the main tasklet, so the mask of any other
    tasklet is only recorded."""
    tasklet = current()
    if tasklet is None or is_main_thread() or main_tasklet() is None:
        return set(_pthread_sigmask(how, mask))
    named = {signal.Signals(number) if number in _named_signals else number for number in mask}
    before: set[Any] = _masks.get(tasklet) or set(_pthread_sigmask(signal.SIG_BLOCK, []))
    if how == signal.SIG_BLOCK:
        _masks[tasklet] = before | named
    elif how == signal.SIG_UNBLOCK:
        _masks[tasklet] = before - named
    elif how == signal.SIG_SETMASK:
        _masks[tasklet] = named
    else:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return set(before)


def pause() -> None:
    """Park until a handler has been called, like signal.pause."""
    came = Event()
    _came.append(came)
    try:
        came.wait()
    finally:
        if came in _came:
            _came.remove(came)


def sigtimedwait(sigset: Any, timeout: float, /) -> Any:
    """signal.sigtimedwait, cooperative."""
    if timeout < 0:
        raise ValueError("timeout must be non-negative")
    return _wait_for(list(sigset), time.monotonic() + timeout)


def sigwaitinfo(sigset: Any, /) -> Any:
    """signal.sigwaitinfo, cooperative."""
    return _wait_for(list(sigset), None)


def sigwait(sigset: Any) -> signal.Signals:
    """signal.sigwait, cooperative."""
    return signal.Signals(sigwaitinfo(sigset).si_signo)


def _wait_for(wanted: list[int], until: float | None) -> Any:
    """Wait for a signal and return its struct_siginfo, or None after the timeout."""
    give_way()  # a loop around it may never wait
    found = _take_pending(wanted)
    if found is not None or (until is not None and time.monotonic() >= until):
        return found
    came: AsyncResult[int] = AsyncResult()
    pending = pending_descriptor(wanted)
    _await_signals(wanted, came)
    try:
        while found is None and (until is None or time.monotonic() < until):
            left = math.inf if until is None else max(0.0, until - time.monotonic())
            left = min(left, PAUSE) if pending < 0 else left
            cases: list[Any] = [came] if pending < 0 else [came, readable(pending)]
            if select(cases, None if left == math.inf else left)[0] == 0:
                found = _siginfo(came.get())
            else:
                found = _take_pending(wanted)  # which another may have taken
        return found
    finally:
        _await_signals_no_more(wanted, came)
        if pending >= 0:
            os.close(pending)


def _take_pending(wanted: list[int]) -> Any:
    """Return the struct_siginfo of a pending signal without waiting, or None."""
    if _sigtimedwait is not None:
        return _sigtimedwait(wanted, 0)
    pending = signal.sigpending() & set(wanted)  # macOS has sigwait only
    return _siginfo(_sigwait(pending)) if pending else None


def _siginfo(number: int) -> Any:
    """Return the struct_siginfo of a signal from an unknown sender."""
    kind = getattr(signal, "struct_siginfo", None)
    return SimpleNamespace(si_signo=number) if kind is None else kind((number, 0, 0, 0, 0, 0, 0))


def _await_signals(wanted: list[int], came: AsyncResult[int]) -> None:
    if main_tasklet() is None:
        return  # an OS thread, which cannot set handlers
    for number in wanted:
        old = _getsignal(number)
        if not isinstance(old, Awaited):
            if old is None or (isinstance(old, Handler) and not is_main_thread()):
                # a handler of a C library, or of the program, which the main thread would call
                continue
            old = Awaited(old)
            try:
                _signal(number, old)
            except OSError:
                continue  # SIGKILL and SIGSTOP
        old.waiters.append(came)


def _await_signals_no_more(wanted: list[int], came: AsyncResult[int]) -> None:
    for number in wanted:
        awaited = _getsignal(number)
        if isinstance(awaited, Awaited) and came in awaited.waiters:
            awaited.waiters.remove(came)
            if not awaited.waiters:
                _signal(number, awaited.before)


def _for_all_handlers(change: Callable[[Any], Any]) -> None:
    for number in signal.valid_signals():
        handler = _getsignal(number)
        if isinstance(handler, Awaited):
            if callable(handler.before) and not isinstance(handler.before, signal.Handlers):
                handler.before = change(handler.before)
        elif callable(handler) and not isinstance(handler, signal.Handlers):
            _signal(number, change(handler))


def _restore_handlers() -> None:
    global _wakeup
    _for_all_handlers(_shown)
    if _wakeup[0] >= 0:
        _set_wakeup_fd(_wakeup[0], warn_on_full_buffer=_wakeup[1])
        _wakeup = (-1, True)


@contextmanager
def _for_os_threads() -> Iterator[None]:
    """Replace signal.set_wakeup_fd while a module that copies it is executed."""
    usual: Any = signal.set_wakeup_fd
    signal.set_wakeup_fd = set_wakeup_fd_of_tasklet
    try:
        yield
    finally:
        signal.set_wakeup_fd = usual


def patch(patcher: Patcher) -> None:
    global _wakeup
    for function in (sigtimedwait, sigwaitinfo, sigwait):
        patcher.rebind(signal, function.__name__, function, "stops the thread")
    patcher.rebind(signal, "pause", pause, "stops the thread")
    _wakeup = (current_loop().take_wakeup_fd(), True)
    patcher.rebind(signal, "pthread_sigmask", pthread_sigmask, "blocks signals for all tasklets")
    patcher.rebind(signal, "signal", set_signal, "lets a handler interrupt whichever tasklet runs")
    patcher.rebind(signal, "getsignal", getsignal, "shows the object in a handler's place")
    patcher.rebind(signal, "set_wakeup_fd", set_wakeup_fd, "takes away the descriptor that wakes the loop")
    when_imported(patcher, "uvloop.loop", lambda *_: None, around=_for_os_threads)
    _for_all_handlers(Handler)
    patcher.note("signal handlers", Handler, "interrupt whichever tasklet runs", _restore_handlers)
