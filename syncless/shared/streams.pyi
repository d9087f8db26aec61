import re
from collections.abc import Callable, Iterable

from syncless.http.exchange import Session

class Topic: ...
class Run: ...

class HeldStream(Session):
    def __init__(self, begin: Callable[[HeldStream], object]) -> None: ...
    def end(self) -> None: ...

class Streams:
    def __init__(
        self,
        read: Callable[[int], tuple[int, bytes, int, bytes] | None],
        event_of: Callable[[tuple[int, bytes, int, bytes]], bytes],
        gap_of: Callable[[int], bytes],
        emptied: Callable[[], object],
    ) -> None: ...
    def __len__(self) -> int: ...
    def join(
        self,
        stream: HeldStream,
        names: Iterable[tuple[bytes, re.Pattern[bytes] | None]],
        head: int,
        opening: bytes,
    ) -> bool: ...
    def deliver(self, found: list[tuple[bytes, int]], lost: int) -> None: ...
    def end(self) -> None: ...
