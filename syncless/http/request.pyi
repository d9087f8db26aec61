from syncless.http.response import Response
from syncless.http.service import Service

class Request(Response):
    def __init__(self, service: Service) -> None: ...
    @property
    def client_gone(self) -> bool: ...
    def interrupt_when_client_leaves(self, wanted: bool = True) -> None: ...
    @property
    def name(self) -> str: ...  # type: ignore[override]
