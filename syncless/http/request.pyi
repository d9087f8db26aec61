from collections.abc import Callable
from typing import Any

from syncless.http.listener import Listener
from syncless.http.response import Response

class Request(Response):
    def __init__(self, listener: Listener, call: Callable[..., Any]) -> None: ...
    @property
    def client_gone(self) -> bool: ...
    def interrupt_when_client_leaves(self, wanted: bool = True) -> None: ...
