"""The plain ``python`` prompt: tasklets run while it waits for a line, by PyOS_InputHook.

Takes: what waits until a key has come, as a Python function. Gives: a hook of the interpreter. Next to read:
patches/terminal.py, which installs it.

Fact: the prompt calls the hook while it waits, in the middle of C code, and looks for signals only if one
has interrupted its own system call; the hook has no way to tell it of Ctrl-C. Danger: KeyboardInterrupt is
raised in the hook, where nobody can catch it, and lost. Decision: the hook returns, and the signal is sent
again when the prompt waits by itself. Price: a thread for 20 ms for each Ctrl-C. Guarded by
tests/patches/test_prompt.py.
"""

from libc.stdint cimport uintptr_t

ctypedef int (*Hook)() noexcept nogil

cdef extern from "Python.h":
    Hook PyOS_InputHook

cdef extern from "<pthread.h>" nogil:
    ctypedef unsigned long pthread_t
    pthread_t pthread_self()
    int pthread_create(pthread_t*, const void*, void* (*)(void*) noexcept nogil, void*)
    int pthread_detach(pthread_t)
    int pthread_kill(pthread_t, int)

cdef extern from "<signal.h>" nogil:
    int SIGINT

cdef extern from "<unistd.h>" nogil:
    int usleep(unsigned int)

cdef enum:
    AGAIN_MICROSECONDS = 20000          # the prompt's own wait is five times as long

cdef object _wait = None
cdef bint _interrupted = False


cdef void* _interrupt(void* thread) noexcept nogil:
    usleep(AGAIN_MICROSECONDS)
    pthread_kill(<pthread_t> <uintptr_t> thread, SIGINT)
    return NULL


cdef int _hook() noexcept with gil:
    """No Python code runs in it after an interrupt: that would take the signal from the prompt."""
    global _interrupted
    cdef pthread_t helper
    if _interrupted or _wait is None:
        _interrupted = False
        return 0
    try:
        _wait()
    except KeyboardInterrupt:
        _interrupted = True
        if pthread_create(&helper, NULL, _interrupt, <void*> <uintptr_t> pthread_self()) == 0:
            pthread_detach(helper)
    return 0


cdef bint is_ours() noexcept:
    return <void*> PyOS_InputHook == <void*> <Hook> _hook


def install(wait) -> bool:
    """Has the prompt call ``wait()``, which returns when a key has come. False if there is another hook, such
    as that of tkinter."""
    global _wait, PyOS_InputHook
    if PyOS_InputHook != NULL and not is_ours():
        return False
    _wait = wait
    PyOS_InputHook = <Hook> _hook
    return True


def remove() -> None:
    """Take the hook away, if it is this one."""
    global _wait, PyOS_InputHook
    if is_ours():
        PyOS_InputHook = NULL
    _wait = None
