"""Descriptors that add_reader() and add_writer() watch.

Takes a descriptor's number and a callback. Gives the callback to the rounds (rounds.pyx) whenever the engine
says that the descriptor is ready.
"""

from cpython.object cimport PyObject

from syncless._core.loop cimport Loop
from syncless._core.poll.now cimport is_ready
from syncless._core.poll.poller cimport READ, WRITE
from syncless.asyncio.handles cimport Handle
from syncless.asyncio.rounds cimport Rounds


cdef class ReadyHandle(Handle):
    """Called whenever its descriptor is ready.

    A descriptor is reported when it becomes ready, but asyncio promises a call for as long as it is. So it is
    looked at after each call.
    """

    cdef int done(self) except -1:
        self.under_way = False
        if self.is_cancelled:
            return 0
        return self.descriptor.look(self.bit)


cdef class Descriptor(Watcher):
    """A descriptor that add_reader() or add_writer() watches."""

    cdef int on_ready(self, Loop engine, int bits) except -1:
        if bits & READ and self.reader is not None:
            self.due(self.reader)
        if bits & WRITE and self.writer is not None:
            self.due(self.writer)
        return 0

    cdef int due(self, ReadyHandle handle) except -1:
        if not handle.under_way:                # else it is looked at once more when that call is over
            handle.under_way = True
            self.descriptors.rounds.append(handle)
        return 0

    cdef int look(self, int bits) except -1:
        """The loop runs: its handle is called if it is ready, and when it will be."""
        cdef Loop engine = self.descriptors.rounds.engine
        if engine is None:
            return 0
        if is_ready(self.fd, bits):
            return self.due(self.reader if bits & READ else self.writer)
        if engine.fds.entry(self.fd).watcher == <PyObject*> self:
            engine.fds.arm(self.fd, bits)           # for a poller whose every report is the last one
        return 0

    cdef int awaited(self) noexcept:
        """The directions that have a handle."""
        return (READ if self.reader is not None else 0) | (WRITE if self.writer is not None else 0)

    cdef int arm(self) except -1:
        """From now on its events come here. The number may have been another descriptor's before."""
        cdef Loop engine = self.descriptors.rounds.engine
        if engine is not None:
            engine.fds.arm_for_wait(self.fd, self.awaited())
            engine.fds.entry(self.fd).watcher = <PyObject*> self
        return 0

    cdef int leave_engine(self, Loop engine) except -1:
        """No event comes here any more."""
        if engine.fds.entry(self.fd).watcher == <PyObject*> self:
            engine.fds.entry(self.fd).watcher = NULL
            engine.fds.disarm_after_wait(self.fd)
        return 0


cdef class Descriptors:
    """Those of one loop."""

    def __init__(self, Rounds rounds):
        self.rounds = rounds
        self.by_number = {}

    cdef int follow(self, object number, ReadyHandle handle) except -1:
        """The handle is called from now on, instead of the last one for this direction."""
        cdef Descriptor descriptor = self.by_number.get(number)
        cdef ReadyHandle before
        if descriptor is None:
            descriptor = Descriptor.__new__(Descriptor)
            descriptor.descriptors = self
            descriptor.fd = number
        handle.descriptor = descriptor
        if handle.bit == READ:
            before, descriptor.reader = descriptor.reader, handle
        else:
            before, descriptor.writer = descriptor.writer, handle
        if before is not None:
            before.cancel()
        descriptor.arm()                            # raises for a descriptor that cannot be waited for
        self.by_number[number] = descriptor
        return 0

    cdef bint leave(self, object number, int bit) except -1:
        """Whether a handle was called for this direction; it is not any more."""
        cdef Descriptor descriptor = self.by_number.get(number)
        cdef ReadyHandle handle
        if descriptor is None:
            return False
        if bit == READ:
            handle, descriptor.reader = descriptor.reader, None
        else:
            handle, descriptor.writer = descriptor.writer, None
        if descriptor.reader is None and descriptor.writer is None:
            del self.by_number[number]
            if self.rounds.engine is not None:
                descriptor.leave_engine(self.rounds.engine)
        if handle is None:
            return False
        handle.cancel()
        return True

    cdef int join_engine(self) except -1:
        """The loop runs from now on."""
        for descriptor in self.by_number.values():
            (<Descriptor> descriptor).arm()
        return 0

    cdef int leave_engine(self, Loop engine) except -1:
        """The loop has stopped. Events that come meanwhile are found when it runs again."""
        for descriptor in self.by_number.values():
            (<Descriptor> descriptor).leave_engine(engine)
        return 0
