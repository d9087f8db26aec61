"""Flusher: the responses of one turn of the loop are sent together at its end.

At the latest after FLUSH_COUNT responses or FLUSH_AFTER ns: the application's code and data stay in the
processor's caches, as do the kernel's. A handler that takes longer than that delays responses that were
finished before it in the same turn, so everything is sent before a slow application is called.
"""


@cython.final
cdef class Flusher(Runnable):
    """Runs before the loop polls, if anything was added since it last did."""

    def __cinit__(self, Loop loop not None):
        self.loop = loop

    def __dealloc__(self):
        while self.count:
            self.count -= 1
            Py_DECREF(<object> self.pending[self.count])

    cdef int turn(self, Scheduler loop) except -1:
        return self.flush_all()

    cdef int add(self, object owner) except -1:
        """The owner is flushed soon, even if that is done already when the turn ends."""
        cdef int at = self.count
        while at:                       # the last is the likeliest: pipelined requests
            at -= 1
            if self.pending[at] == <PyObject*> owner:
                return 0
        if self.count == 0:
            self.loop.before_poll(self)
            self.since = self.loop.clock.now
        Py_INCREF(owner)
        self.pending[self.count] = <PyObject*> owner
        self.count += 1
        if self.count == FLUSH_COUNT or self.loop.clock.now - self.since > FLUSH_AFTER:
            self.flush_all()
        return 0

    cdef int flush_all(self) except -1:
        """Flush those that are pending, and those that are added meanwhile."""
        while self.count:
            self.count -= 1
            owner = <object> self.pending[self.count]
            Py_DECREF(owner)
            if self.flush(self.loop, owner) < 0:    # a try block would cost each response 40 instructions
                self.loop.report("sending a response", raised())
        return 0
