from syncless._core.scheduler import Observer
from syncless._core.waits import Wait

class Tracer(Observer):
    """Tracer(most): start() and stop() in the thread whose tasklets it follows; it keeps `most` spans."""

    dropped: int
    names: dict[int, str]
    def __init__(self, most: int = 1_000_000) -> None: ...
    def start(self) -> None:
        """In this thread, from now on."""
    def stop(self) -> None:
        """The waits that go on are spans, too."""
    def found(self) -> list[tuple[int, Wait]]:
        """(serial number of the tasklet, Wait) in the order of their ends; the `why` of a run is "running",
        that of time in the ready queue "ready"."""
