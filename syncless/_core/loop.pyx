"""The loop: what wakes tasklets. Descriptors, time, signals, other threads.

Takes: tasklets and Watchers that want to know when a descriptor is ready. Gives: wake-ups, to scheduler.pyx,
which it extends and which must be read first. It must not know what a socket, a server or a user's function
is. Next to read: tasklet.pyx.

A turn: deliver the events of the last poll, run what is ready, until both are done or a poll is due
(POLL_ITEMS items or POLL_AFTER ns, so that a busy tasklet that yields cannot starve timers and descriptors);
then what must be done before a poll (`before_poll`: sending the responses of this turn), timers, poll.

Every Python call and every drop of a reference may switch. Hence the events of a poll stay in the Loop with
the place of the next one, and whoever is the leader then goes on with them.
"""

import os
import select as _select
# the interpreter's own, whatever is put in its place later
from signal import set_wakeup_fd as _set_wakeup_fd
import threading
from weakref import WeakValueDictionary

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t

from syncless._core cimport hooks
from syncless._core.arrays cimport with_place_for
from syncless._core.carriers cimport failed
from syncless._core.clock cimport NEVER, deadline_after, monotonic_ns
from syncless._core.cpython.compat cimport Py_IsFinalizing, in_main_interpreter
from syncless._core.ending cimport end_carriers, end_tasklets
from syncless._core.invariants cimport DEBUG_BUILD, check_queue, check_scheduler
from syncless._core.observers cimport Observer, Observers
from syncless._core.poll.epoll cimport EpollPoller
from syncless._core.poll.select cimport SelectPoller
from syncless._core.poll.poller cimport READ, WRITE, Poller, PollEvent
from syncless._core.scheduler cimport DONE, WOKEN, BaseTasklet, Runnable, Scheduler, unchecked_park
from syncless._core.wait.waitqueue cimport is_queued, queue_add, queue_remove, WaitQueue, wake_all
from syncless._core.timers cimport next_deadline
from syncless._core.trimming cimport trim

cdef extern from *:
    """
    /* Which Loop this thread has. The reference is owned by the thread's state dict. */
    static __thread PyObject *syncless_tls_loop;
    """
    PyObject* syncless_tls_loop

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1
    PyObject* PyThreadState_GetDict()

cdef enum:
    EVENTS = 256                # taken from one poll


cdef int wait_in(WaitQueue* queue, const char* why, object on, int64_t deadline) except -1:
    """Parks the running tasklet in the queue, which lives in `on`. As park(): WOKEN, TIMED_OUT or what was
    thrown.

    When it raises, the tasklet's `handed_over` says whether it had been woken: whoever did that counts on it.
    """
    cdef Loop loop = get_loop()
    cdef BaseTasklet tasklet = loop.current
    cdef int outcome
    if tasklet is not None:
        tasklet.handed_over = False
        queue_add(queue, tasklet)
    loop.mutual_count += 1
    outcome = unchecked_park(loop, why, on, deadline)
    loop.mutual_count -= 1
    if tasklet is not None:
        if is_queued(tasklet):
            queue_remove(queue, tasklet)
    return failed() if outcome < 0 else outcome


cdef class Watcher(Runnable):
    cdef int on_ready(self, Loop loop, int bits) except -1:
        raise NotImplementedError("a Watcher defines on_ready()")

    cdef int forked(self, Loop loop) except -1:
        """In a child after fork: the descriptor belongs to the parent, and no event of it will come."""
        return 0


cdef class _LoopOwner:
    """Lives in the thread's state dict; when the thread ends, so does its loop."""
    cdef Loop loop

    def __dealloc__(self):
        self.loop._close()


