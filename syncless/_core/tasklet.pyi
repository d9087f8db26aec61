from collections.abc import Callable
from threading import Thread
from types import FrameType
from typing import Any, Generic, ParamSpec, TypeVar

from syncless._core.cpython.threadlocal import Slots
from syncless._core.loop import Loop
from syncless._core.scheduler import BaseTasklet

_P = ParamSpec("_P")
_T_co = TypeVar("_T_co", covariant=True)

class Tasklet(BaseTasklet, Generic[_T_co]):
    """A function that runs concurrently with others. spawn()
    creates a tasklet, which starts when the current tasklet waits or ends.

    An exception that leaves the function is reported with its traceback and ends this tasklet only; result()
    raises it. KeyboardInterrupt and SystemExit are raised in the main tasklet instead.
    """

    name: str
    is_main: bool
    def __init__(self, function: Callable[_P, _T_co], *args: _P.args, **kwargs: _P.kwargs) -> None: ...
    def join(self, timeout: float | None = None) -> bool:
        """Wait until the tasklet has ended, for at most `timeout` seconds. Return whether it has."""
    def result(self, timeout: float | None = None) -> _T_co:
        """Wait for the end; return the function's result, or raise its exception.

        Raise TaskletKilled if the tasklet was killed, TimeoutError after `timeout` seconds."""
    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end and return the exception that ended the tasklet, or None. Raise TimeoutError after
        `timeout` seconds."""
    def done(self) -> bool:
        """Return whether the tasklet has ended."""
    def ready(self) -> bool:
        """Return whether the tasklet has ended."""
    def add_done_callback(self, callback: Callable[[Tasklet[_T_co]], object]) -> None:
        """Call `callback(tasklet)` once the tasklet has ended, or immediately if it already has. The callback
        must not block; its errors are reported."""
    def remove_done_callback(self, callback: Callable[[Tasklet[_T_co]], object]) -> int:
        """Remove the callback. Return how often the callback was registered."""
    def link(self, callback: Callable[[Tasklet[_T_co]], object]) -> None:
        """Call `callback(tasklet)` once the tasklet has ended, or immediately if it already has. The callback
        must not block; its errors are reported."""
    def unlink(self, callback: Callable[[Tasklet[_T_co]], object]) -> int:
        """Remove the callback. Return how often the callback was registered."""
    def link_value(self, callback: Callable[[Tasklet[_T_co]], object]) -> None:
        """Like add_done_callback(), but only if the function returns."""
    def link_exception(self, callback: Callable[[Tasklet[_T_co]], object]) -> None:
        """Like add_done_callback(), but only if the function raises, or the tasklet is killed."""
    def successful(self) -> bool:
        """Return whether the tasklet's function has returned."""
    def set_switch_hook(self, hook: Callable[[bool], object] | None) -> None:
        """Call hook(True) before the tasklet yields to others, and hook(False) before it resumes. The hook
        must not wait. None removes it."""
    def kill(
        self,
        exception: BaseException | type[BaseException] = ...,
        block: bool = True,
        timeout: float | None = None,
    ) -> bool:
        """Raise the exception (class or instance) in the tasklet, where it waits. A tasklet that has not
        started never runs.

        With `block`, wait until the tasklet has ended, for at most `timeout` seconds. Return whether it has.
        Killing the current tasklet raises immediately. Any thread may call kill().

        Several exceptions are raised in FIFO order, one at each wait. Exceptions that are left when the
        tasklet ends are dropped, except KeyboardInterrupt and SystemExit, which are then raised in the main
        tasklet.
        """
    def take_back(self, exception: BaseException) -> None:
        """Withdraw an exception thrown by kill(exception, block=False); harmless if it has already been
        raised."""
    @property
    def status(self) -> str:
        """The state: 'new', 'ready', 'running', 'waiting' or 'ended'."""
    @property
    def frame(self) -> FrameType | None:
        """The tasklet's current frame, or None if it has not started or has ended."""
    @property
    def waiting_for(self) -> str | None:
        """The reason for the current wait as text ('sleep', 'socket read', ...), or None."""
    @property
    def waiting_object(self) -> Any:
        """The object that the tasklet waits for (a socket, a lock, a tasklet ...), or None."""
    @property
    def number(self) -> int:
        """The serial number, unique in the process."""
    @property
    def parent_number(self) -> int:
        """The number of the tasklet that spawned this one, which may have ended; 0 if the loop spawned it."""
    @property
    def cpu_seconds(self) -> float:
        """CPU seconds that the tasklet has used up to its last switch, while debug.measure_cpu() was on."""
    @property
    def waiting_seconds(self) -> float | None:
        """Seconds that the current wait has lasted so far, or None."""

_T = TypeVar("_T")

def spawn(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Tasklet[_T]:
    """Run function(*args, **kwargs) in a new tasklet of this thread, with a copy of the current context
    (contextvars).

    The new tasklet starts when the current one waits or ends.
    """

def in_slot(tasklet: Tasklet[_T]) -> Tasklet[_T]: ...
def as_thread(tasklet: Tasklet[_T]) -> Tasklet[_T]: ...
def set_in(tasklet: Tasklet[Any], profile: bool, function: Callable[..., Any] | None) -> None: ...
def end_thread_locals() -> None:
    """Drop the running tasklet's values in threading.local, as a thread does at its end, before tasklets that
    join this one resume. A finaliser of a dropped value may wait."""

def at_end_of_slot(function: Callable[[], object]) -> bool: ...
def end_idle_slots(slots: Slots, rounds: int) -> bool: ...
def where_it_may_wait(function: Callable[..., object], *args: Any) -> None:
    """Call function(*args) here if the caller may wait, otherwise in a new tasklet. Use it for program code
    that may be called from anywhere."""

def spawn_in(
    where: Loop | Thread | int, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> Tasklet[_T]:
    """Like spawn(), but in another thread: pass the thread's loop (from current_loop() in that thread), a
    threading.Thread, or its ident. Raise RuntimeError if the loop's thread has ended, LookupError if the
    thread has ended or has not used syncless yet."""

class local:
    """An object with separate attributes for each tasklet, like threading.local
    for threads; a tasklet's attributes are dropped when it ends.

    A subclass's ``__init__`` is called, with the constructor's arguments, for each tasklet that touches the
    object. Under the patch threading.local does the same. Access raises RuntimeError in a callback of the
    loop, where there is no tasklet.
    """
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattribute__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __delattr__(self, name: str) -> None: ...
