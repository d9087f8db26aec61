from collections.abc import Callable
from typing import Any

from syncless._core.tasklet import Tasklet
from syncless.wsgi._service import Service

class StartResponse:
    def start_response(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]: ...

class Write:
    def __call__(self, data: bytes, /) -> None: ...

class Request(Tasklet):
    def __init__(self, service: Service) -> None: ...
    @property
    def name(self) -> str: ...  # type: ignore[override]
