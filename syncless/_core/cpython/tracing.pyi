from types import FrameType

class Hook: ...
class KeptFunctions: ...

def begin_call() -> None:
    """Begin a call in a pool's OS thread, with the settings of a new thread."""

def end_call() -> None:
    """Clear the settings of this OS thread, and hide it from tools of sys.monitoring."""

def report_waiting(frame: FrameType | None) -> None:
    """Report this frame, in which a tasklet waits, and the frames below it to the current trace function.

    Fact: since Python 3.12 the interpreter changes code to trace it: the code of running frames when the
    function is set, and other code at its next call. Danger: a frame in which a tasklet waits is neither, so
    its lines are not reported. Decision: a free monitoring tool changes the events of this code, and changes
    them back; if no tool is free, the frame stays as it is. Guarded by
    tests/stackless/test_tracing.py::test_trace_function_can_be_set_while_the_tasklet_waits.
    """
