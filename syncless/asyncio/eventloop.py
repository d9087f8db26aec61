"""EventLoop: an asyncio event loop whose callbacks, timers and descriptors wait in the engine's own loop.

callbacks.pyx calls the callbacks; transports, servers and child processes come from the standard library.
This module connects both to the engine's name lookups, signals and threads.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import selectors
import signal
import socket
import sys
from asyncio import Task, coroutines, selector_events, sslproto
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from syncless._core.cpython.features import LEAVES_MARK_OF_CANCELLATION
from syncless._core.cpython.forkhooks import at_fork
from syncless._core.cpython.layouts import UnknownLayout
from syncless._core.cpython.layouts import checked as checked_layout
from syncless._core.cpython.replacing import set_in_type
from syncless._core.loop import Loop
from syncless._core.threadloop import current_loop
from syncless.asyncio.callbacks import Callbacks
from syncless.asyncio.reports import logger
from syncless.asyncio.tasklets import call_in_tasklet
from syncless.asyncio.transports import SocketTransport
from syncless.io import dns
from syncless.tools.realthreads import RealThreadPoolExecutor

_SelectorEventLoop: Any = asyncio.SelectorEventLoop
"""Untyped: its stubs do not name what a loop built on it has to redefine."""

_RECEIVE_BYTES = 65536
"""Of a transport's recv(). For the 256 KiB of the standard library, malloc() maps and unmaps memory at each
call, which took three times the CPU of all else."""

_getaddrinfo, _getnameinfo = socket.getaddrinfo, socket.getnameinfo
"""Where others stand in their places, a program has put them there."""

_running: WeakKeyDictionary[Loop, list[EventLoop]] = WeakKeyDictionary()
"""The engine's loop of a thread -> the loops that run on it, the last one last."""


at_fork(in_child=_running.clear)  # they run in the parent only


