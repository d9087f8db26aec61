from collections.abc import Callable
from typing import Any

from syncless.http.application import Application
from syncless.http.requestheads import RequestHeads
from syncless.http.upgrade import Upgrade

class WSGIApplication(Application):
    def __init__(
        self,
        call: Callable[..., Any],
        template: dict[str, Any],
        most: int = 0,
        *,
        forward: Callable[[dict[str, Any]], None] | None = None,
        websocket: Callable[[Upgrade, dict[str, Any]], object] | None = None,
        pages: dict[str, Callable[..., Any]] | None = None,
    ) -> None: ...
    def close(self) -> None: ...

class EnvironMaker:
    template: dict[str, Any]
    def __init__(self, template: dict[str, Any], heads: RequestHeads) -> None: ...

def environ_of(template: dict[str, Any], request: bytes) -> dict[str, Any]: ...
