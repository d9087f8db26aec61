"""The scheduler: the next tasklet to run, its carrier, and the one way to stop and to go on.

Takes: Runnables that are ready, tasklets that want to wait. Gives: turns. It must not know what wakes a
tasklet (descriptors, time and signals are loop.pyx), nor what a tasklet does (tasklet.pyx).

A *tasklet* is a light object, not a greenlet. It runs on a *carrier*, a pooled greenlet. There is no hub: one
carrier at a time is the *leader*. It runs the loop at its base and calls new work inline, so work that never
waits costs no switch. When the work waits, it switches straight to the next ready tasklet, or to an idle
carrier, which becomes the leader:

    leader: [loop] -> calls work -> work parks ----> next ready tasklet goes on, on its own carrier, or
                                               `--> an idle carrier goes on with [loop]: the new leader
    leader meets a parked tasklet that is ready: rests in the idle list, switches to it

So the loop never runs on top of a user's stack.

Every Python call and every drop of a reference may switch. Hence all state of a turn is in the Loop, where
the next leader finds it, and none is kept across a call.

The part of a carrier's stack between its base and the place where it switches is copied at each switch, and
each return from there costs, because the processor cannot foresee it. So the functions on that way have
no try block, whose room on the stack is large: they call what may fail, look at its result, and leave the
rest to functions of their own (failed, _switch_failed).

Threads: each has its own Loop. The GIL guards the ready queue, so another thread wakes a tasklet by the same
wake(), which also wakes the poller if that loop is asleep.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.stdint cimport int64_t, uint64_t

from syncless._core.alone cimport wait_alone
from syncless._core.arrays cimport doubled
from syncless._core.clock cimport NEVER, monotonic_ns
from syncless._core.cpython.compat cimport Py_IsFinalizing
from syncless._core.cpython.greenlet cimport (
    PyGreenlet, PyGreenlet_GetCurrent, PyGreenlet_Import, PyGreenlet_New, PyGreenlet_Switch, Step, at_base,
    switch_further_down,
)
from syncless._core.cpython.threadlocal cimport drop_locals, exchange_locals
from syncless._core.cpython.tracing cimport (
    PyThreadState_Get, free_settings, has_settings, hide_thread, put_aside, put_back,
)
from syncless._core.linked cimport Node, append, remove
from syncless._core.timers cimport TimerHeap, timer_init

from syncless._core.cpython import chunkcache
from syncless._core.exits import TaskletExit
from syncless._core.exits import tell_uncaught

include "scheduler/readyqueue.pxi"
include "scheduler/pollclock.pxi"


cdef class Thrown:
    """An exception on its way to a tasklet, which its thrower may take back before it is raised. Two throwers
    may share an exception, but not a Thrown."""


include "scheduler/observers.pxi"
include "scheduler/carriers.pxi"


cdef extern from *:
    """
    /* The last tasklet's: numbers are unique in the process. Guarded by the GIL. */
    static uint64_t syncless_serial;
    """
    uint64_t syncless_serial


PyGreenlet_Import()
chunkcache.install()

from greenlet import GreenletExit  # noqa: E402  (PyGreenlet_Import() reports a missing greenlet more clearly)

cdef class Runnable:
    cdef int turn(self, Scheduler loop) except -1:
        raise NotImplementedError("a Runnable defines turn()")


cdef void deadline_passed(void* owner) noexcept:
    cdef BaseTasklet tasklet = <BaseTasklet> owner
    if tasklet.state == PARKED:
        tasklet.outcome = TIMED_OUT
        tasklet.state = READY
        tasklet.ready_since = tasklet.timer.when
        tasklet.loop.push(tasklet)
    elif tasklet.state == COVERED:
        tasklet.outcome = TIMED_OUT
        tasklet.state = COVERED_READY


cdef class BaseTasklet(Runnable):
    def __cinit__(self):
        timer_init(&self.timer, deadline_passed, <void*> self)

    def __dealloc__(self):
        if self.loop is not None:
            self.loop.release(self)
        Py_XDECREF(<PyObject*> self.carrier)
        drop_locals(&self.locals)
        free_settings(&self.settings)

    cdef int end_with_thread(self, Scheduler loop) except -1:
        """Its thread has ended, and it never runs again."""
        loop.release(self)
        return 0

    cdef PyGreenlet* run_on_top(self) except? NULL:
        raise NotImplementedError


cdef class Meeting:
    cdef int left_by(self, BaseTasklet tasklet) except -1:
        raise NotImplementedError("a Meeting defines left_by()")


cdef class StandIn(BaseTasklet):
    cdef int taken(self, object value) except -1:
        """It is woken with the value. Return 1, or 0 if the tasklet does not wait any more."""
        return 0

    cdef bint stands(self) noexcept:
        return True


cdef class Scheduler:
    """The tasklets of one thread, and the order in which they run. Loop adds what wakes it."""

    def __cinit__(self):
        begin_queue(&self.ready)
        self.timers = TimerHeap()
        self.carriers = Carriers()

    def __dealloc__(self):
        free_queue(&self.ready)

    cdef int begin(self) except -1:
        """In the greenlet that is the thread's main one."""
        self.thread_state = PyThreadState_Get()
        self.carriers.begin(self, <Step> step, <Step> step_failed)
        polled(&self.clock, monotonic_ns())
        return 0

    cdef int deliver(self) except -1:
        """Deliver one of the events that the last poll brought; False if there is none. Loop knows how."""
        return False

    cdef int poll(self) except -1:
        """Wait for something to do, if nothing is ready. Loop knows how."""
        raise NotImplementedError("a Scheduler alone cannot wait")

    cdef int rouse(self) except -1:
        """Wake the loop that sleeps in poll(), from another thread. Loop knows how."""
        return 0

    cdef int push(self, object item) except -1:
        """Put a Runnable at the end of the ready queue. From any thread that holds the GIL."""
        add_last(&self.ready, item)
        if self.polling:
            self.rouse()
        return 0

    cdef int push_first(self, object item) except -1:
        """Put it before all others."""
        add_first(&self.ready, item)
        if self.polling:
            self.rouse()
        return 0

    # -- the seam: park and wake -----------------------------------------------------------------------------

    cdef int park(self, const char* why, object on, int64_t deadline) except -1:
        """Stop the running tasklet until wake(), throw() or the deadline (ns of the monotonic clock; NEVER).

        Return WOKEN, with the value in tasklet.value, or TIMED_OUT; raise what was thrown. A caller
        that has registered the tasklet somewhere takes it out again when this raises or times out.
        """
        cdef BaseTasklet tasklet = self.current
        cdef int outcome
        if tasklet is None:
            return refuse_wait(self, why)
        if Py_IsFinalizing():       # a destructor tried to
            if tasklet.place.owner != NULL and deadline != NEVER:       # for another tasklet
                return TIMED_OUT
            return WOKEN if wait_alone(-1, 0, deadline) else TIMED_OUT
        if tasklet.pending is not None and not tasklet.shielded:
            return self.raise_pending(tasklet)
        assert tasklet.state == RUNNING and tasklet.why == NULL
        tasklet.state = PARKED
        tasklet.outcome = WOKEN
        tasklet.why = why
        tasklet.waiting_on = on
        # the clock's last look may be older than the time for which this tasklet has run
        tasklet.since = self.clock.now if tasklet.recorder is None else monotonic_ns()
        if deadline != NEVER:
            self.timers.add(&tasklet.timer, deadline)
        self.parked_count += 1
        outcome = unchecked_pass_turn(self, tasklet)
        self.parked_count -= 1
        tasklet.why = NULL
        tasklet.waiting_on = None
        if tasklet.timer.index >= 0:
            self.timers.remove(&tasklet.timer)
        if tasklet.recorder is not None:
            tasklet.recorder.waited(tasklet, why, on)
        return failed() if outcome < 0 else tasklet.outcome

    cdef int wake(self, BaseTasklet tasklet, object value) except -1:
        """Let a parked tasklet go on with `value`. Return 1, or 0 if it does not wait (any more). From any
        thread."""
        if tasklet.state != PARKED:
            return wake_indirectly(tasklet, value)
        tasklet.value = value
        tasklet.handed_over = True
        tasklet.state = READY
        tasklet.ready_since = tasklet.loop.clock.now
        tasklet.loop.push(tasklet)
        if DEBUG_BUILD and explorer.woken != NULL:
            explorer.woken(tasklet)
        return 1

    cdef int throw(self, BaseTasklet tasklet, object exception) except -1:
        """Raise the exception (or what a Thrown holds) where the tasklet stopped, when its turn comes; in
        the running one at its next wait. Earlier ones come first; each wait raises one of them.
        Return 0 if the tasklet has ended.
        """
        if tasklet.state == DONE:
            return 0
        keep_thrown(tasklet, exception)
        if tasklet.state == PARKED and tasklet.shielded != SHIELDED:
            tasklet.state = READY
            tasklet.ready_since = tasklet.loop.clock.now
            tasklet.loop.push(tasklet)
        return 1

    cdef int yield_(self) except -1:
        """Let the others that are ready run first."""
        cdef BaseTasklet tasklet = self.current
        if tasklet is None:
            raise RuntimeError(
                "the event loop cannot yield: a signal handler or callback called something that switches")
        if Py_IsFinalizing():
            return 0
        if tasklet.pending is None or tasklet.shielded:
            tasklet.state = READY
            tasklet.ready_since = self.clock.now if tasklet.recorder is None else monotonic_ns()
            self.push(tasklet)
        return pass_turn(self, tasklet)

    cdef int _stops(self, BaseTasklet tasklet) except -1:
        """Others are going to run in its place."""
        self.still = tasklet
        try:
            if has_settings(self.thread_state):
                put_aside(&tasklet.settings)        # first, and back last: hooks and observers are not traced
            self._tell_stop(tasklet)
            if tasklet.locals.own:
                exchange_locals(&tasklet.locals)
        except BaseException:
            if tasklet.settings != NULL:
                put_back(&tasklet.settings)
            raise
        finally:
            self.still = None
        return 0

    cdef int _tell_stop(self, BaseTasklet tasklet) except -1:
        """An error of who is told is only reported: who comes next has left the ready queue already."""
        try:
            if tasklet.switch_hook is not None and tasklet.state != RUNNING:    # else it has ended
                call_hook(tasklet, True)
            if self.observers is not None:
                self.observers.stops(tasklet)
        except BaseException as error:
            self.report("an observer of switches", error)
        return 0

    cdef int _goes_on(self, BaseTasklet tasklet) except -1:
        self.still = tasklet
        try:
            if tasklet.locals.own:
                exchange_locals(&tasklet.locals)
            if tasklet.switch_hook is not None:
                call_hook(tasklet, False)
        finally:
            self.still = None
            if tasklet.settings != NULL:
                put_back(&tasklet.settings)
        return 0

    cdef int raise_pending(self, BaseTasklet tasklet) except -1:
        if not tasklet.shielded:
            raise next_pending(tasklet)
        return 0

    cdef int drop_pending(self, BaseTasklet tasklet) except -1:
        """The tasklet ends before it has raised what was thrown at it. That came too late, except for what is
        meant for the program."""
        while tasklet.pending is not None:
            exception = next_pending(tasklet)
            if isinstance(exception, TaskletExit):
                continue
            if isinstance(exception, (KeyboardInterrupt, SystemExit)):
                self.throw(main_of(self), exception)
        return 0

    cdef PyGreenlet* _next_carrier(self, BaseTasklet leaving) except? NULL:
        """Where to go from a tasklet that stops; NULL if the next that is ready is that tasklet itself.

        Borrowed: a tasklet's own reference to its carrier is dropped by the carrier itself once it runs, see
        Carriers.go_idle().
        """
        cdef BaseTasklet ahead
        if not is_poll_due(&self.clock):
            while self.ready.count:
                if is_exploring():
                    explorer.choose(self)
                if not isinstance(<object> self.ready.ring[self.ready.head], BaseTasklet):
                    break                           # work for a leader
                ahead = <BaseTasklet> self.ready.ring[self.ready.head]
                if ahead.state == NEW:
                    break                           # a leader starts it
                take_first(&self.ready)
                if ahead is leaving:
                    return NULL
                if ahead.state == READY:            # else it was killed meanwhile
                    return ahead.carrier
        self.current = None
        return self.carriers.next_leader()

    cdef int _switch_failed(self, BaseTasklet tasklet) except -1:
        """An exception came out of the switch itself: the greenlet ends."""
        try:
            return failed()
        finally:
            self._goes_on(tasklet)

    cdef PyGreenlet* _interrupted(self, BaseTasklet tasklet) except? NULL:
        """The carrier got an exception instead of being switched to: it ends, or has a call to make in the
        midst of the wait. Return what _next_carrier() does."""
        cdef BaseTasklet call = self.comes_on_top
        if call is None:
            self._switch_failed(tasklet)
        self.comes_on_top = None
        return call.run_on_top()

    # -- the life of a carrier -------------------------------------------------------------------------------

    cdef int _run_next(self) except -1:
        cdef PyGreenlet* target
        cdef Runnable item
        if is_exploring():
            explorer.choose(self)
        item = <Runnable> take_first(&self.ready)
        if isinstance(item, BaseTasklet) and (<BaseTasklet> item).state != NEW:
            target = (<BaseTasklet> item).carrier
            if (<BaseTasklet> item).state == READY and target != NULL:      # else it was killed meanwhile
                item = None                         # an idle leader must not keep a tasklet alive
                return self.carriers.go_idle(target)
            return 0
        return item.turn(self)

    # -- live tasklets ---------------------------------------------------------------------------------------

    cdef void adopt(self, BaseTasklet tasklet) noexcept:
        """Put the tasklet on the list of live ones."""
        global syncless_serial
        tasklet.loop = self
        if tasklet.serial == 0:
            syncless_serial += 1
            tasklet.serial = syncless_serial
            if self.current is not None:
                tasklet.parent = self.current.serial
        append(&self.live, &tasklet.life, <PyObject*> tasklet)
        self.live_count += 1

    cdef void release(self, BaseTasklet tasklet) noexcept:
        """Take the tasklet off the list; one that is not on it is left alone."""
        if tasklet.life.owner == NULL:
            return
        remove(&self.live, &tasklet.life)
        self.live_count -= 1

    def tasklets(self) -> list:
        """Return all live tasklets of this thread, oldest first."""
        cdef Node* one = self.live.first
        found = []
        while one != NULL:
            found.append(<BaseTasklet> one.owner)
            one = one.after
        return found

    # -- failure and end -------------------------------------------------------------------------------------

    cdef int report(self, object where, BaseException error) except -1:
        """Tell somebody of an exception that nobody caught. KeyboardInterrupt and SystemExit go to the main
        tasklet instead."""
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            return self.throw(main_of(self), error)
        tell_uncaught(where, error)
        return 0


