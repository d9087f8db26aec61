"""The loop wakes tasklets: by descriptors, time, signals, other threads.

Takes: tasklets and Watchers that want to know when a descriptor is ready. Gives: wake-ups, to scheduler.pyx,
which it extends and which must be read first. It must not know what a socket, a server or a user's function
is. Next to read: threadloop.pyx, which makes it.

A turn: deliver the events of the last poll, run the ready queue, until both are empty or a poll is due (see
scheduler.pyx); then the work that must be done before a poll (`before_poll`: sending the responses of this
turn), timers, poll.

The table of descriptors has two wait queues for each, one per direction, and a watcher; it keeps no
readiness, docs/design.md says why. It must not know how a tasklet waits (current.pyx).

Every Python call and every drop of a reference may switch. Hence the events of a poll stay in the Loop with
the place of the next one, and the leader of that moment goes on with them.

Fact: greenlet keeps the stack of a resting carrier in a block of malloc's, made and freed at each switch.
Blocks of thousands of carriers lie between others that stay, so the C library gives none of their pages back.
Danger: 4,000 tasklets that wait within deep calls leave 110 MB for good. Decision: when many carriers have
ended, and the loop has nothing to do, malloc_trim() returns all free pages, but not too often. An arena
for stacks would need a hook in PyMem_Malloc, which every list and dictionary would pay for. Price: about 0.1
ms per megabyte that is given back, at most 0.5 % of the time. Guarded by tests/core/test_memory.py.

Debug builds check in census() what holds between any two steps of the engine, each promise as it is written
where its field is declared (tests/core/test_invariants.py).
"""

import signal
import threading

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
cimport cython
from libc.stdint cimport int64_t

cdef extern from *:
    """
    #ifdef __clang__
        #define SYNCLESS_COMPILER __VERSION__
    #else
        #define SYNCLESS_COMPILER "gcc " __VERSION__
    #endif
    """
    const char* COMPILER "SYNCLESS_COMPILER"

from syncless._core.arrays cimport doubled, with_place_for
from syncless._core.clock cimport CLOCK_THREAD_CPUTIME_ID, NEVER, clock_ns, monotonic_ns
from syncless._core.cpython.chunkcache cimport lower_mark, note, sink
from syncless._core.linked cimport LinkedList, Node
from syncless._core.poll.poller cimport READ, WRITE, PollEvent
from syncless._core.scheduler cimport (
    COVERED, COVERED_READY, DONE, NEW, PARKED, READY, RUNNING, BaseTasklet, Carriers, Observer, Observers,
    ReadyQueue, Runnable, Scheduler, explorer, is_exploring, is_thrown, item_at, main_of, polled,
    share_equally,
)
from syncless._core.timers cimport TimerHeap, next_deadline
from syncless._core.wait.waitqueue cimport WaitQueue, wake_all

from syncless._core.cpython.functions import original_of
from syncless._core.poll.backends import new_poller

cdef object _set_wakeup_fd = original_of(signal.set_wakeup_fd)
cdef int signal_fd = -1     # the descriptor of ours by which signals wake a loop; its parent's in a child


