"""What the interpreter calls while a terminal's line is being edited: other tasklets run until a key is pressed.

Fact: input() on a terminal waits in C, in the readline library if it is there, which calls PyOS_InputHook ten times a second and before each
wait. Decision: the hook parks the tasklet until the terminal can be read. Price: a tasklet that is killed there hears of it when the line ends.
"""

from syncless._core.clock cimport NEVER
from syncless._core.loop cimport Loop, peek_loop
from syncless._core.poller cimport READ

cdef extern from *:
    """
    #include <Python.h>
    typedef int (*PyOSHook)(void);
    """
    ctypedef int (*Hook "PyOSHook")() noexcept nogil
    Hook PyOS_InputHook

cdef int fd = -1
cdef object died = None


cdef int while_waiting() noexcept with gil:
    global died
    cdef Loop loop = peek_loop()
    if fd >= 0 and died is None and loop is not None and loop.current is not None:
        try:
            loop.wait_foreign_fd(fd, READ, NEVER)
        except BaseException as error:
            died = error
    return 0


def edited(function, prompt, int terminal):
    """function(prompt), which edits a line at the terminal of that descriptor, while others run."""
    global fd, died, PyOS_InputHook
    cdef Hook before = PyOS_InputHook
    fd = terminal
    PyOS_InputHook = while_waiting
    try:
        line = function(prompt)
    finally:
        PyOS_InputHook = before
        fd = -1
        error, died = died, None
    if error is not None:
        raise error
    return line
