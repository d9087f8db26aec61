from collections.abc import Callable
from ssl import SSLContext
from typing import Any, Protocol

from syncless.http.body import ByteSource
from syncless.http.limits import Limits
from syncless.http.loglines import AccessLog
from syncless.http.upgrade import Upgrade

class _ErrorLog(Protocol):
    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...

class Link(ByteSource): ...

class Listener:
    application: Callable[..., Any]
    limits: dict[str, float]
    error_log: _ErrorLog
    connections: int
    active: int
    queued: int
    requests: int
    accepted: int
    stopping: bool
    def __init__(
        self,
        application: Callable[..., Any],
        template: dict[str, Any],
        limits: Limits,
        access_log: AccessLog | None,
        error_log: _ErrorLog,
        *,
        certificates: Callable[[], SSLContext] | None = None,
        plain_http: bool = False,
        trusted: Callable[[str], bool] | None = None,
        proxy_protocol: bool = False,
        forward: Callable[[dict[str, Any]], None] | None = None,
        websocket: Callable[[Upgrade, dict[str, Any]], object] | None = None,
    ) -> None: ...
    def close(self) -> None: ...
    def census(self) -> dict[str, int]: ...
