from collections.abc import Callable
from typing import Any

from syncless.http.exchange import Exchange
from syncless.http.listener import Listener

class StartResponse:
    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]: ...

class Write:
    def __call__(self, data: bytes, /) -> None: ...

class Request(Exchange):
    def __init__(self, listener: Listener, call: Callable[..., Any]) -> None: ...
