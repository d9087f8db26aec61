from collections.abc import Sequence
from typing import Any

SECONDS: tuple[float, ...]
FREE: int
CELLS: int

class Counters:
    def __init__(self, memory: bytearray | memoryview) -> None: ...
    def count(self, code: int, ns: int = -1) -> None: ...

def totals(cells: Sequence[int] | memoryview) -> dict[str, Any]: ...
