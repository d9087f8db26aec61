# cython: binding=False, always_allow_keywords=False, embedsignature=True, embedsignature.format=clinic
"""One thread of a Stackless program: its run queue, and how tasklets yield in it.

The run queue is the scheduler's ready queue. Stackless thinks of it as a ring in which the running tasklet
has its place; here the running one is outside, and goes to the end when it lets others run. The order that
follows is the same. To do something "at once", as Stackless does, a tasklet is put first.

A tasklet that waits for a socket or a time is parked as any other; it counts as blocked. When nothing is
ready, and nothing but channels is waited for, run() is over, or there is a deadlock: when_idle() decides
that.

Exceptions: a bomb passes one between tasklets. A Guard calls a tasklet's function so that none of its
exceptions reaches run(); programs for carbonengine/scheduler use it, Stackless has only set_error_handler(),
which is for all tasklets.
"""

from threading import active_count

from syncless._core cimport scheduler
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport (
    NEW, PARKED, READY, BaseTasklet, Observer, Scheduler, failed, item_at, keep_pending, pass_turn, place_of,
    remove_item, rotate, unchecked_pass_turn,
)
from syncless._core.tasklet cimport Tasklet, become_main
from syncless._core.threadloop cimport get_loop
from syncless._core.timeout cimport only_bounds

cdef const char* PAUSED = "nothing: it is paused"
cdef const char* IN_CHANNEL = "channel"
cdef const char* IN_RUN = "run()"

cdef dict threads = {}                  # thread id -> Thread
cdef Thread latest = None               # the one that was asked for last
cdef object schedule_callback = None


cdef class Thread:
    """The state of one thread."""


cdef Thread found():
    """Return the Thread of this thread, made at the first call."""
    global latest
    cdef Loop loop = get_loop()
    cdef Thread state = threads.get(loop.thread_id)
    if state is None or state.loop is not loop:
        state = threads[loop.thread_id] = Thread()
        state.loop = loop
        state.runners = [None]
        before = loop.when_idle
        loop.when_idle = when_idle if before is None else lambda loop: (before(loop), when_idle(loop))
        tell_of_switches(state)
    latest = state if has_own_main(loop) else None
    return state


cdef bint has_own_main(Loop loop) except -1:
    """Return whether the main tasklet is one of Stackless. A main tasklet that is older than this package
    gives its place to such a one while it runs, because others may refer to it otherwise."""
    if isinstance(loop.main, scheduler.main_type):
        return True
    if loop.current is not loop.main:
        return False
    become_main(loop, <Tasklet> scheduler.main_type.__new__(scheduler.main_type))
    return True


# -- the run queue -------------------------------------------------------------------------------------------


cdef list run_queue(Loop loop):
    """Return the tasklets that are ready, the running one first."""
    cdef size_t i
    cdef list found = [] if loop.current is None else [loop.current]
    for i in range(loop.ready.count):
        item = <object> item_at(&loop.ready, i)
        if isinstance(item, BaseTasklet) and (<BaseTasklet> item).state in (NEW, READY):
            found.append(item)
    return found


# -- switching -----------------------------------------------------------------------------------------------


cdef int refuse_switch(Thread state) except -1:
    raise RuntimeError(
        "switch_trap" if state.switch_trap
        else "the event loop itself cannot switch: a callback called something that does; "
             "let it spawn a tasklet instead")


cdef int leave(Thread state, BaseTasklet me, bint stays) except -1:
    """Let the next one run; `stays`: at the end of the run queue, or else paused until it is inserted
    again."""
    cdef Loop loop = state.loop
    if state.switch_trap:
        raise RuntimeError("switch_trap")
    if stays:
        me.state = READY
        loop.push(me)
        pass_turn(loop, me)
        return 0
    return pause(state, me, PAUSED, None)


cdef int pause(Thread state, BaseTasklet me, const char* why, object on) except -1:
    """As Scheduler.park(), for waits that only another tasklet can end."""
    cdef int outcome
    if me.pending is not None and not me.shielded:
        return state.loop.raise_pending(me)
    me.state = PARKED
    me.why = why
    me.waiting_on = on
    me.since = state.loop.clock.now
    state.last_stopped = me
    state.blocked += 1
    state.loop.parked_count += 1
    outcome = unchecked_pass_turn(state.loop, me)
    state.blocked -= 1
    state.loop.parked_count -= 1
    me.why = NULL
    me.waiting_on = None
    return failed() if outcome < 0 else 0


