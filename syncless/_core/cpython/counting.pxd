"""Being called before each bytecode, or when Python code goes on."""

from cpython.object cimport PyObject

ctypedef int (*Each)(PyObject* thing) except -1
ctypedef int (*Once)(void* nothing) except -1

cdef bint FLAG_PER_GREENLET         # whether each greenlet has its own flag that says whether it is traced
cdef int begin_counting(Each each, PyObject* thing, bint first) except -1
cdef bint when_code_goes_on(Once once) except -1
cdef int end_counting(bint last) except -1
cdef void* counting_function() noexcept
cdef void follow_trace() noexcept
cdef int prepare_stack(dict known) except -1
cdef bint interpreter_checks() except -1
