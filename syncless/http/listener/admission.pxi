"""Admission: how many requests run at a time, and which one is next.

    begin() ----------------------------------> runs --------> end()
       | too many run                            ^
       +--> queue() --- another one has ended ---+
                 |    too many wait: it is refused
                 +--> expire(): it has waited for too long
                 +--> leave(): its connection is closed

Waiting requests stand in the list of QUEUE_DEADLINE, the longest waiting first, so the queue is no list of
its own. Each is a Runnable that owns a DeadlineNode: it is pushed when its turn has come, and counts already.
"""


cdef class Admission:
    """Admission(deadlines, requests, queued): the limits of these names."""

    def __init__(self, Deadlines deadlines not None, Py_ssize_t requests, Py_ssize_t queued):
        self.deadlines = deadlines
        self.most_active = requests
        self.most_queued = queued

    cdef bint is_full(self) noexcept:
        """Return whether as many run as may."""
        cdef Py_ssize_t active = self.active
        cdef Admission other
        if self.siblings is not None:
            active = 0
            for other in self.siblings:
                active += other.active
        return active >= self.most_active

    cdef int offer(self) except -1:
        """Requests may have ended elsewhere: those that wait have their turn."""
        while self.queued and not self.is_full():
            self.active += 1
            self.hand_over()
        return 0

    cdef bint queue(self, DeadlineNode* node, Runnable owner) except -1:
        """Return whether its owner may wait for its turn."""
        if self.queued >= self.most_queued:
            return False
        self.deadlines.start(node, QUEUE_DEADLINE, owner)
        self.queued += 1
        return True

    cdef int leave(self, DeadlineNode* node) except -1:
        """The owner of a node that was queued will not run. It may have been given a turn already."""
        if node.kind == QUEUE_DEADLINE:
            self.deadlines.stop(node)
            self.queued -= 1
            return 0
        return self.end()

    cdef bint hand_over(self) except -1:
        """Return whether another one is there to have the turn."""
        cdef DeadlineNode* first = self.deadlines.first(QUEUE_DEADLINE)
        if first == NULL:
            return False
        owner = <Runnable> first.place.owner
        self.queued -= 1
        self.deadlines.stop(first)
        self.deadlines.loop.push(owner)
        return True
