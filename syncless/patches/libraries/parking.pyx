"""The hooks in C ask here for tasklets: they park the running one from a place where the GIL is released.

Takes a descriptor and a deadline from C code without the GIL, see hooks.h. Gives the outcome of the wait. It
takes the GIL for as long as the wait is prepared and others run. The frames of the C library stay on the
carrier's stack.
"""

from cpython.object cimport PyObject
from libc.errno cimport EBADF
from libc.stdint cimport int64_t

from syncless._core.cpython.compat cimport Py_IsFinalizing, PyThreadState, detached_state
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport (
    IN_C, SHIELDED, TIMED_OUT, BaseTasklet, is_poll_due, keep_pending, next_pending,
)
from syncless._core.threadloop cimport has_loop, peek_loop
from syncless._core.waits cimport wait_fd

from syncless._core.uncaught import tell_uncaught

cdef extern from "hooks.h" nogil:
    int PARK_WOKEN, PARK_OVER, PARK_BROKEN, PARK_REFUSED, PARK_UNWATCHED, HOOK_ENDS
    int (*hook_has_loop)() noexcept
    int (*hook_park)(int fd, int bits, int64_t deadline, int insists) noexcept
    void (*hook_give_way)() noexcept
    void (*hook_loaded)() noexcept
    ctypedef struct hook_counts:
        unsigned long long waits, with_lock, broken, holding_gil, no_tasklet, lock_waits
    hook_counts hook_stats
    const hook_row* hook_find(const char* name) noexcept
    void hook_count(unsigned long long* count) noexcept

cdef extern from "Python.h":
    void PyErr_Fetch(PyObject** kind, PyObject** value, PyObject** trace) noexcept
    void PyErr_Restore(PyObject* kind, PyObject* value, PyObject* trace) noexcept
    int Py_AddPendingCall(int (*function)(void*) except -1, void* argument)

# The first takes the GIL with the thread's own state and the second gives it up. That is what the extension
# does around its call, and needs no count of what is nested, which tasklets would mix up.
cdef extern from "Python.h" nogil:
    void PyEval_RestoreThread(PyThreadState* state) noexcept
    PyThreadState* PyEval_SaveThread() noexcept

cdef extern from *:
    """
    /* Called with the GIL, though not by Cython's knowledge. */
    typedef int (*syncless_with_gil)(int fd, int bits, int64_t deadline, int insists);
    """
    ctypedef int (*WithGil "syncless_with_gil")(
        int fd, int bits, int64_t deadline, int insists) noexcept nogil


cdef int has_loop_here() noexcept nogil:
    return has_loop()


cdef int park(int fd, int bits, int64_t deadline, int insists) noexcept nogil:
    """hook_park of hooks.h."""
    cdef int holds
    if detached_state(&holds) == NULL and holds:
        hook_count(&hook_stats.holding_gil)
        return PARK_REFUSED
    return attached(<WithGil> <void*> park_tasklet, fd, bits, deadline, insists)


cdef void give_way() noexcept nogil:
    """hook_give_way of hooks.h."""
    attached(<WithGil> <void*> take_turns, 0, 0, 0, 0)


cdef void loaded() noexcept nogil:
    """hook_loaded of hooks.h. The caller may hold the GIL."""
    cdef int holds
    detached_state(&holds)
    if holds:
        (<WithGil> <void*> tell_of_load)(0, 0, 0, 0)
    else:
        attached(<WithGil> <void*> tell_of_load, 0, 0, 0, 0)


cdef int attached(WithGil function, int fd, int bits, int64_t deadline, int insists) noexcept nogil:
    """The function with the GIL, if this thread runs Python code and has released it."""
    cdef int holds, outcome
    cdef PyThreadState* state = detached_state(&holds)
    if state == NULL:
        return PARK_REFUSED
    PyEval_RestoreThread(state)
    outcome = function(fd, bits, deadline, insists)
    PyEval_SaveThread()
    return outcome


cdef enum:
    INTERRUPTED = -1    # Ctrl-C has ended a wait that insists, and is kept


cdef int park_tasklet(int fd, int bits, int64_t deadline, int insists) noexcept:
    """Parks the running tasklet. An exception that was set before is set afterwards: a destructor may be what
    waits.

    Fact: an exception that was thrown stays pending until Python raises it. Danger: each further wait of the
    C code would end at once, so that a loop that repeats its sleep or its call never lets others run.
    Decision: once a call was broken off, a pause goes on to its end, and others run before each further wait
    that is broken off. Guarded by tests/patches/test_native.py::test_repeated_pause_goes_on_after_a_kill.

    Fact: a program that tries again when the library fails has no wait in which Python could raise. Danger:
    it never ends, and storms a server. Decision: at the second wait that is broken off, and for Ctrl-C at
    the first, the interpreter is asked to raise it as soon as Python code of the tasklet goes on, as for a
    signal. Price: it may be raised in a handler of the library's error; not in other threads than the main
    one. Guarded by tests/patches/test_native.py::test_kill_ends_a_loop_that_tries_again.
    """
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me = None if loop is None else loop.current
    cdef PyObject* kind
    cdef PyObject* value
    cdef PyObject* trace
    cdef int outcome, before
    if me is None or Py_IsFinalizing():
        hook_count(&hook_stats.no_tasklet)
        return PARK_REFUSED
    before = me.shielded
    insists = insists or before == SHIELDED
    PyErr_Fetch(&kind, &value, &trace)
    if me.pending is not None and me.broken_off and not insists:
        if fd < 0 or bits & HOOK_ENDS:
            insists = True
        else:
            let_others_run(loop, me)
    outcome = PARK_BROKEN if me.pending is not None and not insists else INTERRUPTED
    while outcome == INTERRUPTED:
        me.shielded = SHIELDED if insists else IN_C
        outcome = wait(loop, me, fd, bits & ~HOOK_ENDS, deadline)
        me.shielded = before
    PyErr_Restore(kind, value, trace)
    if me.pending is not None and not insists:
        if me.broken_off or begins_with_interrupt(me.pending):
            due.add(me)
            Py_AddPendingCall(raise_due, NULL)
        me.broken_off = True
        return PARK_BROKEN
    return outcome


