"""threading.local per tasklet. See threadlocal.pyx."""

from cpython.object cimport PyObject

cdef struct Locals:
    bint own                # whether the tasklet has values of its own
    bint takes_slot         # they are those of a Slot
    PyObject* slot          # which it has while it lives; borrowed
    PyObject* held[3]       # owned: while it runs the thread's, otherwise its own

cdef void start_locals(Locals* locals) noexcept
cdef void exchange_locals(Locals* locals) noexcept
cdef void end_locals(Locals* locals) noexcept
cdef void drop_locals(Locals* locals) noexcept


cdef class Slot:
    cdef object values, key, sentinel       # as in KeptLocals; nothing while a tasklet has the slot
    cdef int number
    cdef int round                          # in which the last tasklet gave it back
    cdef list at_end                        # functions to call, or None

cdef Slot slot_of(Locals* locals)
cdef bint end_idle_slots(int rounds, Locals* locals) except -1

# of all KeptLocals that there are
cdef Py_ssize_t kept_count


cdef class KeptLocals:
    """Values that their owner has while it does not run; while it does, those in whose place they are."""
    cdef object values, key, sentinel
    cdef bint lent          # the owner runs

cdef bint locals_used() noexcept
cdef KeptLocals keep_locals()
cdef int exchange_kept(KeptLocals kept) except -1
