from typing import Any

from syncless._core.wait.sync import Event
from syncless.http.request import Request

class AccessLog:
    dropped: int
    full: Event
    json: bool
    something: Event
    wants_headers: bool
    def __init__(self, atoms: list[tuple[str, Any]], json: bool) -> None: ...
    def log_line(
        self,
        request: Request,
        status: str,
        body_bytes: int,
        started: int,
        exchange: Any = None,
        headers: list[tuple[str, str]] | None = None,
    ) -> None: ...
    def measure(self, request: Request, status: str, body_bytes: int, times: int) -> bytes: ...
    def take(self) -> bytes: ...