@cython.final
cdef class FdTable:
    def __dealloc__(self):
        PyMem_Free(self.entries)

    cdef FdEntry* new_entry(self, int fd) except NULL:
        """The table grows."""
        cdef void* grown
        if fd < 0:
            raise OSError(9, "Bad file descriptor")
        grown = with_place_for(fd, self.entries, &self.capacity, sizeof(FdEntry))
        if grown == NULL:
            raise MemoryError
        self.entries = <FdEntry*> grown
        return &self.entries[fd]

    # -- descriptors of ours ---------------------------------------------------------------------------------

    cdef int arm(self, int fd, int bits) except -1:
        """Sees to it that the poller will report the descriptor, until forget()."""
        cdef FdEntry* entry = self.entry(fd)
        if bits & ~entry.armed:
            entry.armed |= self.poller.arm(fd, entry.gen, bits)
        return 0

    cdef int watch(self, int fd, object watcher) except -1:
        """All later events of the descriptor go to the Watcher (borrowed: it calls forget() before it
        ends)."""
        self.entry(fd).watcher = <PyObject*> watcher
        return self.arm(fd, READ)

    cdef int forget(self, int fd) except -1:
        """To be called before a descriptor is closed: late events are ignored, and a tasklet that waits for
        it goes on and meets the error."""
        cdef FdEntry* entry
        if fd < 0 or fd >= self.capacity:
            return 0
        entry = &self.entries[fd]
        if entry.armed:
            self.poller.forget(fd)
        entry.armed = 0
        entry.gen += 1
        entry.watcher = NULL
        wake_all(&entry.readers)
        wake_all(&entry.writers)
        return 0

    # -- descriptors of others -------------------------------------------------------------------------------

    cdef int arm_for_wait(self, int fd, int bits) except -1:
        """Arms a descriptor that others may close or change, whatever the table says of the number.

        After the wait disarm_after_wait() takes it back.
        """
        cdef FdEntry* entry = self.entry(fd)
        entry.armed |= self.poller.arm(fd, entry.gen, bits)
        return 0

    cdef int disarm_after_wait(self, int fd) noexcept:
        """The other half of arm_for_wait(): nothing is left of it once nobody waits for the descriptor."""
        cdef FdEntry* entry
        if fd >= self.capacity:
            return 0
        entry = &self.entries[fd]
        if (
            entry.armed and entry.readers.first == NULL and entry.writers.first == NULL
            and entry.watcher == NULL
        ):
            self.poller.disarm(fd)
            entry.armed = 0
            entry.gen += 1
        return 0

    cdef int close_under_waiters(self, int fd) except -1:
        """To be called before code that knows no table closes a descriptor: tasklets that wait for it go on,
        and learn that it is closed, even if its number is in use again."""
        cdef FdEntry* entry
        if fd < 0 or fd >= self.capacity:
            return 0
        entry = &self.entries[fd]
        if entry.readers.first == NULL and entry.writers.first == NULL:
            return 0
        entry.closed += 1
        if entry.watcher == NULL:
            return self.forget(fd)
        wake_all(&entry.readers)
        wake_all(&entry.writers)
        return 0

    # -- all of them -----------------------------------------------------------------------------------------

    cdef bint is_watching(self) noexcept:
        """Whether there is a watcher, such as a server that listens."""
        cdef int fd
        for fd in range(self.capacity):
            if self.entries[fd].watcher != NULL:
                return True
        return False

    cdef list watchers(self):
        cdef int fd
        return [
            <object> self.entries[fd].watcher for fd in range(self.capacity)
            if self.entries[fd].watcher != NULL
        ]

    cdef int arm_all(self) except -1:
        """The poller has been opened again. A waiter whose descriptor cannot be armed goes on and meets the
        error."""
        cdef int fd
        cdef FdEntry* entry
        for fd in range(self.capacity):
            entry = &self.entries[fd]
            entry.armed = 0
            if entry.readers.first == NULL and entry.writers.first == NULL and entry.watcher == NULL:
                continue
            try:
                entry.armed = self.poller.arm(fd, entry.gen, READ | WRITE)
            except OSError:
                wake_all(&entry.readers)
                wake_all(&entry.writers)
        return 0

    cdef int abandon(self, bint waking) except -1:
        """In a child after a fork: all waiters and watchers are the parent's. `waking`: waiters are told, and
        look again."""
        cdef int fd
        for fd in range(self.capacity):
            if waking:
                wake_all(&self.entries[fd].readers)
                wake_all(&self.entries[fd].writers)
            self.entries[fd].gen += 1
            self.entries[fd].armed = 0
            self.entries[fd].readers.first = self.entries[fd].readers.last = NULL
            self.entries[fd].writers.first = self.entries[fd].writers.last = NULL
            self.entries[fd].watcher = NULL
        return 0


checked = bool(DEBUG_BUILD)
"""Whether this is a build in which census() checks."""

compiler = COMPILER.decode()
"""Its name and version."""


cdef int broken(str promise) except -1:
    raise AssertionError("the engine has broken a promise: " + promise)


