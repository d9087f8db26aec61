"""The cases of select(): stand-ins for the tasklet in the queue of each thing.

A new kind defines ready() and take(), which take the thing at once, and what it does otherwise differently.
Waking the first case of a select() wakes the tasklet, and the others leave their queues in the same moment.
"""

from syncless._core.clock cimport NEVER, monotonic_ns
from syncless._core.fdtable cimport FdEntry
from syncless._core.loop cimport Loop
from syncless._core.poll.now cimport is_ready
from syncless._core.poll.poller cimport READ
from syncless._core.scheduler cimport DONE, PARKED, READY, RUNNING, BaseTasklet, Meeting, StandIn
from syncless._core.tasklet cimport Tasklet
from syncless._core.timers cimport timer_init
from syncless._core.wait.channels cimport Channel
from syncless._core.wait.queues cimport Queue
from syncless._core.wait.sync cimport Event, Semaphore
from syncless._core.wait.waitqueue cimport is_queued, queue_add, queue_remove, someone_waits

cdef const char* IN_SELECT = "the first of several"


cdef class Selection(Meeting):
    """One call of select()."""

    cdef int left_by(self, BaseTasklet tasklet) except -1:
        if self.winner is None:
            for case in self.cases:
                (<Case> case).leave()
        return 0

    def __repr__(self):
        return f"<select of {', '.join([repr((<Case> case).source) for case in self.cases])}>"


cdef class Case(StandIn):
    def __init__(self, source):
        self.source = source

    cdef bint ready(self) noexcept:
        """Whether take() would not wait. Runs no Python code."""
        return False

    cdef object take(self):
        """Takes it at once."""
        raise NotImplementedError("a Case defines take()")

    cdef int enter(self) except -1:
        """Into the queue."""
        queue_add(self.queue, self)
        self.counted = True
        return 0

    cdef int leave(self) except -1:
        """Out of it; nothing happens if somebody has taken it from there."""
        if is_queued(self):
            queue_remove(self.queue, self)
        if self.counted:
            self.counted = False
            if self.selection.winner is not self:
                self.unmet()
        return 0

    cdef int unmet(self) except -1:
        """It has left the queue and was not taken: undoes the count of enter()."""
        return 0

    cdef object result(self, object value):
        """The result of select() for the value with which it was woken."""
        return value

    cdef int undo(self, object value) except -1:
        """It was woken with the value, and the tasklet was killed before it could take it."""
        return 0

    cdef bint stands(self) noexcept:
        return self.selection.owner.state in (PARKED, RUNNING)      # it runs while it enters the queues

    cdef int taken(self, object value) except -1:
        cdef Selection selection = self.selection
        cdef BaseTasklet owner = selection.owner
        if selection.winner is not None or not self.stands():
            return 0
        selection.winner = self
        selection.value = value
        owner.handed_over = True
        for case in selection.cases:
            (<Case> case).leave()
        if owner.state == PARKED and owner.why == IN_SELECT:
            owner.state = READY
            owner.loop.push(owner)
        return 1


# -- the kinds -----------------------------------------------------------------------------------


cdef class EventCase(Case):
    cdef bint ready(self) noexcept:
        return (<Event> self.source).flag

    cdef object take(self):
        """An event stays set, a tasklet ended: nothing is taken."""

    cdef int enter(self) except -1:
        self.queue = &(<Event> self.source).waiters
        return Case.enter(self)


cdef class TaskletCase(Case):
    cdef bint ready(self) noexcept:
        return (<Tasklet> self.source).state == DONE

    cdef object take(self):
        return None

    cdef int enter(self) except -1:
        self.queue = &(<Tasklet> self.source).joiners
        return Case.enter(self)


cdef class SemaphoreCase(Case):
    cdef bint ready(self) noexcept:
        return (<Semaphore> self.source).value > 0

    cdef object take(self):
        (<Semaphore> self.source).acquire_unit(False, None)

    cdef int enter(self) except -1:
        self.queue = &(<Semaphore> self.source).waiters
        return Case.enter(self)

    cdef int undo(self, object value) except -1:
        return (<Semaphore> self.source).release_unit()


