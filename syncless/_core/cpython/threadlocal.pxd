"""threading.local per tasklet. See threadlocal.pyx."""

from cpython.object cimport PyObject

cdef struct Locals:
    bint own                # whether the tasklet has values of its own
    PyObject* held[3]       # owned: while it runs the thread's, otherwise its own

cdef void start_locals(Locals* locals) noexcept
cdef void exchange_locals(Locals* locals) noexcept
cdef void end_locals(Locals* locals) noexcept
cdef void drop_locals(Locals* locals) noexcept
