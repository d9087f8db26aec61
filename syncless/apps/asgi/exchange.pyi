from typing import Any

from syncless.apps.asgi.operations import Conversation
from syncless.http.listener import Listener
from syncless.http.request import Request

HTTP_EXTENSIONS: dict[str, dict[str, Any]]

class ScopeRequest(Request):
    def __init__(self, scope: dict[str, Any] | None = None) -> None: ...
    def left(self, key: str) -> Any: ...

class ASGIExchange(Conversation):
    task: Any
    def __init__(self, listener: Listener, call: Any, tasks: Any, loop: Any) -> None: ...
    def __call__(self, leaving: bool) -> None: ...

class WebSocketExchange(ASGIExchange): ...
