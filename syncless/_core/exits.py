"""The exceptions of a tasklet that is killed, and of a program that is interrupted."""

from _signal import SIGINT, default_int_handler, getsignal  # type: ignore[import-not-found]


class TaskletExit(SystemExit):
    """Ends the tasklet in which it is raised, quietly (Stackless Python's name). Raised by Tasklet.kill()."""


class TaskletKilled(Exception):
    """Raised by Tasklet.result() when the tasklet was killed and so has no result."""


def is_interrupt(error: BaseException) -> bool:
    """Whether it may be Ctrl-C's: a KeyboardInterrupt while the interpreter's own handler, which raises it
    anywhere, is the one of SIGINT. Where another one is, only the program's code raises it."""
    return isinstance(error, KeyboardInterrupt) and getsignal(SIGINT) is default_int_handler
