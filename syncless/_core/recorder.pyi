from syncless._core.scheduler import Observer, Recorder
from syncless._core.tasklet import Tasklet
from syncless._core.waits import Wait

class WaitRecorder(Recorder):
    def __init__(self, most: int) -> None: ...
    @property
    def number(self) -> int: ...
    def kept(self) -> list[Wait]:
        """Return the longest waits, as Wait, in the order of time."""
    @property
    def waited_seconds(self) -> float:
        """In all waits."""
    @property
    def queued_seconds(self) -> float:
        """In the ready queue."""

def recorded(tasklet: Tasklet[object]) -> WaitRecorder | None:
    """Return the recorder of its waits; None for a tasklet that is not a request."""

def set_purpose(purpose: str | None) -> str | None:
    """What the next waits of the running tasklet are for, if it records them: words that stand for a socket's
    peer. Return those before, which the caller sets again."""

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
