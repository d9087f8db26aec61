from typing import Any

from syncless._core.bytecodes import BytecodeLimit
from syncless.stackless._tasklet import tasklet

class Preemption(BytecodeLimit): ...

def schedule(retval: Any = ...) -> Any:
    """Lets the other ready tasklets run once. Returns `retval`, or the present tasklet."""

def schedule_remove(retval: Any = ...) -> Any:
    """As schedule(), but pauses the present tasklet until it is inserted again."""

def run(
    timeout: int = 0,
    threadblock: bool = False,
    soft: bool = False,
    ignore_nesting: bool = False,
    totaltimeout: bool = False,
) -> tasklet | None:
    """Runs the others until none is ready and none waits for input, output or a time. Raises what no tasklet
    has caught.

    `timeout`: a tasklet that runs more bytecodes than this in one turn is paused at its next call, jump back
    or beginning of a function, and returned; with `soft` run() ends at its next switch instead, and returns
    None. `totaltimeout`: in all their turns together.
    `threadblock`: while tasklets wait for channels, waits for another thread that may meet them.
    `ignore_nesting` changes nothing: a tasklet can be interrupted at any depth. Within a run() that has a
    timeout, further ones have none.
    """

def getcurrent() -> tasklet:
    """The running tasklet."""

def getmain() -> tasklet:
    """This thread's main tasklet."""

def getruncount() -> int:
    """How many tasklets are in the run queue, the running one included."""

def getcurrentid() -> int:
    """A number that identifies the running tasklet."""

def get_thread_info(thread_id: int | None = None, flags: int = 0) -> tuple[Any, ...]:
    """(main tasklet, current tasklet, run count) of a thread, by default this one. RuntimeError, which is a
    ValueError, too, if there is no such thread.

    `flags` with bit 30 adds three figures of Stackless's C stacks, of which there are none here: always 0,
    0 and None. Bit 31 adds a list: the tasklet whose run() has a timeout, or None, and all that are in
    run(). It stays up to date, and must not be changed.
    """

def getthreads() -> list[int]:
    """The ids of the threads that have tasklets, this one first."""

def switch_trap(delta: int = 0) -> int:
    """While the sum of all deltas is not 0, a switch raises RuntimeError. Returns the sum as it was."""

def getdebug() -> bool:
    """Whether this is a debugging build of Stackless's interpreter: False."""

def getuncollectables() -> list[Any]:
    """The objects that Stackless could not free: none."""

def enable_softswitch(flag: bool) -> bool:
    """Greenlets switch on the C stack, always. Returns False."""

class atomic:
    """with atomic(): the tasklet must not be preempted."""
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...
