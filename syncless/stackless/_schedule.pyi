from typing import Any

from syncless.stackless._tasklet import tasklet

def schedule(retval: Any = ...) -> Any:
    """schedule(retval=ABSENT)

    Lets the others that are ready run once. Returns `retval`, or the present tasklet."""

def schedule_remove(retval: Any = ...) -> Any:
    """schedule_remove(retval=ABSENT)

    As schedule(), but the present tasklet is paused until somebody inserts it."""

def run(
    timeout: int = 0,
    threadblock: bool = False,
    soft: bool = False,
    ignore_nesting: bool = False,
    totaltimeout: bool = False,
) -> tasklet | None:
    """run(timeout=0, threadblock=False, soft=False, ignore_nesting=False, totaltimeout=False)

    Runs the others until none is ready and none waits for input, output or a time. Raises what no tasklet
    has caught.

    `timeout`: a tasklet that runs more than so many bytecodes in one turn is paused and returned; with `soft`
    run() ends at its next switch instead, and returns None. `totaltimeout`: in all their turns together.
    `threadblock`: while tasklets wait for channels, another thread is waited for that may meet them.
    `ignore_nesting` changes nothing: a tasklet can be interrupted at any depth.
    """

def getcurrent() -> tasklet:
    """getcurrent()

    The running tasklet."""

def getmain() -> tasklet:
    """getmain()

    This thread's main tasklet."""

def getruncount() -> int:
    """getruncount()

    How many tasklets are in the run queue, the running one included."""

def getcurrentid() -> int:
    """A number that identifies the running tasklet."""

def get_thread_info(thread_id: int | None = None, flags: int = 0) -> tuple[Any, ...]:
    """get_thread_info(thread_id=None)

    (main tasklet, current tasklet, run count) of a thread, by default this one. RuntimeError, which is a
    ValueError, too, if there is no such thread.
    """

def getthreads() -> list[int]:
    """getthreads()

    The ids of the threads that have tasklets, this one first."""

def switch_trap(delta: int = 0) -> int:
    """switch_trap(delta=0)

    While the sum of all deltas is not 0, a switch raises RuntimeError. Returns the sum as it was."""

def enable_softswitch(flag: bool) -> bool:
    """enable_softswitch(flag)

    Greenlets switch on the C stack, always. Returns False."""

class atomic:
    """with atomic(): the tasklet must not be preempted."""
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...
