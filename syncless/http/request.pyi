from collections.abc import Callable
from typing import Any

class Request:
    @property
    def method(self) -> str | None: ...
    @property
    def root_path(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def query(self) -> str: ...
    @property
    def version(self) -> str: ...
    client: str
    client_port: str
    scheme: str
    host: str
    server_port: str
    def left(self, key: str) -> Any: ...
    def field(self, name: str) -> str | None: ...
    def variables(self) -> dict[str, Any]: ...

class HeadRequest(Request):
    def __init__(
        self,
        data: bytes,
        client: str,
        port: str = "",
        place: tuple[str, str] = ("localhost", ""),
        *,
        keeps: Callable[[str], bool] | None = None,
        secure: bool = False,
        refused: bool = False,
    ) -> None: ...

def known_field(name: str) -> int: ...
def part_of(variable: str) -> int | None: ...
