"""Deadlines in the order of time: a binary heap of pointers to Timer structs that live inside their owners.

No Python object is made for a timer. Each struct knows its place, so taking one out early (the usual end of a
timeout) costs O(log n) and no search. The many deadlines of connections do not come here: all of one kind
have the same length, so the server keeps them in plain lists (http/connection.pyx).
"""

from cpython.mem cimport PyMem_Free
from libc.stdint cimport int64_t

from syncless._core.arrays cimport doubled


cdef inline bint before(Timer* a, Timer* b) noexcept:
    return a.when < b.when or (a.when == b.when and a.order < b.order)


cdef class TimerHeap:
    def __dealloc__(self):
        self.clear()
        PyMem_Free(self.heap)

    cdef int add(self, Timer* timer, int64_t when) except -1:
        """Set the timer, which must not be set."""
        assert timer.index < 0
        if self.count == self.room:
            self.heap = <Timer**> doubled(self.heap, &self.room, sizeof(Timer*), 64)
        timer.when = when
        timer.order = self.order
        self.order += 1
        self.heap[self.count] = timer
        timer.index = self.count
        self.count += 1
        self._up(timer.index)
        return 0

    cdef void remove(self, Timer* timer) noexcept:
        """Take the timer out; one that is not set is left alone."""
        cdef Py_ssize_t i = timer.index
        cdef Timer* last
        if i < 0:
            return
        assert self.heap[i] == timer
        timer.index = -1
        self.count -= 1
        if i == self.count:
            return
        last = self.heap[self.count]
        self.heap[i] = last
        last.index = i
        self._up(i)
        self._down(last.index)

    cdef int fire_due(self, int64_t now) noexcept:
        """Fire what is due at `now` and was set before this call; return how many."""
        cdef uint64_t last = self.order
        cdef Timer* timer
        cdef int fired = 0
        while self.count and self.heap[0].when <= now and self.heap[0].order < last:
            timer = self.heap[0]
            self.remove(timer)
            timer.fire(timer.owner)
            fired += 1
        return fired

    cdef void clear(self) noexcept:
        """Forget all timers without firing them."""
        while self.count:
            self.count -= 1
            self.heap[self.count].index = -1

    cdef void _up(self, Py_ssize_t i) noexcept:
        cdef Timer* timer = self.heap[i]
        cdef Py_ssize_t parent
        while i > 0:
            parent = (i - 1) >> 1
            if not before(timer, self.heap[parent]):
                break
            self.heap[i] = self.heap[parent]
            self.heap[i].index = i
            i = parent
        self.heap[i] = timer
        timer.index = i

    cdef void _down(self, Py_ssize_t i) noexcept:
        cdef Timer* timer = self.heap[i]
        cdef Py_ssize_t child
        while True:
            child = 2 * i + 1
            if child >= self.count:
                break
            if child + 1 < self.count and before(self.heap[child + 1], self.heap[child]):
                child += 1
            if not before(self.heap[child], timer):
                break
            self.heap[i] = self.heap[child]
            self.heap[i].index = i
            i = child
        self.heap[i] = timer
        timer.index = i
