"""The scheduler's table of contents, with the parts embedded in it. How it works is told in scheduler.pyx."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint64_t

from syncless._core.cpython.chunkcache cimport Mark
from syncless._core.cpython.compat cimport PyThreadState
from syncless._core.cpython.greenlet cimport PyGreenlet, Step
from syncless._core.cpython.threadlocal cimport Locals
from syncless._core.cpython.tracing cimport Settings, has_settings
from syncless._core.linked cimport LinkedList, Node
from syncless._core.timers cimport Timer, TimerHeap

cdef extern from *:
    """
    #ifdef NDEBUG
    #define SYNCLESS_DEBUG 0
    #else
    #define SYNCLESS_DEBUG 1
    #endif
    """
    bint DEBUG_BUILD "SYNCLESS_DEBUG"


cdef struct ReadyQueue:         # embedded in its owner
    PyObject** ring             # owned references
    size_t head
    size_t mask                 # places in the ring, less one; there are 2**n
    size_t count

cdef int begin_queue(ReadyQueue* queue) except -1
cdef void free_queue(ReadyQueue* queue) noexcept
cdef int grow(ReadyQueue* queue) except -1

cdef int add_first(ReadyQueue* queue, object item) except -1
cdef int remove_item(ReadyQueue* queue, object item) except -1
cdef Py_ssize_t place_of(ReadyQueue* queue, object item) noexcept
cdef void rotate(ReadyQueue* queue, Py_ssize_t n) noexcept


cdef inline int add_last(ReadyQueue* queue, object item) except -1:
    if queue.count > queue.mask:
        grow(queue)
    Py_INCREF(item)
    queue.ring[(queue.head + queue.count) & queue.mask] = <PyObject*> item
    queue.count += 1
    return 0


cdef inline PyObject* item_at(ReadyQueue* queue, size_t i) noexcept:
    """The item before which there are i others; borrowed."""
    return queue.ring[(queue.head + i) & queue.mask]


cdef inline object take_first(ReadyQueue* queue):
    """Removes and returns the first item. There is one."""
    cdef PyObject* item = queue.ring[queue.head]
    assert queue.count > 0
    queue.head = (queue.head + 1) & queue.mask
    queue.count -= 1
    owned = <object> item
    Py_DECREF(owned)
    return owned


cdef struct PollClock:          # embedded in its owner
    int64_t now                 # ns; as fresh as the last poll, or a few short turns ago
    int64_t polled_at           # ns
    # a poll is due when either is used up
    int turns_left
    int64_t slice_ns
    int unread                  # turns that still go without a reading of the clock

# The seams of whoever decides what comes next where the engine may choose: explore.pyx for the engine's own
# tests, testing/choices.pyx for tests of programs. Two of them are only in builds with assertions.
cdef class Scheduler

cdef class BaseTasklet

cdef struct Explorer:           # NULL: nothing is explored
    bint (*due)(PollClock* clock) noexcept      # what is_poll_due() answers
    void (*choose)(Scheduler loop) noexcept     # makes another item the first of the ready queue
    int (*woken)(BaseTasklet tasklet) except -1     # or NULL; only with assertions
    uint64_t most_events        # of a poll; only with assertions
    bint keeps_order            # of the ready queue: Stackless's API promises it

cdef Explorer explorer


cdef inline bint is_exploring() noexcept:
    return explorer.due != NULL


cdef void polled(PollClock* clock, int64_t now) noexcept
cdef void share_equally(PollClock* clock, int64_t now, int items) noexcept
cdef bint is_poll_due(PollClock* clock) noexcept


cdef class Thrown:
    cdef object exception           # None once it has been raised


cdef class Observer:
    """Is told when tasklets of a loop go on and stop. It must not wait."""
    cdef int begins(self, object tasklet) except -1
    cdef int stops(self, object tasklet) except -1


cdef class Observers(Observer):
    cdef readonly tuple observers
    cdef Observers joined_by(self, Observer one)
    cdef Observers left_by(self, Observer one)


cdef class Recorder:
    """Is told of the waits of one tasklet, see recorder.pyx. It must run no Python code."""
    cdef int64_t queued_ns          # spent in the ready queue
    cdef object purpose             # what its waits are for, a str or a descriptor; None: as each wait says
    cdef void waited(self, BaseTasklet tasklet, const char* why, object on) noexcept


cdef class Carriers:
    cdef object loop                # for which they run; None when all have ended
    cdef Step step                  # a carrier calls it again and again
    cdef Step step_failed
    cdef PyGreenlet** idle          # owned
    cdef Py_ssize_t idle_count, idle_capacity
    cdef Py_ssize_t count           # of all that have not ended
    cdef Mark mark                  # of how many ran tasklets at once
    cdef (PyGreenlet*)[2] starters  # owned
    cdef PyGreenlet* main           # owned: the thread's own greenlet

    cdef int begin(self, object loop, Step step, Step step_failed) except -1
    cdef PyGreenlet* next_leader(self) noexcept
    cdef int go_idle(self, PyGreenlet* target) except -1
    cdef int end_one(self) except -1
    cdef int end(self) except -1


cdef int failed() except -1


cdef enum State:
    NEW         # not started
    READY       # in the ready queue, to go on where it stopped
    RUNNING
    PARKED      # waits; only wake(), throw() or its deadline make it ready
    DONE
    STANDS_IN   # a StandIn: it waits in place of a tasklet
    COVERED     # PARKED, and something is called on top of it, on its carrier, see handling.pyx
    COVERED_READY   # READY, and so

cdef enum Outcome:
    WOKEN = 0
    TIMED_OUT = 1

cdef enum Shield:
    OPEN = 0        # a wait raises what was thrown
    SHIELDED = 1    # a wait goes on, whatever is thrown
    IN_C = 2        # a wait ends when something is thrown, which is raised later: the caller is C code


cdef class Runnable:
    """Something that the loop runs at its base when its turn comes."""
    cdef int turn(self, Scheduler loop) except -1


cdef class BaseTasklet(Runnable):
    """The part of a tasklet that the engine knows."""
    cdef Scheduler loop
    cdef PyGreenlet* carrier        # owned: the greenlet on which it stopped; NULL while it runs or is new
    cdef int state
    cdef int outcome                # why park() returned
    cdef object value               # handed over by wake()
    # what it raises at its next waits: None, an exception or Thrown, or a list of several in order
    cdef object pending
    cdef list raised                # what it has raised of that, while somebody asks for it; else None
    cdef int shielded               # a Shield: whether it raises something of that now
    # a call of a C library was broken off because of it, see patches/libraries/parking.pyx
    cdef bint broken_off
    cdef object waiting_on          # the object that it waits for, if there is one
    cdef const char* why            # the thing that it waits for, in words; NULL while it does not wait
    cdef int64_t since              # when it began to wait, ns
    cdef int64_t ready_since        # when it last came into the ready queue, ns
    cdef Recorder recorder          # of its waits, or None
    cdef Timer timer                # the deadline of the present wait
    cdef Node place                 # in the queue of the thing that it waits for, see wait/waitqueue.pxd
    # wake() has let it go on from its present or last wait; it may have been killed since
    cdef bint handed_over
    cdef Locals locals              # its values in threading.local
    # owned, or NULL: while it does not run, what debuggers have set for it, as for a thread
    cdef Settings* settings
    cdef bint sets_own              # it begins with nothing of that: a threading.Thread asks itself
    # called with True before others run in its place, with False when it goes on; or None
    cdef object switch_hook
    cdef uint64_t serial            # unique in the process
    cdef uint64_t parent            # the serial of the tasklet that spawned it
    cdef readonly uint64_t switches # how often it has gone on
    cdef int64_t cpu                # ns of CPU, as far as they were measured
    cdef void* in_file              # the innermost file object that it is in, see fileobjects.pyx
    cdef Node life                  # in the loop's list of live tasklets

    cdef int end_with_thread(self, Scheduler loop) except -1
    cdef PyGreenlet* run_on_top(self) except? NULL      # see handling.pyx


# Making or dropping an object may run a finaliser, and so any code: another thread may throw meanwhile. So
# nothing does between a look at `pending` and its change, and a list is changed in place.


cdef inline int keep_pending(BaseTasklet tasklet, object thrown, bint first) except -1:
    """Adds an exception or a Thrown to those that the tasklet will raise, as the first or the last. One alone
    needs no list."""
    cdef list several
    if tasklet.pending is None:
        tasklet.pending = thrown
        tasklet.broken_off = False
        return 0
    several = <list> tasklet.pending if type(tasklet.pending) is list else []
    if tasklet.pending is None:
        tasklet.pending = thrown
        return 0
    if type(tasklet.pending) is list:
        several = <list> tasklet.pending
    else:
        several.append(tasklet.pending)
        tasklet.pending = several
    if first:
        several.insert(0, thrown)
    else:
        several.append(thrown)
    return 0


cdef inline int keep_thrown(BaseTasklet tasklet, object thrown) except -1:
    """As keep_pending(), as the last; but a KeyboardInterrupt ends a wait that goes on whatever is thrown."""
    cdef bint first = tasklet.shielded == SHIELDED and isinstance(thrown, KeyboardInterrupt)
    if first:
        tasklet.shielded = OPEN
    return keep_pending(tasklet, thrown, first)


cdef inline object next_pending(BaseTasklet tasklet):
    """Removes and returns the first exception that the tasklet has to raise. There is one."""
    cdef list several
    cdef Thrown thrown
    first = tasklet.pending
    if type(first) is list:
        several = <list> first
        first = several.pop(0)
        if len(several) == 0:
            tasklet.pending = None
    else:
        tasklet.pending = None
    tasklet.broken_off = False
    exception = first
    if type(first) is Thrown:
        thrown = <Thrown> first
        exception, thrown.exception = thrown.exception, None  # or it and a Timeout would refer to each other
    if tasklet.raised is not None:
        tasklet.raised.append(exception)
    return exception


cdef inline int take_back(BaseTasklet tasklet, object thrown) except -1:
    """The tasklet will not raise it any more; harmless if it has."""
    cdef list several
    cdef Py_ssize_t i
    if tasklet.pending is thrown:
        tasklet.pending = None
    elif type(tasklet.pending) is list:
        several = <list> tasklet.pending
        for i in range(len(several) - 1, -1, -1):
            if several[i] is thrown:
                del several[i]
        if len(several) == 0:
            tasklet.pending = None
    return 0


cdef inline bint is_thrown(BaseTasklet tasklet, object kind) except -1:
    """Whether an exception of this type is on its way to it."""
    pending = tasklet.pending if type(tasklet.pending) is list else [tasklet.pending]
    return any([type(one) is kind for one in pending])


cdef class Meeting:
    """Something that counts the tasklets that wait in its queues."""
    cdef int left_by(self, BaseTasklet tasklet) except -1      # it waited, and its thread has ended


cdef class StandIn(BaseTasklet):
    """Waits in a queue in place of a tasklet that waits in several at once; see poller.pyx."""
    cdef int taken(self, object value) except -1
    cdef bint stands(self) noexcept     # whether that tasklet still waits


cdef class Scheduler:
    cdef PyThreadState* thread_state    # which outlives it
    cdef ReadyQueue ready           # Runnables whose turn comes
    cdef PollClock clock            # when the loop must look for events again
    cdef bint polling               # asleep, with the GIL released
    cdef readonly BaseTasklet main
    cdef readonly BaseTasklet current       # None while the loop itself runs
    # the tasklet that takes steps in which nothing may wait; it is not current meanwhile, see begin_still()
    cdef BaseTasklet still
    cdef uint64_t switched          # how often tasklets have stopped; counted in debug builds only
    # in a child: the tasklet that forked, if it was not main; the process ends with it
    cdef BaseTasklet orphan
    cdef BaseTasklet top            # the innermost call on top of the main tasklet, or None
    cdef BaseTasklet comes_on_top   # while the carrier below it is switched to for it
    cdef TimerHeap timers
    cdef Carriers carriers
    cdef LinkedList live            # tasklets that have not ended, oldest first
    cdef Py_ssize_t live_count
    cdef readonly Py_ssize_t parked_count
    # how many of them wait for one another only: for locks, queues, events, tasklets
    cdef Py_ssize_t mutual_count
    cdef bint ending  # the thread's own function has returned, its tasklets get their last turns
    cdef bint closed                # they have had them
    cdef Observers observers        # or None
    cdef list limits                # of bytecodes, or None; see bytecodes.pyx

    # for waiters, and for code that wakes them
    cdef int park(self, const char* why, object on, int64_t deadline) except -1
    cdef int wake(self, BaseTasklet tasklet, object value) except -1
    cdef int throw(self, BaseTasklet tasklet, object exception) except -1
    cdef int yield_(self) except -1
    cdef void adopt(self, BaseTasklet tasklet) noexcept
    cdef void release(self, BaseTasklet tasklet) noexcept
    cdef int report(self, object where, BaseException error) except -1
    cdef int push(self, object item) except -1
    cdef int push_first(self, object item) except -1
    # for Loop, which defines the first three
    cdef int deliver(self) except -1
    cdef int poll(self) except -1
    cdef int rouse(self) except -1
    cdef int begin(self) except -1

    cdef PyGreenlet* _next_carrier(self, BaseTasklet leaving) except? NULL
    cdef int _stops(self, BaseTasklet tasklet) except -1
    cdef int _tell_stop(self, BaseTasklet tasklet) except -1
    cdef int _goes_on(self, BaseTasklet tasklet) except -1
    cdef int drop_pending(self, BaseTasklet tasklet) except -1
    cdef int raise_pending(self, BaseTasklet tasklet) except -1
    cdef int _switch_failed(self, BaseTasklet tasklet) except -1
    cdef PyGreenlet* _interrupted(self, BaseTasklet tasklet) except? NULL
    cdef int _run_next(self) except -1


cdef int pass_turn(Scheduler self, BaseTasklet tasklet) except -1


# The halves of pass_turn(), also for switches that the scheduler does not make.

cdef inline int stops_here(Scheduler self, BaseTasklet tasklet) except -1:
    if (tasklet.locals.own or tasklet.switch_hook is not None or self.observers is not None
            or has_settings(self.thread_state)):
        self.current = None                 # nothing that these call waits: a signal may come in them
        self._stops(tasklet)
    if DEBUG_BUILD:
        self.switched += 1
    return 0


cdef inline int goes_on_here(Scheduler self, BaseTasklet tasklet) except -1:
    tasklet.switches += 1
    if tasklet.recorder is not None:
        tasklet.recorder.queued_ns += max(
            <int64_t> 0, self.clock.now - max(tasklet.ready_since, tasklet.since))
    if tasklet.locals.own or tasklet.switch_hook is not None or tasklet.settings != NULL:
        self.current = None
        self._goes_on(tasklet)
    return runs_here(self, tasklet)


cdef inline int runs_here(Scheduler self, BaseTasklet tasklet) except -1:
    tasklet.state = RUNNING
    self.current = tasklet
    if self.observers is not None:
        self.observers.begins(tasklet)
    return 0


cdef inline BaseTasklet main_of(Scheduler loop):
    """The tasklet that is the thread's main code: in the child of a fork the one that forked."""
    return loop.main if loop.orphan is None else loop.orphan


# Doors to a wait: see current.pxd.
#
# The unchecked ones are for callers that undo something and must have no try block, see scheduler.pyx. In C a
# function that is declared `except -1` and one that is `noexcept` are the same: either sets an exception and
# returns -1. The difference: the caller must look at the result. While an exception is set it may only
# assign C values and drop references; then it returns failed().
ctypedef int (*PassTurn)(Scheduler self, BaseTasklet tasklet) noexcept
ctypedef int (*Park)(Scheduler self, const char* why, object on, int64_t deadline) noexcept
cdef PassTurn unchecked_pass_turn
cdef Park unchecked_park


# set by modules that are imported later: see scheduler.pyx
cdef object new_main            # called with a new Loop
cdef object main_type
cdef object new_tasklet
cdef object look_up
cdef dict case_makers