cdef class Loop(Scheduler):
    """The scheduler of a thread with what wakes it. current_loop() gives it."""

    def __cinit__(self):
        self.events = <PollEvent*> PyMem_Malloc(EVENTS * sizeof(PollEvent))
        self.thread_id = threading.get_ident()
        if self.events == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.events)
        PyMem_Free(self.fds)

    cdef int _start(self) except -1:
        self.poller = _open_poller()
        self.begin()
        self._hear_signals()
        PyErr_CheckSignals()        # one that came before anybody listened
        return 0

    cdef int rouse(self) except -1:
        self.poller.wake()
        return 0

    cdef int _hear_signals(self) except -1:
        """Fact: a signal that comes while C code runs is noted by the interpreter and handled by the next
        Python code. Danger: the loop looks for signals, finds none, one comes, and it goes to sleep.
        Decision: the interpreter writes to the wake-up pipe. Price: one write per signal. Guarded by
        tests/core/test_loop.py::test_signals_are_never_overslept."""
        if self.thread_id == threading.main_thread().ident:
            previous = _set_wakeup_fd(self.poller.wake_fd, warn_on_full_buffer=False)
            if previous != -1 and previous != self.poller.wake_fd and not self.forked:
                _set_wakeup_fd(previous)     # somebody else's, who wakes up by it
        return 0

    def take_wakeup_fd(self) -> int:
        """Makes the interpreter wake this loop when a signal comes; returns the descriptor that somebody else
        has set for it, or -1."""
        previous = _set_wakeup_fd(self.poller.wake_fd, warn_on_full_buffer=False)
        return -1 if previous == self.poller.wake_fd else previous

    # -- a turn ----------------------------------------------------------------------------------------------

    cdef int deliver(self) except -1:
        cdef PollEvent* event
        cdef int fd, bits
        cdef FdEntry* entry
        if self.event_pos == self.event_count:
            if self.event_count and self.ring_count:
                # What was ready before gets as much time as the events took before the next poll brings more
                # of them.
                self.share_equally(monotonic_ns(), self.event_count)
            self.event_pos = self.event_count = 0
            return False
        event = &self.events[self.event_pos]
        fd = event.fd
        bits = event.bits
        self.event_pos += 1
        if fd >= self.fd_capacity or self.fds[fd].gen != event.gen:
            return True                             # of a descriptor that was closed meanwhile
        entry = &self.fds[fd]
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
        if self.when_idle is not None and (self.ring_count == 0 or self.idle_or_not):
            self.when_idle(self)
        if self.timers.count and self.ring_count == 0:
            self.now = monotonic_ns()
            timeout = max(0, next_deadline(self.timers) - self.now)
        timeout = trim(self, timeout)   # 0 if something is ready
        self.polling = timeout != 0
        try:
            n = self.poller.wait(self.events, EVENTS, timeout)
        finally:
            self.polling = False
        self.event_pos = 0
        self.event_count = n
        self.polled(monotonic_ns())
        if self.timers.count:
            self.timers.fire_due(self.now)
        try:
            PyErr_CheckSignals()    # Python handlers of signals run here
        except BaseException as error:
            # as in the interpreter, what they raise is raised in what the main thread does
            self.throw(self.main, error)
        return 0

    cdef int run_before_poll(self) except -1:
        """Runs what must be done before a poll."""
        cdef Py_ssize_t i = 0
        cdef PyObject* item
        while i < self.pre_poll_count:                # the list may grow meanwhile
            item = self.pre_poll[i]
            i += 1
            owned = <Runnable> item
            Py_DECREF(owned)
            owned.turn(self)
        self.pre_poll_count = 0
        return 0

    # -- descriptors -----------------------------------------------------------------------------------------

    cdef FdEntry* entry(self, int fd) except NULL:
        """The descriptor's place in the table. The pointer is good until the next call of entry()."""
        cdef void* grown
        if fd < 0:
            raise OSError(9, "Bad file descriptor")
        if fd >= self.fd_capacity:
            grown = with_place_for(fd, self.fds, &self.fd_capacity, sizeof(FdEntry))
            if grown == NULL:
                raise MemoryError
            self.fds = <FdEntry*> grown
        return &self.fds[fd]

    cdef int arm(self, int fd, FdEntry* entry, int bits) except -1:
        """Sees to it that the poller will report the descriptor."""
        if bits & ~entry.armed:
            entry.armed |= self.poller.arm(fd, entry.gen, bits)
        return 0

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
        if fd >= self.fd_capacity:
            return 0
        entry = &self.fds[fd]
        if (
            entry.armed and entry.readers.first == NULL and entry.writers.first == NULL
            and entry.watcher == NULL
        ):
            self.poller.disarm(fd)
            entry.armed = 0
            entry.gen += 1
        return 0

    cdef int watch(self, int fd, Watcher watcher) except -1:
        """All later events of the descriptor go to the watcher (borrowed: it calls forget_fd() before it
        ends)."""
        cdef FdEntry* entry = self.entry(fd)
        entry.watcher = <PyObject*> watcher
        return self.arm(fd, entry, READ)

    cdef int wait_fd(self, int fd, int bit, int64_t deadline, const char* why, object on) except -1:
        """Parks until the descriptor is ready. The caller has just met EAGAIN and calls forget_fd() when it
        closes the descriptor."""
        cdef FdEntry* entry = self.entry(fd)
        cdef BaseTasklet tasklet = self.current
        cdef int outcome
        if tasklet is not None:
            self.arm(fd, entry, bit)
            queue_add(&entry.readers if bit & READ else &entry.writers, tasklet)
        outcome = unchecked_park(self, why, on, deadline)
        entry = &self.fds[fd]                       # the table may have moved
        if tasklet is not None and is_queued(tasklet):
            queue_remove(&entry.readers if bit & READ else &entry.writers, tasklet)
        return failed() if outcome < 0 else outcome

    cdef int wait_foreign_fd(self, int fd, int bits, int64_t deadline) except -1:
        """Parks until a descriptor that somebody else may close or change is ready: armed for this wait
        only."""
        try:
            self.arm_for_wait(fd, bits)
        except PermissionError:
            return WOKEN                        # epoll refuses regular files: they are always ready
        try:
            return self.wait_fd(fd, bits, deadline, "descriptor", fd)
        finally:
            self.disarm_after_wait(fd)

    cdef int forget_fd(self, int fd) except -1:
        """To be called before a descriptor is closed: late events are ignored, whoever waits for it goes on
        and meets the error."""
        cdef FdEntry* entry
        if fd < 0 or fd >= self.fd_capacity:
            return 0
        entry = &self.fds[fd]
        if entry.armed:
            self.poller.forget(fd)
        entry.armed = 0
        entry.gen += 1
        entry.watcher = NULL
        wake_all(&entry.readers)
        wake_all(&entry.writers)
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

    # -- fork and end ----------------------------------------------------------------------------------------

    cdef int _after_fork(self) except -1:
        """In the child: a fresh poller, and none of the parent's tasklets but the one that forked.

        The others are left as they are and never run: their `finally` blocks belong to the parent.
        """
        cdef int fd
        watchers = [
            <object> self.fds[fd].watcher for fd in range(self.fd_capacity) if self.fds[fd].watcher != NULL
        ]
        self.event_pos = self.event_count = 0
        self.polling = False
        for fd in range(self.fd_capacity):
            self.fds[fd].gen += 1
            self.fds[fd].armed = 0
            self.fds[fd].readers.first = self.fds[fd].readers.last = NULL
            self.fds[fd].writers.first = self.fds[fd].writers.last = NULL
            self.fds[fd].watcher = NULL
        self.poller.open()
        self.forked = True
        self._hear_signals()
        for watcher in watchers:
            (<Watcher> watcher).forked(self)
        current = self.current
        self.ring_count = self.pre_poll_count = 0
        self.timers.clear()
        for tasklet in self.tasklets():
            if tasklet is not current and tasklet is not self.main:
                (<BaseTasklet> tasklet).state = DONE
                Py_INCREF(tasklet)              # its frames live on its carrier and must not be unwound here
                self.release(tasklet)
        if current is not self.main:
            self.orphan = current
        self.parked_count = self.mutual_count = self.jobs = 0
        return 0

    cdef int _close(self) except -1:
        """The thread ends."""
        global syncless_tls_loop
        cdef PyObject* mine = <PyObject*> self
        # then the process ends and takes all with it; no code may run any more
        if self.closed or Py_IsFinalizing():
            return 0
        if syncless_tls_loop == mine:  # not in a child after a fork, which clears away the other threads
            end_tasklets(self)
            syncless_tls_loop = NULL
        end_carriers(self)
        self.poller.close()
        return 0

    def interrupt(self, exception) -> bool:
        """Raises the exception at the present or next wait of the main tasklet. False if one of its type is
        under way there already."""
        pending = self.main.pending if type(self.main.pending) is list else [self.main.pending]
        if any([type(other) is type(exception) for other in pending]):
            return False
        self.throw(self.main, exception)
        return True

    # -- what can be asked -----------------------------------------------------------------------------------

    @property
    def backend(self) -> str:
        """'epoll' or 'select'."""
        return self.poller.name

    cdef bint may_wake(self, Py_ssize_t others) noexcept:
        """Nothing is ready: may something still come but from another thread? `others`: how many wait for
        what nobody will do."""
        cdef int fd
        if self.jobs or self.timers.count or self.parked_count > self.mutual_count + others:
            return True
        for fd in range(self.fd_capacity):
            if self.fds[fd].watcher != NULL:
                return True                         # a server is listening
        return False

    def hopeless(self) -> bool:
        """Whether all that wait wait for one another. Another thread, or a signal's handler, may know
        better."""
        return self.ring_count == 0 and self.parked_count > 0 and not self.may_wake(0)

    def held_for(self) -> float:
        """Seconds since it last looked for events; 0 while it sleeps until one comes. From any thread."""
        return 0.0 if self.polling or self.closed else max(0, monotonic_ns() - self.polled_at) / 1e9

    def census(self) -> dict:
        """What the engine owns now. Every test ends at the counts with which it began. In a debug build an
        AssertionError if a promise of the engine is broken, see invariants.pyx."""
        cdef int fd, watched = 0, waited = 0
        if DEBUG_BUILD:
            check_scheduler(self)
        for fd in range(self.fd_capacity):
            if DEBUG_BUILD:
                check_queue(&self.fds[fd].readers)
                check_queue(&self.fds[fd].writers)
            if self.fds[fd].watcher != NULL:
                watched += 1
            if self.fds[fd].readers.first != NULL or self.fds[fd].writers.first != NULL:
                waited += 1
        return {
            "tasklets": self.live_count,
            "parked": self.parked_count,
            "ready": self.ring_count,
            "timers": self.timers.count,
            "watched descriptors": watched,
            "awaited descriptors": waited,
            "busy carriers": self.carriers.count - self.carriers.idle_count,
        }


