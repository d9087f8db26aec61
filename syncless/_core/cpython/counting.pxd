"""Being called before each bytecode, or when Python code goes on."""

from cpython.object cimport PyObject

cdef extern from *:
    """
    /* Fact: while the interpreter calls what traces bytecodes, it traces none. Danger: after a switch from
       there no other tasklet would be traced. Decision: the mark is taken away for the time in which others
       run. */
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

ctypedef int (*Each)(PyObject* thing) except -1
ctypedef int (*Once)(void* nothing) except -1

cdef bint FLAG_PER_GREENLET         # whether each greenlet has its own flag that says whether it is traced
cdef int begin_counting(Each each, PyObject* thing, bint first) except -1
cdef bint when_code_goes_on(Once once) except -1
cdef int end_counting(bint last) except -1
cdef void follow_trace() noexcept
cdef int prepare_stack(dict known) except -1
cdef bint interpreter_checks() except -1