cdef Py_ssize_t check_list(LinkedList* row) except -1:
    """Returns the number of its nodes."""
    cdef Node* node = row.first
    cdef Node* before = NULL
    cdef Py_ssize_t count = 0
    while node != NULL:
        if node.owner == NULL or node.before != before:
            broken("neighbours in a list know each other")
        count += 1
        before, node = node, node.after
    if row.last != before:
        broken("a list knows its last node")
    return count


cdef int check_queue(WaitQueue* queue) except -1:
    cdef Node* node = queue.first
    check_list(queue)
    while node != NULL:
        if node != &(<BaseTasklet> node.owner).place:
            broken("a waiter stands in a queue with its own node")
        node = node.after
    return 0


cdef int check_timers(TimerHeap timers) except -1:
    cdef Py_ssize_t i
    for i in range(timers.count):
        if timers.heap[i].index != i:
            broken("a timer knows its place in the heap")
        if i and timers.heap[(i - 1) >> 1].when > timers.heap[i].when:
            broken("no timer in the heap is earlier than the one above it")
    return 0


cdef set check_ready(ReadyQueue* queue):
    """Returns the addresses of the tasklets in it that go on, as numbers."""
    cdef size_t i
    cdef set ready = set()
    if queue.count > queue.mask + 1 or queue.mask & (queue.mask + 1):
        broken("the ready queue is no longer than its ring, whose size is a power of two")
    for i in range(queue.count):
        item = <object> item_at(queue, i)
        if not isinstance(item, Runnable):
            broken("the ready queue holds Runnables")
        if isinstance(item, BaseTasklet):
            if (<BaseTasklet> item).state not in (NEW, READY, DONE):
                broken("a tasklet in the ready queue is new, ready, or was killed there")
            if (<BaseTasklet> item).state == READY:
                if <size_t> <PyObject*> item in ready:
                    broken("a ready tasklet is in the ready queue once")
                ready.add(<size_t> <PyObject*> item)
    return ready


cdef int check_scheduler(Scheduler loop) except -1:
    cdef Node* node = loop.live.first
    cdef BaseTasklet tasklet
    cdef Py_ssize_t parked = 0, surely_parked = 0, ready = 0
    cdef set in_ring = check_ready(&loop.ready)
    check_timers(loop.timers)
    if check_list(&loop.live) != loop.live_count:
        broken("live tasklets are counted")
    if loop.current is not None and loop.current.state != RUNNING and not loop.closed:
        broken("the current tasklet is running")
    while node != NULL:
        tasklet = <BaseTasklet> node.owner
        if tasklet.loop is not loop:
            broken("a live tasklet belongs to the loop that lists it")
        if tasklet.state == DONE and not loop.closed:
            broken("no live tasklet has ended")
        if tasklet.state == READY:
            ready += 1
            if loop.orphan is None and <size_t> <PyObject*> tasklet not in in_ring:
                broken("a ready tasklet is in the ready queue")
        elif tasklet.state in (PARKED, COVERED, COVERED_READY):
            parked += 1
            # a tasklet of Stackless that was taken out of the run queue is not in park()
            surely_parked += tasklet.waiting_on is not None or tasklet.timer.index >= 0
        node = node.after
    if loop.orphan is None and not surely_parked <= loop.parked_count <= parked + ready:
        broken("tasklets in park() are counted: those that wait, and those that go on from there")
    if not 0 <= loop.mutual_count <= loop.parked_count:
        broken("those that wait for one another are some of those that wait")
    if loop.carriers.idle_count > loop.carriers.count:
        broken("idle carriers are some of all")
    return 0


def check(Scheduler loop not None) -> None:
    """AssertionError if a promise is broken, in any build."""
    check_scheduler(loop)


cdef extern from *:
    """
    #ifdef __linux__
    #include <features.h>
    #endif
    #ifdef __GLIBC__
    #include <malloc.h>
    static void syncless_give_back(void) { malloc_trim(0); }
    #else
    static void syncless_give_back(void) {}
    #endif
    """
    void give_back "syncless_give_back" () nogil

