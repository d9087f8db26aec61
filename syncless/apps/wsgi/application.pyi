from collections.abc import Callable
from typing import Any

from syncless.http.exchange import Application, Exchange, Upgrade
from syncless.http.listener import Listener
from syncless.http.request import Request
from syncless.http.requestheads import RequestHeads
from syncless.http.trust import Forward

class StartResponse:
    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]: ...

class Write:
    def __call__(self, data: bytes, /) -> None: ...

class EnvironRequest(Request):
    def __init__(self, environ: dict[str, Any] | None = None) -> None: ...
    def variables(self) -> dict[str, Any]: ...

class WSGIExchange(Exchange):
    def __init__(self, listener: Listener, call: Callable[..., Any]) -> None: ...

class WSGIApplication(Application):
    def __init__(
        self,
        call: Callable[..., Any],
        template: dict[str, Any],
        most: int = 0,
        *,
        forward: Forward | None = None,
        websocket: Callable[[Upgrade, dict[str, Any]], object] | None = None,
        pages: dict[str, Callable[..., Any]] | None = None,
        prefix: str = "",
    ) -> None: ...

class EnvironMaker:
    template: dict[str, Any]
    def __init__(
        self, template: dict[str, Any], heads: RequestHeads, forward: Forward | None = None
    ) -> None: ...

def environ_of(template: dict[str, Any], request: bytes) -> dict[str, Any]: ...
