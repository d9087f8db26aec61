"""The engine: who runs next, who waits for what, and when the process may sleep.

Takes: Runnables that are ready, tasklets that want to wait, descriptors to watch. Gives: turns. It must not know what a socket, a
server or a user's function is. Next to read: tasklet.pyx.

A *tasklet* is a light object, not a greenlet. It runs on a *carrier*, a pooled greenlet. There is no hub: one carrier at a time is
the *leader*. It runs the loop at its base and calls new work inline, so work that never waits costs no switch. When the work
waits, it switches straight to the next ready tasklet, or to an idle carrier, which becomes the leader:

    leader: [loop] -> calls work -> work parks ----> next ready tasklet goes on, on its own carrier, or
                                               \--> an idle carrier goes on with [loop]: the new leader
    leader meets a parked tasklet that is ready: rests in the idle list, switches to it

So the loop never runs on top of a user's stack. New carriers are started by the *spawner*, a greenlet that does nothing else and
stays at the depth at which the loop was made, because a greenlet begins at the C stack position of whoever starts it.

Every Python call and every drop of a reference may switch. Hence all state of a turn is in the Loop, where the next leader finds
it, and none is kept across a call.

A turn: deliver the events of the last poll, run what is ready, until both are done or a poll is due (POLL_ITEMS items or
POLL_AFTER ns, so that a busy tasklet that yields cannot starve timers and descriptors); then what must be done before a poll
(`before_poll`: sending the responses of this turn), timers, poll.

Threads: each has its own Loop. The GIL guards the ready queue, so another thread wakes a tasklet by the same wake(), which also
wakes the poller if that loop is asleep.
"""

import os
import select as _select
import signal as _signal
import sys
import threading
import traceback

from cpython.object cimport PyObject
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.stdint cimport int64_t
from libc.string cimport memset

from syncless._core.clock cimport NEVER, monotonic_ns
from syncless._core.greenlet cimport (
    PyGreenlet, PyGreenlet_GetCurrent, PyGreenlet_Import, PyGreenlet_New, PyGreenlet_SetParent, PyGreenlet_Switch,
)
from syncless._core.poll_epoll cimport EpollPoller
from syncless._core.poll_select cimport SelectPoller
from syncless._core.poller cimport READ, WRITE, Poller, PollEvent
from syncless._core.timers cimport TimerHeap, next_deadline, timer_init

from syncless._core import chunkcache

cdef extern from *:
    """
    /* The one C global of the engine: which Loop this thread has. The reference is owned by the thread's state dict. */
    static __thread PyObject *syncless_tls_loop;

    /* A greenlet begins at the recursion depth of whoever starts it. A carrier begins at none: its C stack is checked by other
       means (3.12+), or its Python frames do not use it (3.11). Before 3.11 depth is C stack and must be inherited. */
    static void syncless_fresh_depth(void) {
    #if PY_VERSION_HEX >= 0x030C0000
        PyThreadState *ts = PyThreadState_Get();
        ts->py_recursion_remaining = ts->py_recursion_limit;
    #elif PY_VERSION_HEX >= 0x030B0000
        PyThreadState *ts = PyThreadState_Get();
        ts->recursion_remaining = ts->recursion_limit;
    #endif
    }

    #if PY_VERSION_HEX < 0x030D0000
    #define Py_IsFinalizing _Py_IsFinalizing
    #endif
    """
    PyObject* syncless_tls_loop
    bint Py_IsFinalizing()
    void syncless_fresh_depth()

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1
    PyObject* PyThreadState_GetDict()

cdef enum:
    POLL_ITEMS = 64             # items run before a poll is due
    POLL_AFTER = 200000         # ns run before a poll is due
    EVENTS = 256                # taken from one poll
    IDLE_CARRIERS = 256         # kept; one that has run Python code holds about 6 kB
    TRIM_PER_POLL = 64

PyGreenlet_Import()
chunkcache.install()


cdef int wake_all(WaitQueue* queue) except -1:
    """Every tasklet of the queue goes on."""
    cdef BaseTasklet tasklet
    while queue.head != NULL:
        tasklet = queue_pop(queue)
        tasklet.loop.wake(tasklet, None)
    return 0


