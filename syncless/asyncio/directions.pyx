"""The two directions of a stream socket: their common part.

Takes the events of a socket. Gives a callback of the loop for each direction that is ready (rounds.pyx). Next
to read: inlet.pyx and outlet.pyx, which say how the callbacks read and write.

Fact: epoll reports edges, and a report may come while the protocol's method that the last one led to is
parked. Danger: a byte that nobody reads. Decision: `more` says whether the socket may be ready; a report sets
it, and a call that has found less than it asked for takes it back. Guarded by
tests/asyncio/test_transports.py.
"""

from cpython.object cimport PyObject

from syncless._core.loop cimport Loop
from syncless.asyncio.descriptors cimport Descriptor, ReadyHandle


cdef class Endpoint(Descriptor):
    """The part of a transport that its directions know."""

    cdef object went_wrong(self, error, message):
        """The connection ends with this error."""
        raise NotImplementedError

    cdef int finish_closing(self) except -1:
        """All has been sent, and the transport is closing."""
        raise NotImplementedError

    cdef int follow(self) except -1:
        """Events of the socket come here from now on, in the directions that have a handle."""
        cdef Loop engine = self.descriptors.rounds.engine
        number = self.fd
        if self.descriptors.by_number.get(number) is not self:
            self.arm()                              # the number may have been another descriptor's
            self.descriptors.by_number[number] = self
        elif engine is not None:
            engine.fds.arm(self.fd, self.awaited())
        return 0

    cdef int forget(self) except -1:
        """The socket is about to be closed."""
        cdef Loop engine = self.descriptors.rounds.engine
        number = self.fd
        if self.descriptors.by_number.get(number) is self:
            del self.descriptors.by_number[number]
        if engine is not None and engine.fds.entry(self.fd).watcher == <PyObject*> self:
            engine.fds.forget(self.fd)
        return 0


cdef class Direction(ReadyHandle):
    """Called when the socket is ready in this direction."""

    cdef object go_on(self):
        raise NotImplementedError

    cdef bint is_wanted(self) noexcept:
        """Whether it is to be called when the socket is ready."""
        return False

    cdef int look_again(self) except -1:
        """It was not told that there is more: may there be?"""
        return False

    cdef PyObject* invoke(self) noexcept:
        return unchecked_go_on(self)

    cdef int done(self) except -1:
        cdef Loop engine = self.rounds.engine
        self.under_way = False
        self.trouble = None
        if not self.is_wanted():
            return 0
        if self.more or self.look_again():
            return self.endpoint.due(self)
        if engine is not None and engine.fds.entry(self.endpoint.fd).watcher == <PyObject*> self.endpoint:
            engine.fds.arm(self.endpoint.fd, self.bit)  # for a poller whose every report is the last one
        return 0

    cdef int tell(self, object error) except -1:
        trouble, self.trouble = self.trouble, None
        self.endpoint.went_wrong(error, trouble)
        return 0


cdef object go_on(Direction self):
    return self.go_on()


ctypedef PyObject* (*GoOn)(Direction self) noexcept
cdef GoOn unchecked_go_on = <GoOn> go_on