class _NoSelector(selectors.BaseSelector):
    """Replaces the selector in which an asyncio loop usually waits."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        raise NotImplementedError(
            "this loop has no selector, because it waits in the engine's loop: use add_reader() and "
            "add_writer()"
        )

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        raise KeyError(fileobj)

    def select(self, timeout: float | None = None) -> list[Any]:
        return []

    def get_map(self) -> Any:
        return {}


class EventLoop(Callbacks, _SelectorEventLoop):  # type: ignore[misc]
    """An asyncio event loop that runs beside tasklets, and in which a blocking call blocks only its own
    task."""

    of_thread = False
    """Whether it is the loop that its thread always has. Its callbacks then are in that thread, not in the
    tasklet that runs it."""

    callers_in_tasklets: frozenset[str] = frozenset()
    """Modules whose calls of run_in_executor(None, ...) are made in tasklets, unless the program chooses."""

    _default_executor: Any
    """The base's: the executor for None."""

    def __init__(self) -> None:
        super().__init__(_NoSelector())
        self._executor: str | None = None
        self._threads: RealThreadPoolExecutor | None = None
        """The default executor, if it was made here."""
        self._calls: set[asyncio.Future[Any]] = set()
        """Calls of the default executor in tasklets that have not ended."""

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} running={self.is_running()} closed={self.is_closed()} "
            f"debug={self.get_debug()}>"
        )

    def _make_self_pipe(self) -> None:
        self._ssock = self._csock = None

    def _close_self_pipe(self) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _process_self_data(self, data: bytes) -> None:
        pass

    def _run_once(self) -> None:
        raise NotImplementedError("the engine runs the callbacks")

    def _add_callback_signalsafe(self, handle: Any) -> None:
        self._add_callback(handle)

    def run_forever(self) -> None:
        """Run the loop until stop(). The calling tasklet waits, and all others continue."""
        here = _running.setdefault(current_loop(), [])
        here.append(self)
        try:
            super().run_forever()
        finally:
            here.remove(self)

    def close(self) -> None:
        """Close the loop, which must not be running. Callbacks that are due are no longer called."""
        if self.is_closed():
            return
        super().close()
        self._ended()

    # -- transports ------------------------------------------------------------------------------------------

    def _make_socket_transport(
        self,
        sock: Any,
        protocol: Any,
        waiter: Any = None,
        *,
        extra: Any = None,
        server: Any = None,
        context: Any = None,
    ) -> Any:
        return SocketTransport(self, sock, protocol, waiter, extra, server, context)

    def _make_ssl_transport(
        self,
        rawsock: Any,
        protocol: Any,
        sslcontext: Any,
        waiter: Any = None,
        *,
        server_side: bool = False,
        server_hostname: Any = None,
        extra: Any = None,
        server: Any = None,
        context: Any = None,
        **settings: Any,
    ) -> Any:
        tls: Any = sslproto.SSLProtocol(
            self, protocol, sslcontext, waiter, server_side, server_hostname, **settings
        )
        SocketTransport(self, rawsock, tls, None, extra, server, context)
        return tls._app_transport

    def _make_datagram_transport(self, sock: Any, protocol: Any, *args: Any, **settings: Any) -> Any:
        return DatagramTransport(self, sock, protocol, *args, **settings)

    def _make_read_pipe_transport(self, *args: Any, **settings: Any) -> Any:
        transport = super()._make_read_pipe_transport(*args, **settings)
        transport.max_size = _RECEIVE_BYTES
        return transport

    # -- child processes -------------------------------------------------------------------------------------

    async def _make_subprocess_transport(self, *args: Any, **settings: Any) -> Any:
        """Fact: here the task that starts a program may wait while others run. Danger: another task cancels
        it, everything that it awaits afterwards is already done, and CancelledError is raised at the task's
        end, when no code ends the child. Decision: such a task awaits once more. Guarded by
        tests/patches/test_asyncio.py."""
        transport = await super()._make_subprocess_transport(*args, **settings)
        task: Any = asyncio.current_task()
        if task is not None and getattr(task, "_must_cancel", False):
            try:
                await asyncio.sleep(0)
            except BaseException:
                transport.close()
                await transport._wait()
                raise
        return transport

    # -- signals ---------------------------------------------------------------------------------------------

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:
        """Call callback(*args) in the loop when the signal arrives. This works only in the main thread."""
        if coroutines.iscoroutine(callback) or inspect.iscoroutinefunction(callback):
            raise TypeError("coroutines cannot be used with add_signal_handler()")
        self._check_signal(sig)
        self._check_closed()
        handle = asyncio.Handle(callback, args, self, None)
        before = self._signal_handlers.get(sig)
        self._signal_handlers[sig] = handle

        def came(number: int, frame: Any) -> None:
            if not handle.cancelled() and not self.is_closed():
                self.call_soon_threadsafe(handle._run)

        try:
            signal.signal(sig, came)
            signal.siginterrupt(sig, False)
        except (ValueError, OSError) as error:
            if before is None:
                del self._signal_handlers[sig]
            else:
                self._signal_handlers[sig] = before
            if isinstance(error, OSError) and error.errno != errno.EINVAL:
                raise
            raise RuntimeError(
                f"sig {sig} cannot be caught" if isinstance(error, OSError) else str(error)
            ) from error

    def remove_signal_handler(self, sig: int) -> bool:
        """Remove the handler of the signal. Return whether there was one."""
        self._check_signal(sig)
        if self._signal_handlers.pop(sig, None) is None:
            return False
        try:
            signal.signal(sig, signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise RuntimeError(f"sig {sig} cannot be caught") from error
        return True

    # -- names, and calls that wait in C ---------------------------------------------------------------------

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        """Call socket.getaddrinfo() of the cooperative resolver, without a thread."""
        look_up = dns.getaddrinfo if socket.getaddrinfo is _getaddrinfo else socket.getaddrinfo
        return await call_in_tasklet(self, look_up, host, port, family, type, proto, flags)

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        """Call socket.getnameinfo() of the cooperative resolver."""
        look_up = dns.getnameinfo if socket.getnameinfo is _getnameinfo else socket.getnameinfo
        return await call_in_tasklet(self, look_up, sockaddr, flags)

    @property
    def executor(self) -> str:
        """The place where run_in_executor(None, ...) and asyncio.to_thread() make their calls: real OS
        "threads", even under the patch, or "tasklets", which are lighter but must not wait in C. Unless you
        set it, the patch runs synchronous handlers of some frameworks in tasklets."""
        return self._executor or "threads"

    @executor.setter
    def executor(self, value: str) -> None:
        if value not in ("threads", "tasklets"):
            raise ValueError(f"executor must be 'threads' or 'tasklets', not {value!r}")
        self._executor = value

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Call func(*args) in the executor; the property `executor` decides what None means."""
        if executor is None and self._default_executor is self._threads:
            self._check_default_executor()
            if self._executor == "tasklets" or (
                self._executor is None
                and self.callers_in_tasklets
                and sys._getframe(1).f_globals.get("__name__") in self.callers_in_tasklets
            ):
                return self._call_in_tasklet(func, *args)
            if self._threads is None:
                self._threads = RealThreadPoolExecutor(thread_name_prefix="asyncio")
                self.set_default_executor(self._threads)
        return super().run_in_executor(executor, func, *args)

    def _call_in_tasklet(self, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        self._check_closed()
        if self.get_debug():
            self._check_callback(func, "run_in_executor")
        future = call_in_tasklet(self, func, *args)
        future.take_slot()
        self._calls.add(future)
        future.add_done_callback(self._calls.discard)
        return future

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """Wait for the calls of run_in_executor(None, ...), and refuse further calls."""
        await super().shutdown_default_executor(*args, **kwargs)
        if self._calls:
            await asyncio.wait(self._calls, **kwargs)


def running_loop() -> EventLoop | None:
    """Return the EventLoop that runs in this thread; if there are several, the one that was started last."""
    here = _running.get(current_loop())
    return here[-1] if here else None


def new_event_loop() -> EventLoop:
    """Return a new EventLoop, for asyncio.run(main(), loop_factory=new_event_loop) from Python 3.12 on."""
    return EventLoop()


_SelectorDatagramTransport: Any = selector_events._SelectorDatagramTransport  # type: ignore[attr-defined]


class _NoName(str):
    """An empty name that counts as true, for a connected peer without a name, such as the other end of a
    socketpair. The base class treats a plain empty name as a missing peer, and then sends to the address
    None."""

    def __bool__(self) -> bool:
        return True


class DatagramTransport(_SelectorDatagramTransport):  # type: ignore[misc]
    """The transport that create_datagram_endpoint() creates."""

    def __init__(self, loop: Any, sock: Any, *args: Any, **settings: Any) -> None:
        super().__init__(loop, sock, *args, **settings)
        if self._extra["peername"] == "":
            self._extra["peername"] = _NoName()

    def sendto(self, data: Any, addr: Any = None) -> None:
        """Send the datagram to the address, or to the peer of a connected endpoint. This never waits."""
        if self._sock is None:  # connection_lost() was called; the base looks for that in connected ones only
            logger.warning("socket.send() raised exception.")
        else:
            super().sendto(data, addr)


_original_uncancel: Any = getattr(Task, "uncancel", None)


def mend_uncancel(now: bool) -> None:
    """Give Python 3.11 and 3.12 the Task.uncancel() of Python 3.13.

    Fact: cancel() marks a task, whose next await raises CancelledError. asyncio.timeout() and TaskGroup call
    cancel() for their block, and uncancel() when the block ends. Danger: here they may call cancel() while
    the block waits in a blocking call. If that call is the last one in the block, the mark outlives the
    block, and a later await raises. In any other loop the task cannot be running then. Decision: as in Python
    3.13, uncancel() removes the mark with the last request. Price: one Python call per expired timeout.
    Guarded by tests/asyncio/test_cancellation.py.

    If `now` is false, the original is restored.
    """
    if not LEAVES_MARK_OF_CANCELLATION:
        return
    try:
        drop_cancellation = checked_layout("tasks of asyncio")
    except UnknownLayout:
        return  # such tasks keep their own

    def uncancel(self: Any) -> int:
        """Task.uncancel"""
        left: int = _original_uncancel(self)
        if left == 0 and isinstance(self.get_loop(), Callbacks):
            drop_cancellation(self)
        return left

    set_in_type(Task, "uncancel", uncancel if now else _original_uncancel)


def is_mended() -> bool:
    return getattr(Task, "uncancel", None) is not _original_uncancel


mend_uncancel(True)