cdef int run_now(Thread state, BaseTasklet target, bint stays) except -1:
    """The target runs next, and the tasklets before it in the run queue go behind the present one. If it was
    not in the queue, the present one follows it."""
    cdef Loop loop = state.loop
    cdef BaseTasklet me = running(state)
    cdef Py_ssize_t at
    if target.state in (NEW, READY):
        at = place_of(&loop.ready, target)
    else:
        at = -1
        target.state = READY
    if at < 0:
        at = 0
        if stays:
            loop.push_first(me)
        loop.push_first(target)
    elif stays:
        loop.push(me)
    if stays:
        me.state = READY
        rotate(&loop.ready, at)
        pass_turn(loop, me)
        return 0
    rotate(&loop.ready, at)
    return pause(state, me, PAUSED, None)


cdef int throw_first(Loop loop, BaseTasklet target, BaseException exception) except -1:
    """The exception is raised in the target, which runs next."""
    keep_pending(target, exception, False)
    if target.state == READY:
        remove_item(&loop.ready, target)
    if target.state in (READY, PARKED):
        target.state = READY
        loop.push_first(target)
    return 0


cdef int end_run(Thread state, BaseTasklet runner) except -1:
    """A tasklet that is in run() goes on next. False if it does not wait there."""
    if runner.state != PARKED or runner.why != IN_RUN:
        return False
    runner.state = READY
    state.loop.push_first(runner)
    return True


cdef int leave_run(Thread state, BaseTasklet runner) except -1:
    """Its run() is over, and with it those that were called within."""
    cdef BaseTasklet inner = None
    if runner in state.runners[1:]:                 # or else an outer run() has ended
        while inner is not runner:
            inner = <BaseTasklet> state.runners.pop()
            if inner.state == PARKED and inner.why == IN_RUN:
                inner.state = READY
                state.loop.push(inner)
    return 0


cdef object number_of_thread(thread_id):
    """Return the thread that an argument means: None and -1 mean the calling thread."""
    if thread_id is None:
        return -1
    if not isinstance(thread_id, int):
        raise TypeError(f"an integer is required as thread_id, not {type(thread_id).__name__}")
    if thread_id < -1:
        raise OverflowError("thread_id must not be negative")
    return thread_id


def when_idle(Loop loop):
    """Nothing is ready: can any wait still end?"""
    cdef Thread state = threads.get(loop.thread_id)
    cdef bint in_run = state is not None and len(state.runners) > 1
    if state is None or state.loop is not loop:
        return
    if loop.may_wake(state.blocked, not in_run or not only_bounds(loop, state.runners)):
        return
    if in_run:
        if state.awaits_threads and other_threads(loop):
            if any([(<BaseTasklet> each).why == IN_CHANNEL for each in loop.tasklets()]):
                return                          # they may be met
        if end_run(state, <BaseTasklet> state.runners[len(state.runners) - 1]):
            return
    if loop.main.state == PARKED and loop.main.why == PAUSED:
        loop.main.state = READY                 # no tasklet is left to insert it; as in Stackless, it goes on
        loop.push_first(loop.main)
    elif waits_in_channel(loop.main) and not other_threads(loop):
        end_deadlock(state, loop)


cdef int forget_last_stopped(Scheduler loop) except -1:
    """Another tasklet has ended."""
    if latest is not None and latest.loop is loop:
        latest.last_stopped = None
    return 0


cdef bint waits_in_channel(BaseTasklet one) noexcept:
    return one is not None and one.state == PARKED and one.why == IN_CHANNEL


cdef int end_deadlock(Thread state, Loop loop) except -1:
    """The main tasklet waits for a channel, and nothing else can happen. The tasklet that ran last is told if
    it was the last to block or to be paused, or else the main tasklet."""
    cdef BaseTasklet last = state.last_stopped
    if last is None or last.state != PARKED or (last.why != IN_CHANNEL and last.why != PAUSED):
        last = loop.main
    if last is not loop.main:
        why = "the last runnable tasklet cannot be blocked."
    elif loop.main.waiting_on.balance > 0:
        why = "the main tasklet is sending without a receiver available."
    else:
        why = "the main tasklet is receiving without a sender available."
    blocked = [each.name for each in loop.tasklets() if waits_in_channel(<BaseTasklet> each)]
    throw_first(loop, last, RuntimeError(
        f"Deadlock: {why} Blocked on channels: {', '.join(blocked)}"))
    return 0


cdef bint other_threads(Loop loop) except -1:
    """Return whether another thread could still use a channel, be it for the first time."""
    for thread_id, other in list(threads.items()):
        if (<Thread> other).loop.closed:
            del threads[thread_id]
        elif (<Thread> other).loop is not loop and loop is not None:
            return True
    return active_count() > 1


# -- the callback at each switch -----------------------------------------------------------------------------


