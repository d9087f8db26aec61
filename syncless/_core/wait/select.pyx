"""select(): waiting for the first of several things, which it takes; the others are left as they were.

A tasklet stands in one queue at most. So select() puts a Case into the queue of each thing, in the tasklet's
place. The first wake-up of one of them wakes the tasklet, and the others leave their queues in the same
moment: nothing is taken twice, and nothing that was taken is lost, also when both ends of a channel are in
select().

No Python code runs between the look at what is ready and the entry into the queues (see sync.pyx).

A new kind of case defines ready() and take(), which take the thing at once, and what it does otherwise
differently.
"""

from libc.stdint cimport int64_t, uint64_t
from posix.unistd cimport getpid

from syncless._core cimport scheduler
from syncless._core.alone cimport wait_alone
from syncless._core.clock cimport NEVER, deadline_after, monotonic_ns
from syncless._core.cpython.compat cimport Py_IsFinalizing
from syncless._core.loop cimport FdEntry, Loop
from syncless._core.poll.now cimport is_ready
from syncless._core.poll.poller cimport READ, WRITE
from syncless._core.scheduler cimport (
    COVERED, COVERED_READY, DONE, PARKED, READY, RUNNING, STANDS_IN, BaseTasklet, Meeting, StandIn,
)
from syncless._core.tasklet cimport Tasklet
from syncless._core.threadloop cimport get_loop
from syncless._core.timers cimport timer_init
from syncless._core.wait.queues cimport Channel, Queue
from syncless._core.wait.sync cimport Event, Semaphore
from syncless._core.wait.waitqueue cimport is_queued, queue_add, queue_remove, someone_waits

cdef const char* IN_SELECT = "the first of several"

cdef enum:
    BETWEEN_LOOKS_NS = 5_000_000        # while the interpreter ends


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
        """Return whether take() would not wait. Run no Python code."""
        return False

    cdef object take(self):
        """Take it at once."""
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
        """Return the result of select() for the value with which it was woken."""
        return value

    cdef int undo(self, object value) except -1:
        """It was woken with the value, and the tasklet was killed before it could take it."""
        return 0

    cdef bint stands(self) noexcept:
        # it runs while it enters the queues
        return self.selection.owner.state in (PARKED, COVERED, RUNNING)

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
            owner.ready_since = owner.loop.clock.now
            owner.loop.push(owner)
        elif owner.state == COVERED and owner.why == IN_SELECT:
            owner.state = COVERED_READY
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


cdef Case case_of(object source):
    if isinstance(source, Case):
        return source
    if isinstance(source, Channel):
        return ReceiveCase(source)
    if isinstance(source, Queue):
        return GetCase(source)
    if isinstance(source, Event):
        return EventCase(source)
    if isinstance(source, Tasklet):
        return TaskletCase(source)
    if isinstance(source, Semaphore):
        return SemaphoreCase(source)
    for kind in scheduler.case_makers:
        if isinstance(source, kind):
            return scheduler.case_makers[kind](source)
    if isinstance(source, int) or hasattr(source, "fileno"):
        return readable(source)
    raise TypeError(
        f"select() cannot wait for {type(source).__name__}; give it a channel, queue, event, tasklet, lock, "
        "semaphore or descriptor")


def readable(fd) -> Case:
    """Return a case for select() that is ready when a descriptor (an int, or an object with fileno()) can be
    read without waiting, or has failed."""
    case = FdCase(fd)
    case.fd = fd if isinstance(fd, int) else fd.fileno()
    case.bit = READ
    case.buffered = hasattr(fd, "pending") and fd.pending() > 0
    return case


def writable(fd) -> Case:
    """Return a case for select() that is ready when a descriptor can be written without waiting, or has
    failed."""
    case = FdCase(fd)
    case.fd = fd if isinstance(fd, int) else fd.fileno()
    case.bit = WRITE
    return case


def after(seconds) -> Case:
    """Return a case for select() that is ready after `seconds`."""
    case = AfterCase(seconds)
    case.when = deadline_after(seconds)
    return case


def putting(Queue queue not None, item) -> Case:
    """Return a case for select() that puts the item into the queue when there is room."""
    case = PutCase(queue)
    case.item = item
    return case