cdef int wake_indirectly(BaseTasklet tasklet, object value) except -1:
    """A tasklet that is not PARKED. Return what wake() does."""
    if tasklet.state == STANDS_IN:
        return (<StandIn> tasklet).taken(value)
    if tasklet.state != COVERED:
        return 0
    tasklet.value = value
    tasklet.handed_over = True
    tasklet.state = COVERED_READY
    return 1


cdef int call_hook(BaseTasklet tasklet, bint leaving) except -1:
    """Tools of sys.monitoring see nothing of it: a debugger that stands in this tasklet would stop there."""
    hide_thread(True)
    try:
        tasklet.switch_hook(leaving)
    except BaseException as error:      # the switch is half made
        tasklet.loop.report("a hook of switches", error)
    finally:
        hide_thread(False)
    return 0


cdef int pass_turn(Scheduler self, BaseTasklet tasklet) except -1:
    """Give the thread to the next ready tasklet or to a leader; return when this tasklet's turn has come."""
    cdef PyGreenlet* carrier
    cdef PyObject* returned
    if tasklet.state != RUNNING:
        carrier = self._next_carrier(tasklet)
        while carrier != NULL:
            tasklet.carrier = PyGreenlet_GetCurrent()
            stops_here(self, tasklet)
            returned = PyGreenlet_Switch(carrier, NULL, NULL)
            carrier = tasklet.carrier
            tasklet.carrier = NULL
            Py_DECREF(<object> carrier)         # which runs, and so has other owners
            if returned == NULL:
                carrier = self._interrupted(tasklet)
                continue
            Py_DECREF(<object> returned)
            goes_on_here(self, tasklet)
            break
        else:
            runs_here(self, tasklet)
    return 0 if tasklet.pending is None else self.raise_pending(tasklet)


