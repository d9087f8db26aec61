"""Signals: waiting for them parks, and handlers interrupt the main tasklet, as they interrupt the main thread elsewhere.

A handler is called at once, wherever the main OS thread is, but what it raises (KeyboardInterrupt above all) is raised in the main tasklet
and not in the one that happens to run: that may be a thread of the program, which would print it and go on. If the main tasklet has not
even taken note of the last one, a tasklet holds the OS thread, and the exception stops that one.

The standard library has no descriptor for a blocked signal, so sigwait and its kin ask the kernel every few milliseconds.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from syncless._core.loop import current_loop
from syncless._core.sync import Event
from syncless._core.tasklet import MainTasklet, Tasklet, current, sleep
from syncless.patches.registry import Patcher

PAUSE = 0.005
"""Seconds between two looks for a signal."""

_signal, _getsignal = signal.signal, signal.getsignal
_set_wakeup_fd = signal.set_wakeup_fd
_sigtimedwait: Any = getattr(signal, "sigtimedwait", None)
_pthread_sigmask: Any = getattr(signal, "pthread_sigmask", None)
_named_signals = {int(number) for number in signal.Signals}
_masks: weakref.WeakKeyDictionary[Tasklet, set[Any]] = weakref.WeakKeyDictionary()
"""What other tasklets than the main one have blocked."""
_came: list[Event] = []
"""One for each tasklet in pause()."""
_wakeup: tuple[int, bool] = (-1, True)
"""The program's own wake-up descriptor, and whether to warn when it is full."""


class Handler:
    """A handler of the program, called for it."""

    def __init__(self, function: Callable[[int, Any], object]):
        self.function = function

    def __call__(self, number: int, frame: Any) -> None:
        _write_wakeup(number)
        while _came:
            _came.pop().set()
        tasklet = current()
        if tasklet is None or isinstance(tasklet, MainTasklet):
            self.function(number, frame)
            return
        try:
            self.function(number, frame)
        except BaseException as error:
            main = current_loop().main
            if not main.interrupt(error):
                raise


def _write_wakeup(number: int) -> None:
    fd, warn = _wakeup
    if fd < 0:
        return
    try:
        os.write(fd, bytes([number]))
    except BlockingIOError:
        if warn:
            print(f"Exception ignored when trying to write to the signal wakeup fd {fd}: it is full", file=sys.stderr)
    except OSError as error:
        print(f"Exception ignored when trying to write to the signal wakeup fd {fd}: {error}", file=sys.stderr)


def _shown(handler: Any) -> Any:
    return handler.function if isinstance(handler, Handler) else handler


def set_signal(signalnum: int, handler: Any, /) -> Any:
    """signal.signal: the handler interrupts the main tasklet."""
    return _shown(_signal(signalnum, Handler(handler) if callable(handler) else handler))


def getsignal(signalnum: int, /) -> Any:
    """signal.getsignal: the handler that the program has set."""
    return _shown(_getsignal(signalnum))


def set_wakeup_fd(fd: int, /, *, warn_on_full_buffer: bool = True) -> int:
    """signal.set_wakeup_fd: the loop needs the interpreter's own, and writes to the program's in its place."""
    global _wakeup
    if threading.current_thread() is not threading.main_thread():
        raise ValueError("set_wakeup_fd only works in main thread of the main interpreter")
    if fd != -1 and (stat.S_ISREG(os.fstat(fd).st_mode) or os.get_blocking(fd)):
        raise ValueError(f"the fd {fd} must be in non-blocking mode")
    before, _wakeup = _wakeup[0], (fd, warn_on_full_buffer)
    return before


def pthread_sigmask(how: int, mask: Any, /) -> set[Any]:
    """signal.pthread_sigmask: signals go to the main tasklet, so what any other one blocks is noted for it and nothing else."""
    tasklet = current()
    if tasklet is None or isinstance(tasklet, MainTasklet):
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
    """signal.pause, cooperative: parks until a handler has been called."""
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
    wanted = list(sigset)
    until = time.monotonic() + timeout
    while True:
        found = _sigtimedwait(wanted, 0)
        if found is not None or time.monotonic() >= until:
            return found
        sleep(min(PAUSE, max(0.0, until - time.monotonic())))


def sigwaitinfo(sigset: Any, /) -> Any:
    """signal.sigwaitinfo, cooperative."""
    wanted = list(sigset)
    while True:
        found = _sigtimedwait(wanted, 0)
        if found is not None:
            return found
        sleep(PAUSE)


def sigwait(sigset: Any, /) -> signal.Signals:
    """signal.sigwait, cooperative."""
    return signal.Signals(sigwaitinfo(sigset).si_signo)


def _for_all_handlers(change: Callable[[Any], Any]) -> None:
    for number in signal.valid_signals():
        handler = _getsignal(number)
        if callable(handler) and not isinstance(handler, signal.Handlers):
            _signal(number, change(handler))


def _restore_handlers() -> None:
    global _wakeup
    _for_all_handlers(_shown)
    if _wakeup[0] >= 0:
        _set_wakeup_fd(_wakeup[0], warn_on_full_buffer=_wakeup[1])
        _wakeup = (-1, True)


def patch(patcher: Patcher) -> None:
    global _wakeup
    for function in (sigtimedwait, sigwaitinfo, sigwait):
        if _sigtimedwait is not None:
            patcher.rebind(signal, function.__name__, function, "stops the thread")
    patcher.rebind(signal, "pause", pause, "stops the thread")
    _wakeup = (current_loop().take_wakeup_fd(), True)
    patcher.rebind(signal, "pthread_sigmask", pthread_sigmask, "blocks signals for all tasklets")
    patcher.rebind(signal, "signal", set_signal, "lets a handler interrupt whichever tasklet runs")
    patcher.rebind(signal, "getsignal", getsignal, "shows what stands in a handler's place")
    patcher.rebind(signal, "set_wakeup_fd", set_wakeup_fd, "takes away what wakes the loop")
    _for_all_handlers(Handler)
    patcher.note("the handlers of signals", Handler, "interrupt whichever tasklet runs", _restore_handlers)
