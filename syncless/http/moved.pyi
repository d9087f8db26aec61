from collections.abc import Callable
from ssl import SSLObject
from typing import Any

from syncless.http.exchange import Application, Exchange, Upgrade
from syncless.http.listener import Listener

class Movable(Application):
    def __init__(
        self,
        inner: Application,
        field: bytes,
        choose: Callable[[bytes | None, str, bool], int],
        send: Callable[[int, int, bytes, str, int, bool], None],
        relay: Callable[[int, SSLObject | None, str, int, bool], Any],
    ) -> None: ...
    def close(self) -> None: ...

class Relayed(Exchange):
    text: bytes
    chunked: bool
    streams_events: bool
    def __init__(
        self, listener: Listener, relay: Any, text: bytes, address: str, port: int, chunked: bool
    ) -> None: ...
    @property
    def has_body(self) -> bool: ...
    @property
    def expects_continue(self) -> bool: ...
    @property
    def head_only(self) -> bool: ...
    @property
    def upgrade(self) -> Upgrade | None: ...
    def read(self) -> bytes: ...
    def answer(self, status: int, fields: list[tuple[bytes, bytes]]) -> None: ...
    def put(self, data: bytes) -> None: ...
    def end_answer(self, trailers: bytes) -> None: ...

class RelayedTls:
    def __init__(self, connection: Any) -> None: ...

def adopt(
    listener: Listener,
    application: Movable,
    fd: int,
    data: bytes,
    address: str,
    port: int,
    trusted: bool,
    tls: Any = None,
) -> None: ...
