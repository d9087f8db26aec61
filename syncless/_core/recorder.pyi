from syncless._core.scheduler import Observer, Recorder
from syncless._core.tasklet import Tasklet
from syncless._core.waits import Wait

class WaitRecorder(Recorder):
    def __init__(self, most: int) -> None: ...
    @property
    def number(self) -> int: ...
    def kept(self) -> list[Wait]:
        """Return the longest waits as Wait objects, in chronological order."""
    @property
    def waited_seconds(self) -> float:
        """Seconds spent in all waits."""
    @property
    def queued_seconds(self) -> float:
        """Seconds spent in the ready queue."""

def recorded(tasklet: Tasklet[object]) -> WaitRecorder | None:
    """Return the recorder of the tasklet's waits, or None if the tasklet is not a request."""

def set_purpose(purpose: str | int | None) -> str | int | None:
    """Set the purpose of the running tasklet's next waits, if they are recorded: a text that replaces a
    socket's peer, or the descriptor of another socket, whose peer it is. Return the previous purpose, which
    the caller restores."""

class Tracer(Observer):
    """Tracer(most): keeps at most `most` spans; call start() and stop() in the thread of the tasklets."""

    dropped: int
    names: dict[int, str]
    def __init__(self, most: int = 1_000_000) -> None: ...
    def start(self) -> None:
        """Start to record this thread."""
    def stop(self) -> None:
        """Stop recording. Waits that have not ended become spans, too."""
    def found(self) -> list[tuple[int, Wait]]:
        """Return (serial number of the tasklet, Wait) pairs in the order of their ends. The `why` of a run is
        "running"; that of time in the ready queue is "ready"."""
