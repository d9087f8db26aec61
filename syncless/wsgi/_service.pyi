from collections.abc import Callable
from typing import Any, TextIO

from syncless._core.scheduler import Runnable
from syncless.wsgi._input import ByteSource
from syncless.wsgi.limits import Limits

class Link(ByteSource): ...
class Flusher(Runnable): ...

class Service:
    application: Callable[..., Any]
    limits: Limits
    log_errors: TextIO
    connections: int
    active: int
    requests: int
    accepted: int
    stopping: bool
    def __init__(
        self,
        application: Callable[..., Any],
        template: dict[str, Any],
        limits: Limits,
        log_access: Callable[[dict[str, Any], str | None, int, int], None] | None,
        log_errors: TextIO,
    ) -> None: ...
    def close(self) -> None: ...
    def census(self) -> dict[str, int]: ...

def http_date(when: float) -> str: ...
