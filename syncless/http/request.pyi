from syncless.http.listener import Listener
from syncless.http.response import Response

class Request(Response):
    def __init__(self, listener: Listener) -> None: ...
    @property
    def client_gone(self) -> bool: ...
    def interrupt_when_client_leaves(self, wanted: bool = True) -> None: ...
    @property
    def name(self) -> str: ...  # type: ignore[override]