# -- a carrier's base ----------------------------------------------------------------------------------------


cdef int step(Scheduler self) except -1:
    """One step of a carrier: one event, one turn, or the wait for more. Return 1 if the loop is closed."""
    if self.closed:
        return 1
    self.current = None
    if self.deliver():
        return 0
    if self.ready.count and not is_poll_due(&self.clock):
        return self._run_next()
    return self.poll()


cdef int step_failed(Scheduler self) except -1:
    """Return 1 if the carrier ends."""
    try:
        return failed()
    except GreenletExit:
        self.carriers.count -= 1
        return 1
    except BaseException as error:
        self.report("the event loop", error)
    return 0


cdef PassTurn unchecked_pass_turn = <PassTurn> pass_turn
cdef Park unchecked_park = <Park> Scheduler.park


# What the engine calls and must not import; each is set by a module that is imported later.
#
# | name | set by | called by | because |
# |---|---|---|---|
# | new_main | tasklet.pyx | get_loop() | a loop begins with a main tasklet; tasklets are built on loops |
# | main_type | tasklet.pyx, then stackless | new_main | a Stackless program has a kind of its own |
# | new_tasklet | tasklet.pyx, then stackless | spawn() | so is each tasklet that is spawned |
# | look_up | io/socket.py | calls/messages.pyx | names are resolved in a layer above |
# | case_makers | tools/results.py, stackless | select() | it waits for objects of theirs, too |

cdef object new_main = None
cdef object main_type = None
cdef object new_tasklet = None
cdef object look_up = None
cdef dict case_makers = {}


def set_lookup(function) -> None:
    """function(socket, address) gives an address whose host name has become a number."""
    global look_up
    look_up = function


def set_case_maker(kind, maker) -> None:
    """maker(source) makes the Case that stands for an object of that type in select()."""
    case_makers[kind] = maker