cdef enum:
    # kept, and as many more as make up the mark; one that has run Python code holds about 6 kB
    IDLE_CARRIERS = 64
    ENDED_PER_POLL = 64
    MANY = 500                  # carriers that end before memory is given back
    SHARE = 200                 # giving back takes at most 1/SHARE of a processor's time

# both belong to the process, as its memory does; guarded by the GIL
cdef Py_ssize_t ended = 0       # carriers, of all threads, since memory was given back
cdef int64_t allowed = 0        # when it may be given back again, ns


cdef int64_t trim(Scheduler loop, int64_t timeout) except -2:
    """Called before a poll that would wait for `timeout` ns, 0, or NEVER, if nothing is ready. Returns the
    time for which it may wait."""
    if loop.carriers.count > IDLE_CARRIERS:
        timeout = trim_carriers(loop.carriers, timeout)
    if loop.ready.count:
        return 0
    return timeout if ended < MANY or timeout == 0 else trim_memory(timeout)


cdef int64_t trim_carriers(Carriers carriers, int64_t timeout) except -2:
    """Ends idle carriers that have not been needed lately: loads come in waves."""
    global ended
    cdef int64_t now = monotonic_ns(), again
    cdef Py_ssize_t busy = carriers.count - carriers.idle_count
    cdef int _
    note(&carriers.mark, busy)
    again = sink(&carriers.mark, busy, now)
    for _ in range(ENDED_PER_POLL):
        if carriers.idle_count <= IDLE_CARRIERS:
            return timeout
        if carriers.count <= carriers.mark.most:
            return at_most(timeout, again - now)
        ended += 1
        carriers.end_one()
    return 0


cdef int64_t at_most(int64_t timeout, int64_t limit) noexcept:
    return limit if timeout == NEVER or timeout > limit else timeout


cdef int64_t trim_memory(int64_t timeout) noexcept:
    global ended, allowed
    cdef int64_t now = monotonic_ns(), again, began
    if now < allowed:
        return at_most(timeout, allowed - now)
    began = clock_ns(CLOCK_THREAD_CPUTIME_ID)
    ended = 0
    again = lower_mark(now)
    with nogil:
        give_back()
    allowed = monotonic_ns() + SHARE * (clock_ns(CLOCK_THREAD_CPUTIME_ID) - began)
    if again:
        ended = MANY
        allowed = max(allowed, again)
    return 0                                    # time has passed: look again


cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef enum:
    EVENTS = 256                # taken from one poll
    TIMER_SLACK = 100_000       # ns


cdef class Watcher(Runnable):
    cdef int on_ready(self, Loop loop, int bits) except -1:
        raise NotImplementedError("a Watcher defines on_ready()")

    cdef int forked(self, Loop loop) except -1:
        """In a child after fork: the descriptor belongs to the parent, and no event of it will come."""
        return 0

    cdef int loop_ended(self, Loop loop) except -1:
        """The loop ends with its thread: no event of the descriptor will come."""
        return 0

    cdef bint has_an_end(self) except -1:
        """Whether a deadline or a tasklet will end it, also if no event of the descriptor ever comes."""
        return True