cdef Poller _open_poller():
    choice = os.environ.get("SYNCLESS_LOOP", "")
    backends = {"select": SelectPoller}
    if hasattr(_select, "epoll"):
        backends = {"epoll": EpollPoller, **backends}
    if choice and choice not in backends:
        raise ValueError(f"SYNCLESS_LOOP={choice!r}: this system has {', '.join(backends)}")
    poller = backends[choice]() if choice else next(iter(backends.values()))()
    (<Poller> poller).open()
    return poller


cdef Loop peek_loop():
    """This thread's loop, or None if it has not used syncless yet, or runs code of a subinterpreter.

    Fact: subinterpreters share the built-in types, and with them what is patched in place, and run in the
    threads of others. Danger: their code would wait in a loop of the main interpreter, and start its threads.
    Decision: for them there is no loop. Guarded by
    tests/patches/test_patches.py::test_subinterpreters_are_left_alone.
    """
    if syncless_tls_loop != NULL and in_main_interpreter():
        return <Loop> syncless_tls_loop
    return None


cpdef bint may_park() noexcept:
    """Whether the caller is a tasklet, which parks; False at the base of the loop, and in a thread without a
    loop, which blocks."""
    cdef Loop loop = peek_loop()
    return loop is not None and loop.current is not None


cdef Loop get_loop():
    """This thread's loop, made at the first call."""
    global syncless_tls_loop
    cdef Loop loop
    cdef _LoopOwner owner
    if syncless_tls_loop != NULL:
        return <Loop> syncless_tls_loop
    loop = Loop()
    loop._start()
    hooks.new_main(loop)
    owner = _LoopOwner()
    owner.loop = loop
    (<dict> PyThreadState_GetDict())["syncless"] = owner
    syncless_tls_loop = <PyObject*> loop
    loops[loop.thread_id] = loop
    return loop


