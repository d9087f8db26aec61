from typing import Any

class BodyMessages:
    def __init__(self, body: Any, peer: Any, buffers: Any, loop: Any) -> None: ...