cdef class Loop(Scheduler):
    """The scheduler of a thread with the sources that wake it. current_loop() gives it."""

    def __cinit__(self):
        self.events = <PollEvent*> PyMem_Malloc(EVENTS * sizeof(PollEvent))
        self.thread_id = threading.get_ident()
        self.slack = TIMER_SLACK
        self.endless = set()
        if self.events == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.events)
        PyMem_Free(self.pre_poll)

    cdef int start(self) except -1:
        self.poller = new_poller()
        self.poller.open()
        self.fds = FdTable()
        self.fds.poller = self.poller
        self.begin()
        self.wake_for_signals()
        PyErr_CheckSignals()        # one that came before anybody listened
        return 0

    cdef int rouse(self) except -1:
        self.poller.wake()
        return 0

    cdef int wake_for_signals(self) except -1:
        """Fact: a signal that comes while C code runs is noted by the interpreter and handled by the next
        Python code. Danger: the loop looks for signals, finds none, one comes, and it goes to sleep.
        Decision: the interpreter writes to the wake-up pipe. Price: one write per signal. Guarded by
        tests/core/test_loop.py::test_signals_are_never_overslept.

        The interpreter says which thread is the main one: in the child of a fork it knows before threading
        does."""
        global signal_fd
        try:
            previous = _set_wakeup_fd(self.poller.wake_fd, warn_on_full_buffer=False)
        except ValueError:
            self.hears_signals = False
            return 0
        self.hears_signals = True
        before, signal_fd = signal_fd, self.poller.wake_fd
        if previous not in (-1, signal_fd, before) and not self.forked:
            _set_wakeup_fd(previous)         # somebody else's, who wakes up by it
        return 0

    def take_wakeup_fd(self) -> int:
        """Makes the interpreter wake this loop when a signal comes; returns the descriptor that somebody else
        has set for it, or -1."""
        previous = _set_wakeup_fd(self.poller.wake_fd, warn_on_full_buffer=False)
        return -1 if previous == self.poller.wake_fd else previous

    cdef int find_again(self) except -1:
        """The poller may have lost its descriptors, see poller.pyx: it gets new ones then."""
        if self.poller.is_whole():
            self.poller.lost = False
            return 0
        self.poller.open()
        self.wake_for_signals()
        return self.fds.arm_all()

    # -- a turn ----------------------------------------------------------------------------------------------

    cdef int deliver(self) except -1:
        cdef PollEvent* event
        cdef int fd, bits
        cdef FdEntry* entry
        if self.event_pos == self.event_count:
            if self.event_count and self.ready.count:
                # Tasklets that were ready before get as much time as the events took, before the next poll
                # brings more events.
                share_equally(&self.clock, monotonic_ns(), self.event_count)
            self.event_pos = self.event_count = 0
            return False
        event = &self.events[self.event_pos]
        fd = event.fd
        bits = event.bits
        self.event_pos += 1
        if fd >= self.fds.capacity or self.fds.entries[fd].gen != event.gen:
            return True                             # of a descriptor that was closed meanwhile
        entry = &self.fds.entries[fd]
        entry.armed &= ~event.disarmed
        if bits & READ:
            wake_all(&entry.readers)
        if bits & WRITE:
            wake_all(&entry.writers)
        if entry.watcher != NULL:
            watcher = <Watcher> entry.watcher
            watcher.on_ready(self, bits)
        return True

    cdef int poll(self) except -1:
        cdef int64_t timeout = NEVER
        cdef int n
        self.run_before_poll()
        if self.poller.lost:
            self.find_again()
        if self.when_idle is not None and (self.ready.count == 0 or self.idle_or_not):
            self.when_idle(self)
        if DEBUG_BUILD and self.ready.count == 0:
            self.check_watchers()
        if self.timers.count and self.ready.count == 0:
            self.clock.now = monotonic_ns()
            timeout = max(0, next_deadline(self.timers, self.slack) - self.clock.now)
        timeout = trim(self, timeout)   # 0 if something is ready
        self.polling = timeout != 0
        try:
            n = self.poller.wait(
                self.events, <int> explorer.most_events if is_exploring() else <int> EVENTS, timeout)
        finally:
            self.polling = False
        self.event_pos = 0
        self.event_count = n
        polled(&self.clock, monotonic_ns())
        if self.timers.count:
            self.timers.fire_due(self.clock.now)
        try:
            PyErr_CheckSignals()    # Python handlers of signals run here
        except BaseException as error:
            # as in the interpreter, what they raise is raised in what the main thread does
            self.throw(main_of(self), error)
        return 0

    cdef int check_watchers(self) except -1:
        """Reports what nothing would end if no event came any more; once each."""
        for watcher in self.fds.watchers():
            if not (<Watcher> watcher).has_an_end() and watcher not in self.endless:
                self.endless.add(watcher)
                self.report("the loop", AssertionError(f"neither a deadline nor a tasklet ends {watcher!r}"))
        return 0

    cdef int before_poll(self, Runnable item) except -1:
        """Runs the item before the loop next looks at descriptors."""
        if self.pre_poll_count == self.pre_poll_capacity:
            self.pre_poll = <PyObject**> doubled(
                self.pre_poll, &self.pre_poll_capacity, sizeof(PyObject*), 16)
        Py_INCREF(item)
        self.pre_poll[self.pre_poll_count] = <PyObject*> item
        self.pre_poll_count += 1
        return 0

    cdef int run_before_poll(self) except -1:
        """Runs what must be done before a poll."""
        cdef Py_ssize_t i = 0
        cdef PyObject* item
        while i < self.pre_poll_count:                # the list may grow meanwhile
            item = self.pre_poll[i]
            self.pre_poll[i] = NULL             # if an item raises, the next call goes on behind it
            i += 1
            if item != NULL:
                owned = <Runnable> item
                Py_DECREF(owned)
                owned.turn(self)
        self.pre_poll_count = 0
        return 0

    # -- observers -------------------------------------------------------------------------------------------

    cdef int observe(self, Observer observer) except -1:
        """It is told of each switch from now on."""
        self.observers = (Observers() if self.observers is None else self.observers).joined_by(observer)
        return 0

    cdef int unobserve(self, Observer observer) except -1:
        cdef Observers left
        if self.observers is not None:
            left = self.observers.left_by(observer)
            self.observers = left if left.observers else None
        return 0

    def interrupt(self, exception) -> bool:
        """Raises the exception at the present or next wait of the main tasklet. False if one of its type is
        under way there already."""
        if is_thrown(main_of(self), type(exception)):
            return False
        self.throw(main_of(self), exception)
        return True

    # -- its state -------------------------------------------------------------------------------------------

    @property
    def backend(self) -> str:
        """'epoll', 'kqueue', 'poll' or 'select'."""
        return self.poller.name

    @property
    def ready_count(self) -> int:
        """How many items are in the ready queue."""
        return self.ready.count

    @property
    def idle_carriers(self) -> int:
        """How many carriers wait for a tasklet to run."""
        return self.carriers.idle_count

    cdef bint may_wake(self, Py_ssize_t others, bint timers) noexcept:
        """Nothing is ready: may something still come but from another thread? `others`: how many wait for
        what nobody will do. `timers`: whether timers count."""
        return (
            self.jobs or timers and self.timers.count or self.parked_count > self.mutual_count + others
            or self.fds.is_watching())

    @property
    def timer_slack(self) -> float:
        """Seconds, 0.0001 at first: a wait may end so much later than it was asked to, if others end
        meanwhile. The loop then wakes up once for all of them."""
        return self.slack / 1e9

    @timer_slack.setter
    def timer_slack(self, seconds: float) -> None:
        if not 0 <= seconds <= 1:
            raise ValueError(f"timer_slack={seconds!r}: give seconds from 0 to 1")
        self.slack = <int64_t> (seconds * 1e9)

    def hopeless(self) -> bool:
        """Whether all that wait wait for one another. Another thread, or a signal's handler, may know
        better."""
        return self.ready.count == 0 and self.parked_count > 0 and not self.may_wake(0, True)

    def held_for(self) -> float:
        """Seconds since it last looked for events; 0 while it sleeps until one comes. From any thread."""
        return 0.0 if self.polling or self.closed else max(0, monotonic_ns() - self.clock.polled_at) / 1e9

    def census(self) -> dict:
        """Counts of the things that the engine owns now. Every test ends at the counts with which it began.
        In a debug build an AssertionError if a promise of the engine is broken, see loop.pyx."""
        cdef FdEntry* entry
        cdef int fd, watched = 0, waited = 0
        if DEBUG_BUILD:
            check_scheduler(self)
        for fd in range(self.fds.capacity):
            entry = &self.fds.entries[fd]
            if DEBUG_BUILD:
                check_queue(&entry.readers)
                check_queue(&entry.writers)
            if entry.watcher != NULL:
                watched += 1
            if entry.readers.first != NULL or entry.writers.first != NULL:
                waited += 1
        return {
            "tasklets": self.live_count,
            "parked": self.parked_count,
            "ready": self.ready.count,
            "timers": self.timers.count,
            "watched descriptors": watched,
            "awaited descriptors": waited,
            "busy carriers": self.carriers.count - self.carriers.idle_count,
        }
