from collections.abc import Callable

from syncless.http.exchange import Application
from syncless.http.listener import Listener

class Movable(Application):
    def __init__(
        self,
        inner: Application,
        field: bytes,
        choose: Callable[[bytes | None, str, bool, bool], int],
        send: Callable[[int, int, bytes, str, int, bool], None],
    ) -> None: ...
    def close(self) -> None: ...

def adopt(
    listener: Listener, application: Movable, fd: int, data: bytes, address: str, port: int, trusted: bool
) -> None: ...
