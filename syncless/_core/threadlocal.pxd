"""threading.local per tasklet. See threadlocal.pyx."""

from cpython.object cimport PyObject

cdef void start_locals(PyObject* home) noexcept
cdef void end_locals(PyObject* home) noexcept
cdef void put_locals_away(PyObject* home, PyObject** kept, bint main) noexcept
cdef void take_locals_out(PyObject* home, PyObject** kept) noexcept