cdef class _Teller(Observer):
    """Calls the schedule callback at each switch of a thread."""
    cdef Thread thread
    cdef object left                    # the tasklet that ran last

    cdef int stops(self, object one) except -1:
        self.left = one
        return 0

    cdef int begins(self, object one) except -1:
        before, self.left = self.left, None
        if before is not None and before is not one and schedule_callback is not None:
            self.thread.switch_trap += 1    # it must not switch
            try:
                schedule_callback(before, one)
            except BaseException as error:
                self.thread.loop.report("the schedule callback", error)
            finally:
                self.thread.switch_trap -= 1
        return 0


cdef int tell_of_switches(Thread state) except -1:
    """In each thread of Stackless, while there is a schedule callback."""
    cdef _Teller teller
    if schedule_callback is None and state.teller is not None:
        state.loop.unobserve(state.teller)
        state.teller = None
    elif schedule_callback is not None and state.teller is None:
        teller = state.teller = _Teller()
        teller.thread = state
        teller.left = state.loop.current
        state.loop.observe(teller)
    return 0


def set_schedule_callback(callback):
    """Call callback(before, next) at each switch, in the tasklet that resumes; None stops that. The callback
    must not switch. Return the previous callback."""
    global schedule_callback
    if callback is not None and not callable(callback):
        raise TypeError("schedule callback must be callable")
    here()
    before, schedule_callback = schedule_callback, callback
    for state in threads.values():
        tell_of_switches(state)
    return before


def get_schedule_callback():
    """Return the current callback, or None."""
    return schedule_callback


cdef object error_handler = None


cdef class bomb:
    """bomb(type=None, value=None, traceback=None)\n--\n\n\
    An exception as a value, which a tasklet raises when it receives the bomb from a channel."""

    def __init__(self, type=None, value=None, traceback=None):
        self.type, self.value, self.traceback = type, value, traceback

    def _raise(self):
        raise exception_of(self.type, self.value, self.traceback)


cdef object exception_of(object kind, object value, object traceback):
    """Return the instance that `raise kind, value, traceback` raised."""
    if isinstance(kind, BaseException):
        if value is not None:
            raise TypeError("instance exception may not have a separate value")
        made = kind
    elif isinstance(kind, type) and issubclass(kind, BaseException):
        if isinstance(value, kind):
            made = value
        elif value is None:
            made = kind()
        else:
            made = kind(*value) if isinstance(value, tuple) else kind(value)
    else:
        raise TypeError(f"exceptions must be classes, or instances, not {type(kind).__name__}")
    return made if traceback is None else made.with_traceback(traceback)


cdef int tell_uncaught(Loop loop, BaseTasklet one, BaseException exception) except -1:
    """An exception left a tasklet: it is raised in the innermost run(), or in the main tasklet."""
    cdef Thread state = threads.get(loop.thread_id)
    cdef BaseTasklet target
    if error_handler is not None:
        before, loop.current = loop.current, one    # it is still the current one for the handler,
        if state is not None:
            state.switch_trap += 1                  # but has no stack any more that could be left
        try:
            error_handler(type(exception), exception, exception.__traceback__)
            return 0
        except BaseException as error:
            exception = error
        finally:
            loop.current = before
            if state is not None:
                state.switch_trap -= 1
    target = loop.main
    if state is not None and len(state.runners) > 1:
        target = <BaseTasklet> state.runners[len(state.runners) - 1]
    throw_first(loop, target, exception)
    return 0


def set_error_handler(handler):
    """Call handler(type, value, traceback) for exceptions that no tasklet has caught; None: raise them in
    run(). Return the previous handler."""
    global error_handler
    if handler is not None and not callable(handler):
        raise TypeError("error handler must be callable")
    before, error_handler = error_handler, handler
    return before


cdef class Guard:
    """The attributes dont_raise, exception_handler and context_manager_getter of one tasklet."""

    def __call__(self, BaseTasklet one, function, tuple args, dict kwargs):
        """Call the function of a tasklet, inside the context manager that is made for the tasklet. Exceptions
        of the context manager itself are raised."""
        if self.context_manager_getter is None:
            return self.call_caught(one, function, args, kwargs)
        with self.context_manager_getter(one):
            return self.call_caught(one, function, args, kwargs)

    cdef object call_caught(self, BaseTasklet one, object function, tuple args, dict kwargs):
        cdef Loop loop = get_loop()
        if kwargs is None:
            kwargs = {}
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if self.exception_handler is None:
                loop.report(one, error)
                return None
            try:
                self.exception_handler(f"Unhandled exception in {one!r}")
            except Exception as raised:         # its context is the first one
                loop.report(self.exception_handler, raised)
            return None
