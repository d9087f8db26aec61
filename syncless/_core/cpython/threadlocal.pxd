"""threading.local per tasklet. See threadlocal.pyx."""

from cpython.object cimport PyObject

cdef struct Locals:
    bint own                # whether the tasklet has values of its own
    PyObject* held[3]       # owned: while it runs the thread's, otherwise its own

cdef void start_locals(Locals* locals) noexcept
cdef void exchange_locals(Locals* locals) noexcept
cdef void end_locals(Locals* locals) noexcept
cdef void drop_locals(Locals* locals) noexcept

# of all KeptLocals that there are
cdef Py_ssize_t kept_count


cdef class KeptLocals:
    """Values that their owner has while it does not run; while it does, those in whose place they are."""
    cdef object values, key, sentinel
    cdef bint lent          # the owner runs

cdef bint locals_used() noexcept
cdef KeptLocals keep_locals()
cdef int exchange_kept(KeptLocals kept) except -1