cdef class GetCase(Case):
    cdef bint ready(self) noexcept:
        return (<Queue> self.source).count > 0

    cdef object take(self):
        return self.source.get(False)

    cdef int enter(self) except -1:
        self.queue = &(<Queue> self.source).getters
        return Case.enter(self)

    cdef int undo(self, object value) except -1:
        (<Queue> self.source)._give_back(value)
        return 0


cdef class PutCase(Case):
    cdef bint ready(self) noexcept:
        return someone_waits(&(<Queue> self.source).getters) or (<Queue> self.source).has_room()

    cdef object take(self):
        self.source.put(self.item, False)

    cdef int enter(self) except -1:
        self.value = self.item
        self.queue = &(<Queue> self.source).putters
        return Case.enter(self)

    cdef object result(self, object value):
        (<Queue> self.source).complete_admission(self.item)

    cdef int undo(self, object value) except -1:
        return (<Queue> self.source).undo_admission()


cdef class ReceiveCase(Case):
    cdef bint ready(self) noexcept:
        cdef Channel source = <Channel> self.source
        return source.kept is not None or someone_waits(&source.senders) or source.closed

    cdef object take(self):
        return self.source.receive(0)

    cdef int enter(self) except -1:
        self.queue = &(<Channel> self.source).receivers
        (<Channel> self.source).balance -= 1
        return Case.enter(self)

    cdef int unmet(self) except -1:
        (<Channel> self.source).balance += 1
        return 0

    cdef object result(self, object value):
        return (<Channel> self.source).received(value)

    cdef int undo(self, object value) except -1:
        return (<Channel> self.source).pass_on(value)


cdef class SendCase(Case):
    cdef bint ready(self) noexcept:
        return someone_waits(&(<Channel> self.source).receivers) or (<Channel> self.source).closed

    cdef object take(self):
        self.source.send(self.item, 0)

    cdef int enter(self) except -1:
        self.value = self.item
        self.queue = &(<Channel> self.source).senders
        (<Channel> self.source).balance += 1
        return Case.enter(self)

    cdef int unmet(self) except -1:
        (<Channel> self.source).balance -= 1
        return 0

    cdef object result(self, object value):
        (<Channel> self.source).sent(value)


cdef class FdCase(Case):
    cdef bint ready(self) noexcept:
        return self.buffered or is_ready(self.fd, self.bit)

    cdef object take(self):
        return None

    cdef int enter(self) except -1:
        cdef Loop loop = <Loop> self.loop
        cdef FdEntry* entry
        loop.fds.arm_for_wait(self.fd, self.bit)
        entry = &loop.fds.entries[self.fd]
        queue_add(&entry.readers if self.bit == READ else &entry.writers, self)
        return 0

    cdef int leave(self) except -1:
        cdef Loop loop = <Loop> self.loop
        cdef FdEntry* entry
        if self.fd >= loop.fds.capacity:
            return 0
        entry = &loop.fds.entries[self.fd]
        if is_queued(self):
            queue_remove(&entry.readers if self.bit == READ else &entry.writers, self)
        return loop.fds.disarm_after_wait(self.fd)


cdef void time_is_over(void* owner) noexcept:
    (<AfterCase> owner).taken(None)


cdef class AfterCase(Case):
    def __cinit__(self, source):
        timer_init(&self.alarm, time_is_over, <void*> self)

    cdef bint ready(self) noexcept:
        return self.when != NEVER and self.when <= monotonic_ns()

    cdef object take(self):
        return None

    cdef int enter(self) except -1:
        if self.when != NEVER:
            self.loop.timers.add(&self.alarm, self.when)
        return 0

    cdef int leave(self) except -1:
        if self.alarm.index >= 0:
            self.loop.timers.remove(&self.alarm)
        return 0
