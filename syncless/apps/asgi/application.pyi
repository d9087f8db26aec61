from typing import Any

from syncless.http.exchange import Application
from syncless.http.requestheads import RequestHeads
from syncless.http.trust import Forward

class ScopeMaker:
    def __init__(
        self,
        template: dict[str, Any],
        heads: RequestHeads,
        forward: Forward | None = None,
    ) -> None: ...

class KeptScope: ...

class ASGIApplication(Application):
    def __init__(
        self,
        call: Any,
        template: dict[str, Any],
        most: int = 0,
        *,
        tasks: Any,
        loop: Any,
        limits: Any,
        state: dict[str, Any] | None = None,
        forward: Forward | None = None,
    ) -> None: ...
