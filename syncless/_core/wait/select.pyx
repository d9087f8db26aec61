"""select(): waiting for the first of several things, which it takes; the others are left as they were.

A tasklet stands in one queue at most. So select() puts a Case into the queue of each thing, in the tasklet's
place. The first wake-up of one of them wakes the tasklet, and the others leave their queues in the same
moment: nothing is taken twice, and nothing that was taken is lost, also when both ends of a channel are in
select().

No Python code runs between the look at what is ready and the entry into the queues (see sync.pyx).
"""

from libc.stdint cimport int64_t, uint64_t
from posix.unistd cimport getpid

from syncless._core cimport hooks
from syncless._core.clock cimport deadline_after
from syncless._core.loop cimport Loop
from syncless._core.poll.poller cimport READ, WRITE
from syncless._core.scheduler cimport STANDS_IN
from syncless._core.tasklet cimport Tasklet
from syncless._core.threadloop cimport get_loop
from syncless._core.wait.cases cimport (
    IN_SELECT, AfterCase, Case, EventCase, FdCase, GetCase, PutCase, ReceiveCase, Selection, SemaphoreCase,
    SendCase,
    TaskletCase,
)
from syncless._core.wait.channels cimport Channel
from syncless._core.wait.queues cimport Queue
from syncless._core.wait.sync cimport Event, Semaphore


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
    for kind in hooks.case_makers:
        if isinstance(source, kind):
            return hooks.case_makers[kind](source)
    if isinstance(source, int) or hasattr(source, "fileno"):
        return readable(source)
    raise TypeError(
        f"select() cannot wait for {type(source).__name__}; give it a channel, queue, event, tasklet, lock, "
        "semaphore or descriptor")


def readable(fd) -> Case:
    """For select(): ready when a descriptor (an int, or an object with fileno()) can be read without waiting,
    or has failed."""
    case = FdCase(fd)
    case.fd = fd if isinstance(fd, int) else fd.fileno()
    case.bit = READ
    case.buffered = hasattr(fd, "pending") and fd.pending() > 0
    return case


def writable(fd) -> Case:
    """For select(): ready when a descriptor can be written without waiting, or has failed."""
    case = FdCase(fd)
    case.fd = fd if isinstance(fd, int) else fd.fileno()
    case.bit = WRITE
    return case


def after(seconds) -> Case:
    """For select(): ready after `seconds`."""
    case = AfterCase(seconds)
    case.when = deadline_after(seconds)
    return case


def putting(Queue queue not None, item) -> Case:
    """For select(): puts the item into the queue when there is room."""
    case = PutCase(queue)
    case.item = item
    return case


def sending(channel, value) -> Case:
    """For select(): sends the value on the channel when there is a receiver."""
    if not isinstance(channel, Channel):
        for kind in hooks.case_makers:
            if isinstance(channel, kind):
                return hooks.case_makers[kind](channel, value)
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


def select(cases, timeout=None):
    """Waits until the first of the cases is ready, and takes it. Returns its index and its value; (None,
    None) after `timeout` seconds.

    A case is a channel (receive), a queue (get), an event (set), a tasklet (ended), a lock or semaphore
    (acquire), an AsyncResult, a socket or descriptor (can be read); or what sending(), putting(), readable(),
    writable() and after() return. Of several ready cases one is chosen at random. The value is the one that
    was received or taken, else None. An exception of receive() is raised.
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
            raise ValueError("a case can be used once, in one select()")
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
        if selection.winner is not None:
            selection.winner.undo(selection.value)
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
