from collections.abc import Callable
from typing import Any

from syncless._core.scheduler import BaseTasklet

class Guard:
    """The attributes dont_raise, exception_handler and context_manager_getter of one tasklet."""

    def __call__(
        self,
        one: BaseTasklet,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
    ) -> Any:
        """Calls the function of a tasklet, inside the context manager that is made for the tasklet. An
        exception of the context manager is raised."""
