"""Which loop a thread has: made when the thread first uses syncless, ended when the thread ends.

Takes a thread. Gives its Loop, through a thread-local pointer for the running one, through a table for
others. Next to read: waits.pyx.
"""

import threading
from weakref import WeakValueDictionary

from cpython.object cimport PyObject

from syncless._core cimport hooks
from syncless._core.cpython.compat cimport Py_IsFinalizing, in_main_interpreter
from syncless._core.ending cimport end_carriers, end_tasklets
from syncless._core.loop cimport Loop, Watcher
from syncless._core.scheduler cimport put_off

cdef extern from *:
    """
    /* Which Loop this thread has. The reference is owned by the thread's state dict. */
    static __thread PyObject *syncless_tls_loop;
    """
    PyObject* syncless_tls_loop

cdef extern from "Python.h":
    PyObject* PyThreadState_GetDict()

cdef object loops = WeakValueDictionary()       # thread id -> Loop


cdef class _LoopOwner:
    """Lives in the thread's state dict; when the thread ends, so does its loop."""
    cdef Loop loop

    def __dealloc__(self):
        end_loop(self.loop)


cdef int end_loop(Loop loop) except -1:
    """The thread ends."""
    global syncless_tls_loop
    cdef PyObject* ending = <PyObject*> loop
    # then the process ends and takes all with it; no code may run any more
    if loop.closed or Py_IsFinalizing():
        return 0
    if syncless_tls_loop == ending:     # not in a child after a fork, which clears away the other threads
        end_tasklets(loop)
        end_watchers(loop)
        syncless_tls_loop = NULL
    end_carriers(loop)
    loop.poller.close()
    return 0


cdef int end_watchers(Loop loop) except -1:
    """Tells each watcher, and runs what is due before a poll: it refers to the loop."""
    run_before_last_poll(loop)          # sends the responses that are finished
    for watcher in loop.fds.watchers():
        try:
            (<Watcher> watcher).loop_ended(loop)
        except BaseException as error:
            loop.report("the end of a thread", error)
    return run_before_last_poll(loop)


cdef int run_before_last_poll(Loop loop) except -1:
    while loop.pre_poll_count:
        try:
            loop.run_before_poll()
        except BaseException as error:
            loop.report("the end of a thread", error)
    return 0


cdef Loop peek_loop():
    """This thread's loop, or None if it has not used syncless yet, or runs code of a subinterpreter.

    Fact: subinterpreters share the built-in types, and with them what is patched in place, and run in the
    threads of others. Danger: their code would wait in a loop of the main interpreter, and start its threads.
    Decision: for them there is no loop. Guarded by
    tests/patches/test_patches.py::test_subinterpreters_are_left_alone.
    """
    if syncless_tls_loop != NULL and in_main_interpreter():
        return <Loop> syncless_tls_loop
    return None


cdef bint is_forked = False     # the process is a child whose loop has not begun anew yet, see forking.pyx


cdef bint has_loop() noexcept nogil:
    """Whether this thread has one that runs its tasklets. The GIL need not be held."""
    return syncless_tls_loop != NULL and not is_forked


cdef void set_forked(bint forked) noexcept nogil:
    global is_forked
    is_forked = forked


cdef void put_off_polls() noexcept nogil:
    """No poll of this thread's loop is due for now, and none that is due makes a tasklet give way. The GIL
    need not be held."""
    if syncless_tls_loop != NULL:
        put_off(&(<Loop> syncless_tls_loop).clock)


cdef Loop get_loop():
    """This thread's loop, made at the first call."""
    global syncless_tls_loop
    cdef Loop loop
    cdef _LoopOwner owner
    if syncless_tls_loop != NULL:
        return <Loop> syncless_tls_loop
    loop = Loop()
    loop.start()
    hooks.new_main(loop)
    owner = _LoopOwner()
    owner.loop = loop
    (<dict> PyThreadState_GetDict())["syncless"] = owner
    syncless_tls_loop = <PyObject*> loop
    loops[loop.thread_id] = loop
    return loop


def current_loop() -> Loop:
    """This thread's loop, made at the first call."""
    return get_loop()


cdef Loop loop_of(object where):
    """A Loop, or that of a threading.Thread or of a thread's number. LookupError if the thread has none."""
    cdef Loop loop
    if isinstance(where, Loop):
        return where
    number = where if isinstance(where, int) else where.ident if isinstance(where, threading.Thread) else None
    if number is None and not isinstance(where, threading.Thread):
        raise TypeError(f"expected a Loop, a Thread or a thread ident, not {type(where).__name__}")
    loop = loops.get(number)
    if loop is None or loop.ending or loop.closed:
        raise LookupError("that thread has not used syncless yet, or has ended")
    return loop
