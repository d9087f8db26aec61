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
    """A function that runs concurrently with others. spawn() makes
    it; it starts when the current tasklet waits or ends.

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
        """Return whether it has ended."""
    def ready(self) -> bool:
        """Return whether it has ended."""
    def add_done_callback(self, callback: Callable[[Tasklet[_T_co]], object]) -> None:
        """Call `callback(tasklet)` once the tasklet has ended; immediately if it has. The callback must not
        block; its errors are reported."""
    def remove_done_callback(self, callback: Callable[[Tasklet[_T_co]], object]) -> int:
        """Remove the callback. Return how often it was registered."""
    def link(self, callback: Callable[[Tasklet[_T_co]], object]) -> None:
        """Call `callback(tasklet)` once the tasklet has ended; immediately if it has. The callback must not
        block; its errors are reported."""
    def unlink(self, callback: Callable[[Tasklet[_T_co]], object]) -> int:
        """Remove the callback. Return how often it was registered."""
    def link_value(self, callback: Callable[[Tasklet[_T_co]], object]) -> None:
        """Like add_done_callback(), but only if the function returns."""
    def link_exception(self, callback: Callable[[Tasklet[_T_co]], object]) -> None:
        """Like add_done_callback(), but only if the function raises, or the tasklet is killed."""
    def successful(self) -> bool:
        """Return whether its function has returned."""
    def set_switch_hook(self, hook: Callable[[bool], object] | None) -> None:
        """Call hook(True) before the tasklet yields to others, hook(False) before it resumes. The hook must
        not wait. None removes it."""
    def kill(
        self,
        exception: BaseException | type[BaseException] = ...,
        block: bool = True,
        timeout: float | None = None,
    ) -> bool:
        """Raise the exception (class or instance) in the tasklet, where it waits. A tasklet that has not
        started never runs.

        With `block`, wait until the tasklet has ended, for at most `timeout` seconds. Return whether it has.
        Killing the current tasklet raises immediately. May be called in any thread.

        Several exceptions are raised in FIFO order, one at each wait. Those left when the tasklet ends are
        dropped, but KeyboardInterrupt and SystemExit are then raised in the main tasklet.
        """
    def take_back(self, exception: BaseException) -> None:
        """Withdraw an exception thrown by kill(exception, block=False); harmless if it has been raised."""
    @property
    def status(self) -> str:
        """'new', 'ready', 'running', 'waiting' or 'ended'."""
    @property
    def frame(self) -> FrameType | None:
        """Its current frame; None if it has not started or has ended."""
    @property
    def waiting_for(self) -> str | None:
        """The thing that it waits for, in words ('sleep', 'socket read', ...), or None."""
    @property
    def waiting_object(self) -> Any:
        """The object that it waits for (a socket, a lock, a tasklet ...), or None."""
    @property
    def number(self) -> int:
        """Serial number, unique in the process."""
    @property
    def parent_number(self) -> int:
        """Number of the tasklet that spawned it, which may have ended; 0 if the loop did."""
    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of its turns until its last switch, counted while debug.measure_cpu() is on."""
    @property
    def waiting_seconds(self) -> float | None:
        """Seconds for which it has waited, or None."""

_T = TypeVar("_T")

def spawn(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Tasklet[_T]:
    """Run function(*args, **kwargs) in a new tasklet of this thread, with a copy of the current context
    (contextvars).

    It starts when the current tasklet waits or ends.
    """

def in_slot(tasklet: Tasklet[_T]) -> Tasklet[_T]: ...
def as_thread(tasklet: Tasklet[_T]) -> Tasklet[_T]: ...
def set_in(tasklet: Tasklet[Any], profile: bool, function: Callable[..., Any] | None) -> None: ...
def end_thread_locals() -> None:
    """Drop the values of the running tasklet in threading.local, as a thread does at its end, before tasklets
    that join it resume. A finaliser of a dropped value may wait."""

def at_end_of_slot(function: Callable[[], object]) -> bool: ...
def end_idle_slots(slots: Slots, rounds: int) -> bool: ...
def where_it_may_wait(function: Callable[..., object], *args: Any) -> None:
    """function(*args): here, if this may wait, else in a tasklet of its own. For code of a program that is
    called from anywhere."""

def spawn_in(
    where: Loop | Thread | int, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> Tasklet[_T]:
    """Like spawn(), but in another thread: pass its loop (from its current_loop()), a threading.Thread, or
    its ident. Raise RuntimeError if the loop's thread has ended, LookupError if the thread has ended or has
    not used syncless yet."""

class local:
    """Attributes for each tasklet, as threading.local has them for each thread;
    they are dropped when the tasklet ends.

    A subclass's ``__init__`` is called, with the arguments of the construction, for each tasklet that touches
    the object. Under the patch threading.local does the same. RuntimeError in a callback of the loop, where
    there is no tasklet.
    """
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattribute__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __delattr__(self, name: str) -> None: ...
