from collections.abc import Callable
from typing import Any

from syncless._core.tasklet import Tasklet

class StartResponse:
    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]: ...

class Write:
    def __call__(self, data: bytes, /) -> None: ...

class Response(Tasklet): ...