cdef object loops = WeakValueDictionary()       # thread id -> Loop


cdef Loop loop_of(object where):
    """A Loop, or that of a threading.Thread or of a thread's number. LookupError if the thread has none."""
    cdef Loop loop
    if isinstance(where, Loop):
        return where
    number = where if isinstance(where, int) else where.ident if isinstance(where, threading.Thread) else None
    if number is None and not isinstance(where, threading.Thread):
        raise TypeError(f"expected a Loop, a Thread or a thread's number, not {type(where).__name__}")
    loop = loops.get(number)
    if loop is None or loop.ending or loop.closed:
        raise LookupError("that thread has not used syncless yet, or has ended")
    return loop


def current_loop() -> Loop:
    """This thread's loop, made at the first call."""
    return get_loop()


cdef int take_turns() except -1:
    """For what never waits and may be called again and again: lets the others run when a poll is due."""
    cdef Loop loop = peek_loop()
    if loop is not None and loop.current is not None and loop._poll_due():
        loop.yield_()
    return 0


def give_way() -> None:
    """For what never waits and may be called again and again: lets the others run when a poll is due."""
    take_turns()


def wait_readable(fd, timeout=None) -> bool:
    """Parks the tasklet until the descriptor (an int or something with fileno()) can be read without
    blocking.

    `timeout` in seconds; None waits for ever. Returns False when it passed. The descriptor may belong to
    anybody.
    """
    cdef int number = fd if isinstance(fd, int) else fd.fileno()
    return get_loop().wait_foreign_fd(number, READ, deadline_after(timeout)) == WOKEN


def wait_writable(fd, timeout=None) -> bool:
    """Parks the tasklet until the descriptor can be written without blocking; see wait_readable()."""
    cdef int number = fd if isinstance(fd, int) else fd.fileno()
    return get_loop().wait_foreign_fd(number, WRITE, deadline_after(timeout)) == WOKEN


def _after_fork_in_child() -> None:
    loop = peek_loop()
    if loop is not None:
        (<Loop> loop)._after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