cdef set due = set()            # tasklets that raise what is pending as soon as they run Python code


cdef int raise_due(void* nothing) except -1:
    """Python code runs again."""
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me = None if loop is None else loop.current
    cdef bint is_due = me in due
    due.clear()                 # the others are asked again at their next wait
    if is_due and me.pending is not None and me.broken_off and not me.shielded:
        raise next_pending(me)
    return 0


cdef bint begins_with_interrupt(object pending) noexcept:
    """Whether Ctrl-C is the first of what was thrown."""
    first = pending[0] if type(pending) is list else pending
    return isinstance(first, KeyboardInterrupt)


cdef int let_others_run(Loop loop, BaseTasklet me) noexcept:
    cdef int before = me.shielded
    me.shielded = IN_C
    try:
        loop.yield_()
    except BaseException as error:
        keep_pending_quietly(me, error)
    me.shielded = before
    return 0


cdef int wait(Loop loop, BaseTasklet me, int fd, int bits, int64_t deadline) noexcept:
    cdef int outcome
    try:
        if fd < 0:
            outcome = loop.park("pause in a C library", None, deadline)
            return PARK_OVER if outcome == TIMED_OUT else PARK_WOKEN
        try:
            loop.fds.arm_for_wait(fd, bits)
        except PermissionError:
            return PARK_WOKEN           # epoll refuses regular files: they are always ready
        except OSError as error:
            if error.errno == EBADF:
                return PARK_REFUSED     # the call itself tells of it
            return PARK_UNWATCHED
        try:
            outcome = wait_fd(loop, fd, bits, deadline, "descriptor in a C library", fd)
        finally:
            loop.fds.disarm_after_wait(fd)
        return PARK_OVER if outcome == TIMED_OUT else PARK_WOKEN
    except KeyboardInterrupt as error:
        keep_pending_quietly(me, error)
        return INTERRUPTED
    except BaseException as error:      # nothing was thrown, so the engine itself has failed
        keep_pending_quietly(me, error)
        return PARK_REFUSED


cdef int keep_pending_quietly(BaseTasklet me, object error) noexcept:
    return keep_pending(me, error, False)


cdef int take_turns(int fd, int bits, int64_t deadline, int insists) noexcept:
    """Lets others run if it is time, like take_turns() of current.pyx."""
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me = None if loop is None else loop.current
    cdef PyObject* kind
    cdef PyObject* value
    cdef PyObject* trace
    if me is None or Py_IsFinalizing() or not is_poll_due(&loop.clock):
        return 0
    PyErr_Fetch(&kind, &value, &trace)
    let_others_run(loop, me)
    PyErr_Restore(kind, value, trace)
    return 0


cdef object on_load = None      # called when a patched library has loaded another object


cdef int tell_of_load(int fd, int bits, int64_t deadline, int insists) noexcept:
    cdef PyObject* kind
    cdef PyObject* value
    cdef PyObject* trace
    if on_load is None or Py_IsFinalizing():
        return 0
    PyErr_Fetch(&kind, &value, &trace)
    try:
        on_load()
    except Exception as error:
        tell_uncaught(on_load, error)
    PyErr_Restore(kind, value, trace)
    return 0


def set_on_load(function) -> None:
    """The function is called when a patched library has loaded another object. None removes it."""
    global on_load
    on_load = function


def native_stats() -> dict:
    """How calls of patched libraries waited, since the start of the process.

    `waits`: a tasklet parked. `with_lock`: it held a mutex of a patched library meanwhile. `broken`: it was
    killed or its time was over. `lock_waits`: for a mutex that another tasklet held. The thread itself
    waited, and all tasklets with it: `holding_gil`, the library was called with the GIL held; `no_tasklet`,
    the caller was a callback of the loop.
    """
    return {
        "waits": hook_stats.waits,
        "with_lock": hook_stats.with_lock,
        "broken": hook_stats.broken,
        "lock_waits": hook_stats.lock_waits,
        "holding_gil": hook_stats.holding_gil,
        "no_tasklet": hook_stats.no_tasklet,
    }


cdef const hook_row* find_hook(const char* name) noexcept:
    """The row of a function of libc; NULL if it is not replaced."""
    return hook_find(name)


hook_has_loop = has_loop_here
hook_park = park
hook_give_way = give_way
hook_loaded = loaded
