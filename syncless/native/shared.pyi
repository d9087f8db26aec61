from syncless.http.application import Application
from syncless.native.threads import Threads

class Shared(Application):
    """An application and native handlers, which have a connection in turn."""

    def __init__(self, inner: Application, threads: Threads) -> None: ...
    def close(self) -> None: ...
