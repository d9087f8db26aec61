from collections.abc import Callable
from typing import Any

from syncless.http.requestheads import RequestHeads

class ScopeMaker:
    def __init__(
        self,
        template: dict[str, Any],
        heads: RequestHeads,
        forward: Callable[[dict[str, Any]], None] | None = None,
    ) -> None: ...

def variables_of(scope: dict[str, Any]) -> dict[str, Any]: ...
