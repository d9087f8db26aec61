from typing import Any

from syncless._core.loop import Loop

class Pace: ...

class Paces:
    def __new__(cls, loop: Loop, limits: dict[str, Any]) -> Paces: ...
