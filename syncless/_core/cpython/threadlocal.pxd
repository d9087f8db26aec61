"""threading.local per tasklet. See threadlocal.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

cdef struct Locals:
    bint own                # whether the tasklet has values of its own
    PyObject* slots         # Slots of which it takes one, or NULL; borrowed: its context has them
    PyObject* slot          # the one that it has while it lives; borrowed
    PyObject* held[3]       # owned: while it runs the thread's, otherwise its own

# whether tasklets that start from now on have values of their own
cdef bint separate
cdef void start_locals(Locals* locals) noexcept
cdef void exchange_locals(Locals* locals) noexcept
cdef void end_locals(Locals* locals) noexcept
cdef void drop_own(Locals* locals) noexcept
cdef void drop_locals(Locals* locals) noexcept


cdef enum:
    WORDS = 1024            # tasklets beyond 64 times as many have values of their own


cdef class Slots:
    cdef dict kept              # number -> Slot
    cdef uint64_t taken[WORDS]  # a bit for each number
    cdef int lowest             # all words before it are full
    cdef int round              # of looks for idle slots
    cdef object when_kept
    cdef bint tended            # somebody looks after them

    cdef void take(self, Locals* locals) noexcept
    cdef void leave(self, Slot slot, Locals* locals) noexcept


cdef class Slot:
    cdef object values, key, sentinel       # as in KeptLocals; nothing while a tasklet has the slot
    cdef int number
    cdef int round                          # in which the last tasklet gave it back
    cdef list at_end                        # functions to call, or None

cdef Slot slot_of(Locals* locals)
cdef bint end_idle_slots(Slots slots, int rounds, Locals* locals) except -1
cdef Slots slots_here()

# of all KeptLocals that there are
cdef Py_ssize_t kept_count


cdef class KeptLocals:
    """Values that their owner has while it does not run; while it does, those in whose place they are."""
    cdef object values, key, sentinel
    cdef bint lent          # the owner runs

cdef bint locals_used() noexcept
cdef KeptLocals keep_locals()
cdef int exchange_kept(KeptLocals kept) except -1