cdef int wait_in(WaitQueue* queue, const char* why, object on, int64_t deadline) except -1:
    """Parks the running tasklet in the queue, which lives in `on`. As park(): WOKEN, TIMED_OUT or what was thrown.

    When it raises, the tasklet's `granted` says whether somebody had taken it from the queue already.
    """
    cdef Loop loop = get_loop()
    cdef BaseTasklet tasklet = loop.current
    if tasklet is not None:
        tasklet.granted = False
        queue_add(queue, tasklet)
    try:
        return loop.park(why, on, deadline)
    finally:
        if tasklet is not None:
            tasklet.granted = not tasklet.queued
            if tasklet.queued:
                queue_remove(queue, tasklet)


# Who is told of an exception that nobody caught: called with (where, exception). None: print to stderr.
error_handler = None


cdef class Runnable:
    cdef int run(self, Loop loop) except -1:
        raise NotImplementedError("a Runnable defines run()")


cdef class Watcher(Runnable):
    cdef int on_ready(self, Loop loop, int bits) except -1:
        raise NotImplementedError("a Watcher defines on_ready()")


cdef void deadline_passed(void* owner) noexcept:
    cdef BaseTasklet tasklet = <BaseTasklet> owner
    if tasklet.state == PARKED:
        tasklet.outcome = TIMED_OUT
        tasklet.state = READY
        tasklet.loop.push(tasklet)


cdef class BaseTasklet(Runnable):
    def __cinit__(self):
        timer_init(&self.timer, deadline_passed, <void*> self)

    def __dealloc__(self):
        if self.loop is not None:
            self.loop.release(self)
        Py_XDECREF(<PyObject*> self.carrier)


cdef class _Carrier:
    """What a carrier greenlet runs."""
    cdef Loop loop

    def __call__(self):
        syncless_fresh_depth()
        self.loop._lead()


cdef class _Spawner:
    """What the spawner greenlet runs: each switch to it starts one carrier, at the spawner's own depth."""
    cdef Loop loop

    def __call__(self):
        cdef _Carrier run
        cdef PyGreenlet* carrier
        cdef Loop loop = self.loop
        while not loop.closed:
            run = _Carrier()
            run.loop = loop
            carrier = PyGreenlet_New(<PyObject*> run, loop.main_greenlet)
            if carrier == NULL:
                raise MemoryError("no memory for another carrier greenlet")
            loop.carrier_count += 1
            loop._switch(carrier)
            Py_DECREF(<object> carrier)


cdef class _LoopOwner:
    """Lives in the thread's state dict; when the thread ends, so does its loop."""
    cdef Loop loop

    def __dealloc__(self):
        self.loop._close()


