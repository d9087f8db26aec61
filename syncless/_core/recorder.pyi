from syncless._core.scheduler import Recorder
from syncless._core.tasklet import Tasklet
from syncless._core.waits import Wait

class WaitRecorder(Recorder):
    @property
    def number(self) -> int: ...
    def kept(self) -> list[Wait]:
        """The longest waits, as Wait, in the order of time."""
    @property
    def waited_seconds(self) -> float:
        """In all waits."""
    @property
    def queued_seconds(self) -> float:
        """In the ready queue."""

def recorded(tasklet: Tasklet[object]) -> WaitRecorder | None:
    """What it keeps of its waits; a tasklet that is no request has nothing."""
