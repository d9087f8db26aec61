from syncless._core.scheduler cimport Runnable
from syncless.http.deadlines cimport DeadlineNode, Deadlines


cdef class Admission:
    cdef Deadlines deadlines
    cdef Py_ssize_t most_active         # Limits.requests; 0: any number
    cdef Py_ssize_t most_queued         # Limits.queued
    cdef readonly Py_ssize_t active     # requests that run
    cdef readonly Py_ssize_t queued     # those that wait, in the order of QUEUE_DEADLINE's list

    cdef inline bint begin(self) noexcept:
        """Whether a request may run now; it counts then."""
        if self.most_active and self.active >= self.most_active:
            return False
        self.active += 1
        return True

    cdef inline int end(self) except -1:
        """A request has ended: its turn goes to the one that waits longest."""
        if self.queued == 0 or not self.hand_over():
            self.active -= 1
        return 0

    cdef inline void expire(self) noexcept:
        """The deadline of one that waited has passed: it will not run."""
        self.queued -= 1

    cdef bint queue(self, DeadlineNode* node, Runnable owner) except -1
    cdef int leave(self, DeadlineNode* node) except -1
    cdef bint hand_over(self) except -1
