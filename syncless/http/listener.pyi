from collections.abc import Callable
from ssl import SSLContext
from typing import Protocol

from syncless.http.application import Application
from syncless.http.counters import Counters
from syncless.http.limits import Limits
from syncless.http.loglines import AccessLog
from syncless.http.quota import Quota

class _ErrorLog(Protocol):
    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...

class Listener:
    application: Application
    error_log: _ErrorLog
    connections: int
    requests: int
    accepted: int
    stopping: bool
    counters: Counters | None
    quota: Quota | None
    def __init__(
        self,
        application: Application,
        limits: Limits,
        access_log: AccessLog | None,
        error_log: _ErrorLog,
        *,
        certificates: Callable[[], SSLContext] | None = None,
        plain_http: bool = False,
        trusted: Callable[[str], bool] | None = None,
        proxy_protocol: bool = False,
    ) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...
    def figures(self) -> dict[str, int]: ...
    def census(self) -> dict[str, int]: ...
