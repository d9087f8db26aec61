import re
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from syncless.http.exchange import Exchange, Session
from syncless.http.listener import Listener
from syncless.http.websocket.websocket import WebSocket

def websocket_of(request: Exchange) -> WebSocket | None: ...

class Topic: ...
class Run: ...

class HeldStream(Session):
    def __init__(self, begin: Callable[[HeldStream], object]) -> None: ...
    def end(self) -> None: ...

class HeldSocket(HeldStream):
    def __init__(
        self,
        begin: Callable[[HeldStream], object],
        on_message: Callable[[str | bytes, Any], object] | None,
        library: ModuleType,
    ) -> None: ...
    def send(self, message: Any) -> None: ...
    def close(self, code: int = 1000, reason: str = "") -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def remote_addr(self) -> str | None: ...

class Calls:
    def call(
        self,
        socket: HeldSocket,
        listener: Listener,
        on_message: Callable[[str | bytes, Any], object],
        message: str | bytes,
    ) -> None: ...

class Streams:
    def __init__(
        self,
        read: Callable[[int], tuple[int, bytes, int, bytes] | None],
        event_of: Callable[[tuple[int, bytes, int, bytes] | int], bytes],
        emptied: Callable[[], object],
    ) -> None: ...
    def __len__(self) -> int: ...
    def join(
        self,
        stream: HeldStream,
        names: Iterable[tuple[bytes, re.Pattern[bytes] | None]],
        head: int,
        opening: list[tuple[int, bytes, int, bytes] | int],
    ) -> bool: ...
    def deliver(self, found: list[tuple[bytes, int]], lost: int) -> None: ...
    def end(self) -> None: ...