cdef class Loop:
    def __cinit__(self):
        self.timers = TimerHeap()
        self.ring_mask = 255
        self.ring = <PyObject**> PyMem_Malloc(256 * sizeof(PyObject*))
        self.events = <PollEvent*> PyMem_Malloc(EVENTS * sizeof(PollEvent))
        self.thread_id = threading.get_ident()
        if self.ring == NULL or self.events == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.ring)
        PyMem_Free(self.late)
        PyMem_Free(self.events)
        PyMem_Free(self.fds)
        PyMem_Free(self.idle)

    cdef int _start(self) except -1:
        self.poller = _open_poller()
        self.main_greenlet = PyGreenlet_GetCurrent()
        spawner = _Spawner()
        (<_Spawner> spawner).loop = self
        self.spawner = PyGreenlet_New(<PyObject*> spawner, self.main_greenlet)
        self.now = self.polled_at = monotonic_ns()
        self.credits = POLL_ITEMS
        self._hear_signals()
        return 0

    cdef int _hear_signals(self) except -1:
        """Fact: a signal that comes while C code runs is noted by the interpreter and handled by the next Python code. Danger: the loop
        looks for signals, finds none, one comes, and it goes to sleep. Decision: the interpreter writes to the wake-up pipe. Price: one
        write per signal. Guarded by tests/core/test_loop.py::test_signals_are_never_overslept."""
        if self.thread_id == threading.main_thread().ident:
            previous = _signal.set_wakeup_fd(self.poller.wake_fd, warn_on_full_buffer=False)
            if previous != -1 and previous != self.poller.wake_fd and not self.forked:
                _signal.set_wakeup_fd(previous)     # somebody else's, who wakes up by it
        return 0

    # -- the ready queue -----------------------------------------------------------------------------------------------------

    cdef int push(self, Runnable item) except -1:
        """Puts the item at the end of the ready queue. From any thread that holds the GIL."""
        cdef PyObject** grown
        cdef size_t i
        if self.ring_count > self.ring_mask:
            grown = <PyObject**> PyMem_Malloc((self.ring_mask + 1) * 2 * sizeof(PyObject*))
            if grown == NULL:
                raise MemoryError
            for i in range(self.ring_count):
                grown[i] = self.ring[(self.ring_head + i) & self.ring_mask]
            PyMem_Free(self.ring)
            self.ring = grown
            self.ring_head = 0
            self.ring_mask = self.ring_mask * 2 + 1
        Py_INCREF(item)
        self.ring[(self.ring_head + self.ring_count) & self.ring_mask] = <PyObject*> item
        self.ring_count += 1
        if self.polling:
            self.poller.wake()
        return 0

    cdef Runnable _pop(self):
        cdef PyObject* item = self.ring[self.ring_head]
        self.ring_head = (self.ring_head + 1) & self.ring_mask
        self.ring_count -= 1
        owned = <Runnable> item
        Py_DECREF(owned)
        return owned

    cdef int before_poll(self, Runnable item) except -1:
        """Runs the item before the loop next looks at descriptors."""
        cdef PyObject** grown
        if self.late_count == self.late_room:
            grown = <PyObject**> PyMem_Realloc(self.late, (self.late_room * 2 or 16) * sizeof(PyObject*))
            if grown == NULL:
                raise MemoryError
            self.late = grown
            self.late_room = self.late_room * 2 or 16
        Py_INCREF(item)
        self.late[self.late_count] = <PyObject*> item
        self.late_count += 1
        return 0

    # -- the seam: park and wake ---------------------------------------------------------------------------------------------

    cdef int park(self, const char* why, object on, int64_t deadline) except -1:
        """Stops the running tasklet until wake(), throw() or the deadline (ns of the monotonic clock; NEVER).

        Returns WOKEN, with the value in tasklet.value, or TIMED_OUT; raises what was thrown. Whoever registered the tasklet
        somewhere takes it out again when this raises or times out.
        """
        cdef BaseTasklet tasklet = self.current
        if tasklet is None:
            raise RuntimeError("the event loop itself cannot wait: a signal handler or callback called something that blocks; "
                               "let it spawn a tasklet instead")
        if tasklet.pending is not None:
            exception, tasklet.pending = tasklet.pending, None
            raise exception
        tasklet.state = PARKED
        tasklet.outcome = WOKEN
        tasklet.why = why
        tasklet.waiting_on = on
        tasklet.since = self.now
        if deadline != NEVER:
            self.timers.add(&tasklet.timer, deadline)
        self.parked_count += 1
        try:
            self._leave(tasklet)
        finally:
            self.parked_count -= 1
            tasklet.why = NULL
            tasklet.waiting_on = None
            if tasklet.timer.index >= 0:
                self.timers.remove(&tasklet.timer)
        return tasklet.outcome

    cdef int wake(self, BaseTasklet tasklet, object value) except -1:
        """Lets a parked tasklet go on with `value`. Returns 1, or 0 if it does not wait (any more). From any thread."""
        if tasklet.state != PARKED:
            return 0
        tasklet.value = value
        tasklet.state = READY
        tasklet.loop.push(tasklet)
        return 1

    cdef int throw(self, BaseTasklet tasklet, object exception) except -1:
        """Raises the exception where the tasklet stopped, when its turn comes; in the running one at its next wait."""
        if tasklet.state == DONE:
            return 0
        tasklet.pending = exception
        if tasklet.state == PARKED:
            tasklet.state = READY
            tasklet.loop.push(tasklet)
        return 1

    cdef int yield_(self) except -1:
        """Lets the others that are ready run first."""
        cdef BaseTasklet tasklet = self.current
        if tasklet is None:
            raise RuntimeError("the event loop itself cannot yield: a signal handler or callback called something that switches")
        if tasklet.pending is None:
            tasklet.state = READY
            self.push(tasklet)
        self._leave(tasklet)
        return 0

    cdef bint _poll_due(self) noexcept:
        self.credits -= 1
        self.now = monotonic_ns()
        return self.credits <= 0 or self.now - self.polled_at > POLL_AFTER

    cdef int _leave(self, BaseTasklet tasklet) except -1:
        """Gives the thread to the next ready tasklet or to a leader; returns when this tasklet's turn has come."""
        cdef PyGreenlet* carrier
        if tasklet.state != RUNNING:
            carrier = self._next_carrier(tasklet)
            if carrier != NULL:
                tasklet.carrier = PyGreenlet_GetCurrent()
                try:
                    self._switch(carrier)
                finally:
                    carrier = tasklet.carrier
                    tasklet.carrier = NULL
                    Py_DECREF(<object> carrier)
            tasklet.state = RUNNING
            self.current = tasklet
        if tasklet.pending is not None:
            exception, tasklet.pending = tasklet.pending, None
            raise exception
        return 0

    cdef PyGreenlet* _next_carrier(self, BaseTasklet leaving) except? NULL:
        """Where to go from a tasklet that stops; NULL if the next that is ready is that tasklet itself.

        Borrowed: a tasklet's own reference to its carrier, and the idle list's, are dropped by the carrier itself once it runs. A
        reference kept on this side of the switch would chain the resting carriers to one another.
        """
        cdef BaseTasklet ahead
        if not self._poll_due():
            while self.ring_count:
                if not isinstance(<object> self.ring[self.ring_head], BaseTasklet):
                    break                           # work for a leader
                ahead = <BaseTasklet> self.ring[self.ring_head]
                if ahead.state == NEW:
                    break                           # a leader starts it
                self._pop()
                if ahead is leaving:
                    return NULL
                if ahead.state == READY:            # else it was killed meanwhile
                    return ahead.carrier
        self.current = None
        if self.idle_count:
            self.idle_count -= 1
            return self.idle[self.idle_count]
        return self.spawner

    cdef int _switch(self, PyGreenlet* target) except -1:
        Py_DECREF(<object> PyGreenlet_Switch(target, NULL, NULL))
        return 0

    # -- the life of a carrier -----------------------------------------------------------------------------------------------

    cdef int _lead(self) except -1:
        """Runs turns for as long as this carrier lives. Nothing is kept in local variables across a call: see the module's text."""
        while not self.closed:
            self.current = None
            try:
                if self.event_pos < self.event_count:
                    self._dispatch()
                elif self.ring_count and not self._poll_due():
                    self._run_next()
                else:
                    self._poll()
            except GreenletExit:
                break
            except BaseException as error:
                self.report("the event loop", error)
        self.carrier_count -= 1
        return 0

    cdef int _run_next(self) except -1:
        cdef PyGreenlet* target
        cdef Runnable item = self._pop()
        if isinstance(item, BaseTasklet) and (<BaseTasklet> item).state != NEW:
            target = (<BaseTasklet> item).carrier
            if (<BaseTasklet> item).state == READY and target != NULL:      # else it was killed meanwhile
                item = None                         # a resting leader must not keep a tasklet alive
                self._rest(target)
            return 0
        return item.run(self)

    cdef int _rest(self, PyGreenlet* target) except -1:
        """The running carrier goes into the idle list and the target goes on. Whoever takes it from there makes it the leader again."""
        cdef PyGreenlet* me
        cdef PyGreenlet** grown
        if self.idle_count == self.idle_room:
            grown = <PyGreenlet**> PyMem_Realloc(self.idle, (self.idle_room * 2 or 64) * sizeof(PyGreenlet*))
            if grown == NULL:
                raise MemoryError
            self.idle = grown
            self.idle_room = self.idle_room * 2 or 64
        me = PyGreenlet_GetCurrent()
        self.idle[self.idle_count] = me
        self.idle_count += 1
        self._switch(target)                        # raises GreenletExit when _trim() dropped the list's reference
        Py_DECREF(<object> me)
        return 0

    cdef int _trim(self) except -1:
        """Ends some of the idle carriers that are too many; they leave _lead() on GreenletExit."""
        cdef int n = 0
        while self.idle_count > IDLE_CARRIERS and n < TRIM_PER_POLL:
            self.idle_count -= 1
            Py_DECREF(<object> self.idle[self.idle_count])
            n += 1
        return 0

    cdef int _dispatch(self) except -1:
        """Delivers one event of the last poll."""
        cdef PollEvent* event = &self.events[self.event_pos]
        cdef int fd = event.fd, bits = event.bits
        cdef FdEntry* entry
        self.event_pos += 1
        if fd >= self.fd_room or self.fds[fd].gen != event.gen:
            return 0
        entry = &self.fds[fd]
        if not self.poller.edge:
            entry.armed &= ~bits
        if bits & READ:
            wake_all(&entry.readers)
        if bits & WRITE:
            wake_all(&entry.writers)
        if entry.watcher != NULL:
            watcher = <Watcher> entry.watcher
            watcher.on_ready(self, bits)
        return 0

    cdef int _poll(self) except -1:
        cdef int64_t timeout = NEVER, first
        cdef int n
        cdef Py_ssize_t i = 0
        cdef PyObject* item
        while i < self.late_count:                # the list may grow meanwhile; each item sees a consistent loop
            item = self.late[i]
            i += 1
            late = <Runnable> item
            Py_DECREF(late)
            late.run(self)
        self.late_count = 0
        late = None
        if self.idle_count > IDLE_CARRIERS:
            self._trim()
        if self.ring_count or self.idle_count > IDLE_CARRIERS:
            timeout = 0
        elif self.timers.count:
            first = next_deadline(self.timers)
            self.now = monotonic_ns()
            timeout = first - self.now if first > self.now else 0
        self.polling = timeout != 0
        try:
            n = self.poller.wait(self.events, EVENTS, timeout)
        finally:
            self.polling = False
        self.event_pos = 0
        self.event_count = n
        self.now = self.polled_at = monotonic_ns()
        self.credits = POLL_ITEMS
        if self.timers.count:
            self.timers.fire_due(self.now)
        self._check_signals()
        return 0

    cdef int _check_signals(self) except -1:
        """Runs the Python handlers of signals that came while the loop had the thread. What they raise goes to the main tasklet."""
        PyErr_CheckSignals()
        return 0

    # -- descriptors ---------------------------------------------------------------------------------------------------------

    cdef FdEntry* entry(self, int fd) except NULL:
        """The descriptor's place in the table. The pointer is good until the next call of entry()."""
        cdef FdEntry* grown
        cdef int room = self.fd_room
        if fd < 0:
            raise OSError(9, "Bad file descriptor")
        if fd >= room:
            room = max(256, room)
            while room <= fd:
                room *= 2
            grown = <FdEntry*> PyMem_Realloc(self.fds, room * sizeof(FdEntry))
            if grown == NULL:
                raise MemoryError
            memset(&grown[self.fd_room], 0, (room - self.fd_room) * sizeof(FdEntry))
            self.fds = grown
            self.fd_room = room
        return &self.fds[fd]

    cdef int arm(self, int fd, FdEntry* entry, int bits) except -1:
        """Sees to it that the poller will report the descriptor; once for good if it is edge-triggered."""
        if bits & ~entry.armed:
            self.poller.arm(fd, entry.gen, bits)
            entry.armed |= (READ | WRITE) if self.poller.edge else bits
        return 0

    cdef int watch(self, int fd, Watcher watcher) except -1:
        """All later events of the descriptor go to the watcher (borrowed: it calls forget_fd() before it ends)."""
        cdef FdEntry* entry = self.entry(fd)
        entry.watcher = <PyObject*> watcher
        return self.arm(fd, entry, READ)

    cdef int wait_fd(self, int fd, int bit, int64_t deadline, const char* why, object on) except -1:
        """Parks until the descriptor is ready. The caller has just met EAGAIN and calls forget_fd() when it closes the descriptor."""
        cdef FdEntry* entry = self.entry(fd)
        cdef BaseTasklet tasklet = self.current
        if tasklet is not None:
            self.arm(fd, entry, bit)
            queue_add(&entry.readers if bit & READ else &entry.writers, tasklet)
        try:
            return self.park(why, on, deadline)
        finally:
            entry = &self.fds[fd]                   # the table may have moved
            if tasklet is not None and tasklet.queued:
                queue_remove(&entry.readers if bit & READ else &entry.writers, tasklet)

    cdef int wait_foreign_fd(self, int fd, int bits, int64_t deadline) except -1:
        """Parks until a descriptor that somebody else may close or change is ready: armed for this wait only."""
        cdef FdEntry* entry = self.entry(fd)
        cdef int outcome
        try:
            self.poller.arm(fd, entry.gen, bits)
        except PermissionError:
            return WOKEN                        # epoll refuses regular files: they are always ready
        entry.armed |= (READ | WRITE) if self.poller.edge else bits
        try:
            outcome = self.wait_fd(fd, bits, deadline, "descriptor", fd)
        finally:
            entry = &self.fds[fd]
            if entry.readers.head == NULL and entry.writers.head == NULL and entry.watcher == NULL:
                self.poller.disarm(fd)
                entry.armed = 0
                entry.gen += 1
        return outcome

    cdef int forget_fd(self, int fd) except -1:
        """To be called before a descriptor is closed: late events are ignored, whoever waits for it goes on and meets the error."""
        cdef FdEntry* entry
        if fd < 0 or fd >= self.fd_room:
            return 0
        entry = &self.fds[fd]
        if entry.armed and not self.poller.edge:
            self.poller.disarm(fd)
        entry.armed = 0
        entry.gen += 1
        entry.watcher = NULL
        wake_all(&entry.readers)
        wake_all(&entry.writers)
        return 0

    # -- live tasklets -------------------------------------------------------------------------------------------------------

    cdef void adopt(self, BaseTasklet tasklet) noexcept:
        """Puts the tasklet on the list of live ones."""
        tasklet.loop = self
        tasklet.older = self.newest
        tasklet.newer = NULL
        if self.newest != NULL:
            (<BaseTasklet> self.newest).newer = <PyObject*> tasklet
        self.newest = <PyObject*> tasklet
        self.live_count += 1

    cdef void release(self, BaseTasklet tasklet) noexcept:
        """Takes the tasklet off the list; one that is not on it is left alone."""
        if tasklet.older == NULL and tasklet.newer == NULL and self.newest != <PyObject*> tasklet:
            return
        if tasklet.newer != NULL:
            (<BaseTasklet> tasklet.newer).older = tasklet.older
        else:
            self.newest = tasklet.older
        if tasklet.older != NULL:
            (<BaseTasklet> tasklet.older).newer = tasklet.newer
        tasklet.older = tasklet.newer = NULL
        self.live_count -= 1

    def tasklets(self) -> list:
        """All live tasklets of this thread, oldest first."""
        cdef PyObject* item = self.newest
        found = []
        while item != NULL:
            found.append(<BaseTasklet> item)
            item = (<BaseTasklet> item).older
        found.reverse()
        return found

    # -- failure, fork, end --------------------------------------------------------------------------------------------------

    cdef int report(self, object where, BaseException error) except -1:
        """Tells somebody of an exception that nobody caught. KeyboardInterrupt and SystemExit go to the main tasklet instead."""
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            return self.throw(self.main, error)
        try:
            if error_handler is not None:
                error_handler(where, error)
            elif sys.stderr is not None:
                sys.stderr.write(f"Exception in {where if isinstance(where, str) else repr(where)}:\n"
                                 + "".join(traceback.format_exception(error)))
                sys.stderr.flush()
        except BaseException:
            pass        # stderr is gone or full: there is nobody left to tell
        return 0

    cdef int _after_fork(self) except -1:
        """In the child: a fresh poller, and none of the parent's tasklets but the one that forked.

        The others are left as they are and never run: their `finally` blocks belong to the parent.
        """
        cdef int fd
        self.ring_count = self.late_count = 0
        self.event_pos = self.event_count = 0
        self.polling = False
        self.timers.clear()
        for fd in range(self.fd_room):
            self.fds[fd].gen += 1
            self.fds[fd].armed = 0
            self.fds[fd].readers.head = self.fds[fd].readers.tail = NULL
            self.fds[fd].writers.head = self.fds[fd].writers.tail = NULL
            self.fds[fd].watcher = NULL
        self.poller.open()
        self.forked = True
        self._hear_signals()
        current = self.current
        for tasklet in self.tasklets():
            if tasklet is not current and tasklet is not self.main:
                (<BaseTasklet> tasklet).state = DONE
                Py_INCREF(tasklet)              # its frames live on its carrier and must not be unwound here
                self.release(tasklet)
        if current is not self.main:
            self.orphan = current
        self.parked_count = 0
        return 0

    cdef int _close(self) except -1:
        """The thread ends: idle carriers end, tasklets that still wait are never run again."""
        global syncless_tls_loop
        cdef PyObject* mine = <PyObject*> self
        if self.closed or Py_IsFinalizing():      # then the process ends and takes all with it; no code may run any more
            return 0
        self.closed = True
        if syncless_tls_loop == mine:
            syncless_tls_loop = NULL
        while self.idle_count:
            self.idle_count -= 1
            Py_DECREF(<object> self.idle[self.idle_count])
        while self.ring_count:
            self._pop()
        self.poller.close()
        self.timers.clear()
        return 0

    # -- what can be asked ---------------------------------------------------------------------------------------------------

    @property
    def backend(self) -> str:
        """'epoll' or 'select'."""
        return self.poller.name

    def census(self) -> dict:
        """What the engine owns now. Every test ends at the counts with which it began."""
        cdef int fd, watched = 0, waited = 0
        for fd in range(self.fd_room):
            if self.fds[fd].watcher != NULL:
                watched += 1
            if self.fds[fd].readers.head != NULL or self.fds[fd].writers.head != NULL:
                waited += 1
        return {
            "tasklets": self.live_count,
            "parked": self.parked_count,
            "ready": self.ring_count,
            "timers": self.timers.count,
            "watched descriptors": watched,
            "awaited descriptors": waited,
            "busy carriers": self.carrier_count - self.idle_count,
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


main_tasklet_type = None        # set by tasklet.pyx: what stands for the code that was running when the loop was made


cdef Loop peek_loop():
    """This thread's loop, or None if it has not used syncless yet."""
    if syncless_tls_loop != NULL:
        return <Loop> syncless_tls_loop
    return None


cdef Loop get_loop():
    """This thread's loop, made at the first call."""
    global syncless_tls_loop
    cdef Loop loop
    cdef _LoopOwner owner
    if syncless_tls_loop != NULL:
        return <Loop> syncless_tls_loop
    loop = Loop()
    loop._start()
    loop.main = main_tasklet_type()
    loop.main.state = RUNNING
    loop.adopt(loop.main)
    loop.current = loop.main
    owner = _LoopOwner()
    owner.loop = loop
    (<dict> PyThreadState_GetDict())["syncless"] = owner
    syncless_tls_loop = <PyObject*> loop
    return loop


cdef int64_t deadline_after(object seconds) except -2:
    """NEVER for None, else the monotonic time in that many seconds (float or int)."""
    cdef double s
    if seconds is None:
        return NEVER
    s = seconds
    if s != s:
        raise ValueError("a timeout must be a number of seconds, not NaN")
    if s <= 0:
        return monotonic_ns()
    if s > 9e9:         # 285 years: int64 nanoseconds end there
        return NEVER
    return monotonic_ns() + <int64_t> (s * 1e9)


def current_loop() -> Loop:
    """This thread's loop, made at the first call."""
    return get_loop()


def wait_readable(fd, timeout=None) -> bool:
    """Parks the tasklet until the descriptor (an int or something with fileno()) can be read without blocking.

    `timeout` in seconds; None waits for ever. Returns False when it passed. The descriptor may belong to anybody.
    """
    return get_loop().wait_foreign_fd(fd if isinstance(fd, int) else fd.fileno(), READ, deadline_after(timeout)) == WOKEN


def wait_writable(fd, timeout=None) -> bool:
    """Parks the tasklet until the descriptor can be written without blocking; see wait_readable()."""
    return get_loop().wait_foreign_fd(fd if isinstance(fd, int) else fd.fileno(), WRITE, deadline_after(timeout)) == WOKEN


def set_error_handler(handler):
    """`handler(where, exception)` is told of each exception that ended a tasklet; None prints it to stderr. Returns the last one."""
    global error_handler
    previous, error_handler = error_handler, handler
    return previous


def _after_fork_in_child() -> None:
    loop = peek_loop()
    if loop is not None:
        (<Loop> loop)._after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)

from greenlet import GreenletExit  # noqa: E402  (after PyGreenlet_Import, which reports a missing greenlet more clearly)
