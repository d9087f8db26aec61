from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from syncless.stackless._state import TracedTasklet

class tasklet(TracedTasklet):
    """A function that runs beside others. Call the tasklet with arguments to insert it."""

    tempval: Any
    def __init__(
        self,
        func: Callable[..., Any] | None = None,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> tasklet: ...
    def bind(
        self,
        func: Callable[..., Any] | None = None,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> tasklet:
        """The function that it runs; with `args` or `kwargs` it is alive, and paused. bind(None) unbinds.
        Returns the tasklet."""
    def setup(self, *args: Any, **kwargs: Any) -> tasklet:
        """Binds the arguments and inserts the tasklet. Returns it. RuntimeError if it is alive."""
    def insert(self) -> tasklet:
        """Puts it at the end of its thread's run queue. One that sleeps is woken. RuntimeError if it is dead
        or blocked. Returns the tasklet."""
    def remove(self) -> tasklet:
        """Takes it out of its thread's run queue: it is paused. The running one stops here. RuntimeError if
        it is blocked."""
    def run(self) -> Any:
        """Runs it now. The present tasklet goes to the end of the run queue, followed by the tasklets before
        this one. A tasklet of another thread runs next in that thread. Returns the `tempval` of the present
        one."""
    def switch(self) -> Any:
        """Runs it now; the present tasklet is paused. RuntimeError if it belongs to another thread. Returns
        the `tempval` of the present one."""
    def kill(  # type: ignore[override]
        self, pending: Any = False, *, exception: Any = ..., block: bool = True, timeout: float | None = None
    ) -> bool | None:
        """Raises TaskletExit in it, now, or when its turn comes (`pending`). Nothing happens if it is
        dead."""
    def raise_exception(self, exc_class: type[BaseException], *args: Any) -> None:
        """Raises exc_class(*args) in it, now."""
    def throw(
        self, exc: Any = None, val: Any = None, tb: TracebackType | None = None, pending: bool = False
    ) -> None:
        """Raises the exception in it, now, or when its turn comes (`pending`). RuntimeError if it is dead,
        except for TaskletExit. In one that runs in another thread it is raised when it next waits."""
    def bind_thread(self, thread_id: int | None = None) -> None:
        """Lets a tasklet that has not started belong to another thread, by default this one. RuntimeError if
        it is in a run queue or has started; ValueError if there is no such thread."""
