from typing import Any

from syncless.http.requestheads import RequestHeads

class EnvironMaker:
    template: dict[str, Any]
    def __init__(self, template: dict[str, Any], heads: RequestHeads) -> None: ...

def environ_of(template: dict[str, Any], request: bytes) -> dict[str, Any]: ...
