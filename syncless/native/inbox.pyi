from collections.abc import Callable

from syncless.http.exchange import Application
from syncless.http.listener import Listener
from syncless.native.threads import Threads

class Shared(Application):
    """An application and native handlers, which have a connection in turn."""

    def __init__(self, inner: Application, threads: Threads) -> None: ...
    def close(self) -> None: ...

class Inbox:
    """Inbox(threads, notice, fault, record): takes what the threads of native handlers send to Python."""

    def __init__(
        self,
        threads: Threads,
        notice: Callable[[int], object],
        fault: Callable[[str], object],
        record: Callable[..., object],
    ) -> None: ...
    def listen(self, listener: Listener) -> None: ...
    @property
    def unread(self) -> int: ...
    def take_rest(self) -> None: ...
    def close(self) -> None: ...
