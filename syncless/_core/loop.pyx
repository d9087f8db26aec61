"""The loop wakes tasklets: by descriptors, time, signals, other threads.

Takes: tasklets and Watchers that want to know when a descriptor is ready. Gives: wake-ups, to scheduler.pyx,
which it extends and which must be read first. It must not know what a socket, a server or a user's function
is. Next to read: threadloop.pyx, which makes it.

A turn: deliver the events of the last poll, run the ready queue, until both are empty or a poll is due (see
scheduler.pyx); then the work that must be done before a poll (`before_poll`: sending the responses of this
turn), timers, poll.

Every Python call and every drop of a reference may switch. Hence the events of a poll stay in the Loop with
the place of the next one, and the leader of that moment goes on with them.
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
from syncless._core.cpython.signalhandlers cimport check_signals
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


include "loop/fdtable.pxi"


checked = bool(DEBUG_BUILD)
"""Whether this is a build in which census() checks."""

compiler = COMPILER.decode()
"""Its name and version."""


include "loop/invariants.pxi"
include "loop/trimming.pxi"


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
        """Return whether a deadline or a tasklet will end it, also if no event of the descriptor ever
        comes."""
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
        check_signals()             # one that came before anybody listened
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
        if previous not in (-1, signal_fd, before):
            _set_wakeup_fd(previous)         # somebody else's, who wakes up by it
        return 0

    def take_wakeup_fd(self) -> int:
        """Make the interpreter wake this loop when a signal comes; return the descriptor that somebody else
        has set for it, or -1."""
        previous = _set_wakeup_fd(self.poller.wake_fd, warn_on_full_buffer=False)
        return -1 if previous == self.poller.wake_fd else previous

    cdef int leave_poller(self) except -1:
        """In the child of a fork: it has its parent's descriptors, and gets its own when it polls. Until then
        the interpreter writes to no pipe, also not to one that somebody else had it write to. The thread that
        has forked may have become the main one."""
        self.poller.close()
        self.poller.lost = True
        try:
            _set_wakeup_fd(-1)
            self.hears_signals = True
        except ValueError:
            self.hears_signals = False
        return 0

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
        cdef int64_t timeout = NEVER, began
        cdef int n
        cdef bint lost
        self.run_before_poll()
        lost = self.poller.lost
        if lost:
            self.find_again()
        if self.when_idle is not None and (self.ready.count == 0 or self.idle_or_not):
            self.when_idle(self)
        if self.when_stuck is not None and not lost and self.hopeless():
            again = self.when_stuck(self)
            if again is not None:
                timeout = <int64_t> (again * 1e9)
        if DEBUG_BUILD and self.ready.count == 0:
            self.check_watchers()
        if self.ready.count == 0:
            self.clock.now = monotonic_ns()
            if self.timers.count:
                timeout = max(0, next_deadline(self.timers, self.slack) - self.clock.now)
        timeout = trim(self, timeout)   # 0 if something is ready
        if lost:
            timeout = 0                 # a signal may have come while nobody listened
        self.polling = timeout != 0
        try:
            n = self.poller.wait(
                self.events, <int> explorer.most_events if DEBUG_BUILD and is_exploring() else <int> EVENTS,
                timeout)
        finally:
            self.polling = False
        self.event_pos = 0
        self.event_count = n
        began = self.clock.now
        polled(&self.clock, monotonic_ns())
        if timeout != 0:
            self.slept += self.clock.now - began
        if self.timers.count:
            self.timers.fire_due(self.clock.now)
        try:
            check_signals()         # Python handlers of signals run here
        except BaseException as error:
            # as in the interpreter, what they raise is raised in what the main thread does
            self.throw(main_of(self), error)
        return 0

    cdef int check_watchers(self) except -1:
        """Report what nothing would end if no event came any more; once each."""
        for watcher in self.fds.watchers():
            if not (<Watcher> watcher).has_an_end() and watcher not in self.endless:
                self.endless.add(watcher)
                self.report("the loop", AssertionError(f"neither a deadline nor a tasklet ends {watcher!r}"))
        return 0

    cdef int before_poll(self, Runnable item) except -1:
        """Run the item before the loop next looks at descriptors."""
        if self.pre_poll_count == self.pre_poll_capacity:
            self.pre_poll = <PyObject**> doubled(
                self.pre_poll, &self.pre_poll_capacity, sizeof(PyObject*), 16)
        Py_INCREF(item)
        self.pre_poll[self.pre_poll_count] = <PyObject*> item
        self.pre_poll_count += 1
        return 0

    cdef int run_before_poll(self) except -1:
        """Run what must be done before a poll."""
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
        """Raise the exception at the present or next wait of the main tasklet. False if one of its type is
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
            raise ValueError(f"timer_slack must be from 0 to 1 seconds, not {seconds!r}")
        self.slack = <int64_t> (seconds * 1e9)

    def hopeless(self) -> bool:
        """Return whether all that wait wait for one another. Another thread, or a signal's handler, may know
        better."""
        return self.ready.count == 0 and self.parked_count > 0 and not self.may_wake(0, True)

    def held_for(self) -> float:
        """Return seconds since it last looked for events; 0 while it sleeps until one comes. From any
        thread."""
        return 0.0 if self.polling or self.closed else max(0, monotonic_ns() - self.clock.polled_at) / 1e9

    def idle_seconds(self) -> float:
        """Return seconds for which it has slept because nothing was to be done. From any thread."""
        cdef int64_t now = monotonic_ns() - self.clock.now if self.polling else 0
        return (self.slept + now) / 1e9

    def census(self) -> dict:
        """Counts of the things that the engine owns now. Every test ends at the counts with which it began.
        In a debug build an AssertionError if a promise of the engine is broken, see loop/invariants.pxi."""
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
