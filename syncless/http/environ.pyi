from typing import Any

class EnvironMaker:
    template: dict[str, Any]
    def __init__(self, template: dict[str, Any], most: int = 0) -> None: ...

def environ_of(template: dict[str, Any], request: bytes) -> dict[str, Any]: ...
