from libc.stdint cimport int64_t

from syncless._core.loop cimport Loop
from syncless._core.observers cimport Observer
from syncless._core.scheduler cimport BaseTasklet

cdef extern from *:
    """
    /* Fact: while the interpreter calls what traces bytecodes, it traces none. Danger: after a switch from there no other tasklet would be
       traced. Decision: the mark is taken away for the time in which others run. */
    static int syncless_untraced(void) {
        PyThreadState *state = PyThreadState_Get();
        int before = state->tracing;
        state->tracing = 0;
        return before;
    }
    static void syncless_traced(int before) {
        PyThreadState_Get()->tracing = before;
    }
    """
    int others_are_traced "syncless_untraced" ()
    void traced_again "syncless_traced" (int before)


cdef class BytecodeLimit(Observer):
    cdef readonly int64_t limit
    cdef readonly bint in_all           # for all turns together, not for each
    cdef int64_t left
    cdef Loop loop
    cdef dict known                     # code that is ready to be counted
    cdef int exceeded(self, BaseTasklet tasklet) except -1