def sending(channel, value) -> Case:
    """Return a case for select() that sends the value on the channel when there is a receiver."""
    if not isinstance(channel, Channel):
        for kind in scheduler.case_makers:
            if isinstance(channel, kind):
                return scheduler.case_makers[kind](channel, value)
        raise TypeError(f"sending() needs a channel, not {type(channel).__name__}")
    case = SendCase(channel)
    case.item = value
    return case


cdef uint64_t dice = 88172645463325252 ^ <uint64_t> getpid()


def set_chance(number) -> None:
    """For tests: by what select() chooses among several that are ready."""
    global dice
    dice = 88172645463325252 ^ <uint64_t> number


cdef uint64_t throw_dice() noexcept:
    """Where to begin to look, so that no case starves another (xorshift64, Marsaglia 2003)."""
    global dice
    dice ^= dice << 13
    dice ^= dice >> 7
    dice ^= dice << 17
    return dice


cdef Case wait_at_end(list cases, int64_t deadline):
    """While the interpreter ends, nothing but time and descriptors makes a case ready. None: time is over."""
    cdef Case case
    cdef int64_t now = monotonic_ns(), next_look
    while deadline == NEVER or deadline > now:
        next_look = now + BETWEEN_LOOKS_NS
        wait_alone(-1, 0, next_look if deadline == NEVER else min(deadline, next_look))
        for case in cases:
            if case.ready():
                return case
        now = monotonic_ns()
    return None


def select(cases, timeout=None):
    """Wait until one of the cases is ready, and take it. Return its index and its value, or (None, None)
    after `timeout` seconds.

    A case is a channel (receive), a queue (get), an event (set), a tasklet (ended), a lock or semaphore
    (acquire), an AsyncResult, a socket or descriptor (can be read); or what sending(), putting(), readable(),
    writable() and after() return. If several cases are ready, one is chosen at random. The value is the one
    that was received or taken, otherwise None. An exception from receive() is raised.
    """
    cdef Loop loop = get_loop()
    cdef Selection selection = Selection()
    cdef int64_t deadline
    cdef Py_ssize_t i, n, entered = 0, first
    cdef bint mutual = True
    cdef list all_cases
    cdef Case case
    selection.owner = loop.current
    all_cases = [case_of(source) for source in cases]
    n = len(all_cases)
    if n == 0:
        raise ValueError("select() needs a case or a timeout: it would wait forever")
    if selection.owner is None:
        raise RuntimeError("the event loop itself cannot wait: let it spawn a tasklet instead")
    for i in range(n):
        case = <Case> all_cases[i]
        if case.selection is not None:
            raise ValueError("a case can be used only once, in one select()")
        case.selection = selection
        case.serial = selection.owner.serial
        case.place = i
        mutual = mutual and not isinstance(case, (FdCase, AfterCase))
        case.loop = loop
        case.state = STANDS_IN
    deadline = deadline_after(timeout)
    first = throw_dice() % <uint64_t> n
    for i in range(n):
        case = <Case> all_cases[(first + i) % n]
        if case.ready():
            return case.place, case.take()
    if timeout is not None and timeout <= 0:
        return None, None
    if Py_IsFinalizing() and not (mutual and deadline == NEVER):
        case = None if mutual else wait_at_end(all_cases, deadline)
        return (None, None) if case is None else (case.place, case.take())
    selection.cases = all_cases
    selection.owner.handed_over = False
    loop.mutual_count += mutual
    try:
        for i in range(n):
            entered = i + 1
            (<Case> all_cases[i]).enter()
        if selection.winner is None:
            loop.park(IN_SELECT, selection, deadline)
    except BaseException:
        case = selection.winner
        if case is not None:
            case.undo(selection.value)
        raise
    finally:
        loop.mutual_count -= mutual
        if selection.winner is None:
            for i in range(entered):
                (<Case> all_cases[i]).leave()
        case, selection.winner = selection.winner, None     # or each would refer to the other
        selection.cases = None                              # and no cycle either
    if case is None:
        return None, None
    return case.place, case.result(selection.value)
