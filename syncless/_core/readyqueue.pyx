"""The ready queue: whose turn is next, and when the loop must look for events again.

Takes: things that are ready, from any thread that holds the GIL. Gives: them, in the order of their coming,
and whether a poll is due. The Scheduler is one; it knows what the things are.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t

from syncless._core.arrays cimport doubled
from syncless._core.clock cimport monotonic_ns

cdef enum:
    POLL_ITEMS = 64             # items run before a poll is due
    POLL_AFTER = 200000         # ns run before a poll is due
    SHORT = 4000  # ns from one reading of the clock to the next, after which the next three turns go without


cdef class ReadyQueue:
    def __cinit__(self):
        self.ring_mask = 255
        self.ring = <PyObject**> PyMem_Malloc(256 * sizeof(PyObject*))
        if self.ring == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.ring)
        PyMem_Free(self.pre_poll)

    cdef int push(self, object item) except -1:
        """Puts the item at the end of the ready queue. From any thread that holds the GIL."""
        cdef PyObject** grown
        cdef size_t i
        if self.ring_count > self.ring_mask:
            grown = <PyObject**> PyMem_Malloc((self.ring_mask + 1) * 2 * sizeof(PyObject*))
            if grown == NULL:
                raise MemoryError
            for i in range(self.ring_count):
                grown[i] = self.ring[(self.ring_head + i) & self.ring_mask]
            PyMem_Free(self.ring)
            self.ring = grown
            self.ring_head = 0
            self.ring_mask = self.ring_mask * 2 + 1
        Py_INCREF(item)
        self.ring[(self.ring_head + self.ring_count) & self.ring_mask] = <PyObject*> item
        self.ring_count += 1
        if self.polling:
            self.rouse()
        return 0

    cdef object _pop(self):
        cdef PyObject* item = self.ring[self.ring_head]
        assert self.ring_count > 0
        self.ring_head = (self.ring_head + 1) & self.ring_mask
        self.ring_count -= 1
        owned = <object> item
        Py_DECREF(owned)
        return owned

    cdef int before_poll(self, object item) except -1:
        """Runs the item before the loop next looks at descriptors."""
        if self.pre_poll_count == self.pre_poll_capacity:
            self.pre_poll = <PyObject**> doubled(
                self.pre_poll, &self.pre_poll_capacity, sizeof(PyObject*), 16)
        Py_INCREF(item)
        self.pre_poll[self.pre_poll_count] = <PyObject*> item
        self.pre_poll_count += 1
        return 0

    cdef int rouse(self) except -1:
        """Wakes the loop that sleeps in poll(), from another thread. Loop knows how."""
        return 0

    # -- fairness --------------------------------------------------------------------------------------------

    cdef void polled(self, int64_t now) noexcept:
        """A poll is over: the next is due after POLL_ITEMS items or POLL_AFTER ns."""
        self.now = self.polled_at = now
        self.turns_left = POLL_ITEMS
        self.slice_ns = POLL_AFTER

    cdef void share_equally(self, int64_t now, int items) noexcept:
        """The items that a poll brought are done: those that are ready get as many turns and as much time
        before the next."""
        cdef int64_t spent = now - self.polled_at
        self.polled(now)
        self.turns_left = max(items, <int> POLL_ITEMS)
        self.slice_ns = max(spent, <int64_t> POLL_AFTER)

    cdef bint _poll_due(self) noexcept:
        """Once it is due it stays so until there was one: who gives way asks, and the leader asks again."""
        cdef int64_t before
        self.turns_left -= 1
        if self.unread:  # turns are short: reading the clock each time would be a good part of their cost
            self.unread -= 1
        else:
            before = self.now
            self.now = monotonic_ns()
            if self.now - self.polled_at > self.slice_ns:
                self.turns_left = 0
            elif self.now - before < SHORT:
                self.unread = 3
        return self.turns_left <= 0
