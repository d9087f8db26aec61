from types import FrameType

class Hook: ...
class KeptFunctions: ...

def begin_call() -> None:
    """An OS thread of a pool begins a call, as a new thread begins."""

def end_call() -> None:
    """Nothing is set in this OS thread from now on, and tools of sys.monitoring see nothing of it."""

def report_waiting(frame: FrameType | None) -> None:
    """Report this frame, in which a tasklet waits, and the frames below it to the trace function that is set.

    Fact: since Python 3.12 the interpreter changes code that is to be traced: that of frames that run when
    the function is set, and other code when it is next called. Danger: a frame in which a tasklet waits is
    neither, so none of its lines are reported. Decision: events of the code alone are changed, and changed
    back, by a tool that is free; if none is, the frame is left as it is. Guarded by
    tests/stackless/test_tracing.py::test_trace_function_can_be_set_while_the_tasklet_waits.
    """
