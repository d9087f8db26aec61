# cython: binding=False, always_allow_keywords=False, embedsignature=True, embedsignature.format=clinic
"""Stackless Python's tasklets, which are those of syncless with another face; schedule() and run(), and facts
about a thread.

run(timeout): a tasklet that runs too many bytecodes in one turn is taken from the processor.
"""

cimport cython
from cpython.contextvars cimport PyContext_CopyCurrent
from libc.string cimport strcmp

from syncless._core cimport scheduler
from syncless._core.bytecodes cimport BytecodeLimit
from syncless._core.cpython.counting cimport interpreter_checks
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport (
    DONE, NEW, PARKED, READY, RUNNING, BaseTasklet, Scheduler, keep_pending, pass_turn, remove_item,
)
from syncless._core.tasklet cimport Tasklet, refuse_spawn
from syncless._core.threadloop cimport get_loop, loop_of
from syncless.stackless._arguments cimport at_most, required
from syncless.stackless._state cimport TracedTasklet
from syncless.stackless._thread cimport (
    IN_RUN, PAUSED, Thread, end_run, exception_of, forget_last_stopped, here, leave, leave_run,
    number_of_thread, other_threads, pause, run_now, run_queue, running, tell_uncaught, threads,
)

from syncless._core.exits import TaskletExit

cdef object ABSENT = object()
cdef str HAS_C_STATE = "tasklet has C state on its stack: a greenlet stays where it has started"


cdef class tasklet(TracedTasklet):
    """tasklet(func=None, args=None, kwargs=None)\n--\n\n\
    A function that runs concurrently with others. Call the tasklet with arguments to insert it."""

    def __init__(self, func=None, args=None, kwargs=None, *excess):
        at_most("tasklet", 3, excess)
        self.loop = here().loop
        if func is not None:
            self.bind(func, args, kwargs)
        elif args is not None or kwargs is not None:
            raise TypeError("tasklet() with arguments needs a callable")

    def __call__(self, *args, **kwargs):
        """Bind the arguments and insert the tasklet at the end of the run queue. Return the tasklet."""
        return self.setup(*args, **kwargs)

    @cython.embedsignature(False)
    def bind(self, func=None, args=None, kwargs=None, *excess):
        """bind($self, func=None, args=None, kwargs=None)\n--\n\n\
        Set the function that the tasklet runs; with `args` or `kwargs` the tasklet is alive, and paused.
        bind(None) unbinds the function. Return the tasklet."""
        cdef bint gives = args is not None or kwargs is not None
        at_most("bind", 3, excess)
        if func is not None and not callable(func):
            raise TypeError("tasklet function must be a callable or None")
        if gives:
            args = tuple(args) if args is not None else ()
            kwargs = dict(kwargs) if kwargs is not None else {}
        # no Python code from here on, in which another thread could insert it
        # dropped when all is done
        _function, _result, _exception, _pending = self.function, self._result, self._exception, self.pending
        _tempval = self.tempval
        if self.is_alive():
            if self.state == RUNNING:
                raise RuntimeError("can't (re)bind the current tasklet")
            if self.is_scheduled():
                raise RuntimeError("tasklet is scheduled")
            if self.state != NEW:
                raise RuntimeError(HAS_C_STATE)
        elif self.carrier != NULL:
            raise RuntimeError(HAS_C_STATE)         # it still waited when its thread ended
        if func is None and gives:
            func = self.bound_function()
            if func is None:
                raise TypeError("cannot bind arguments to an unbound tasklet")
        if self.loop is None:                       # of a class that does not call tasklet.__init__()
            self.loop = here().loop
        if gives and self.loop.closed:
            raise RuntimeError("tasklet has no thread: its thread has ended; bind_thread() gives it another")
        self.state = NEW
        self.function = func
        self.ready_to_run = self.inserted = False
        self.switches = 0
        self._result = self._exception = self.pending = None
        self.tempval = func                         # until it has arguments
        if gives:
            self.give(args, kwargs)
        return self

    cdef object bound_function(self):
        """While it has no arguments, `tempval` is its function, and a program may put another there."""
        return self.tempval if self.state == NEW and not self.ready_to_run else self.function

    cdef int give(self, tuple args, dict kwargs) except -1:
        self.args = args
        self.kwargs = kwargs or None
        self.tempval = None
        if self.context is None:
            self.context = PyContext_CopyCurrent()
        self.ready_to_run = True
        return 0

    def setup(self, *args, **kwargs):
        """Bind the arguments, insert the tasklet, and return it. Raise RuntimeError if it is alive."""
        if self.is_alive():
            raise RuntimeError("tasklet is alive")
        function = self.bound_function()
        if function is None or self.state == DONE:
            raise RuntimeError("the tasklet was not bound to a function")
        if not callable(function):
            raise TypeError(f"tasklet function must be a callable, not {type(function).__name__}")
        self.function = function
        if self.loop.closed:
            raise RuntimeError("tasklet has no thread: its thread has ended; bind_thread() gives it another")
        self.give(args, kwargs)
        self.insert()
        return self

    cdef int enter(self, Scheduler loop) except -1:
        """It is going to run for the first time."""
        if not self.inserted:
            self.inserted = True
            loop.adopt(self)
        return 0

    cdef int turn(self, Scheduler loop) except -1:
        self.inserted = False
        return Tasklet.turn(self, loop)

    cdef int finish(self, Scheduler loop) except -1:
        cdef BaseException raised = None
        # dropped when it may be bound again
        _function, _args, _kwargs, _context = self.function, self.args, self.kwargs, self.context
        _trace, _profile = self.trace, self.profile
        self.inserted = self.ready_to_run = False
        self.trace = self.profile = None
        self.tempval = self._result             # its result, for code that still has it
        forget_last_stopped(loop)
        if not self.spawned and self._exception is not None and not isinstance(self._exception, TaskletExit):
            raised, self._exception = self._exception, None
        Tasklet.finish(self, loop)
        if raised is not None:
            tell_uncaught(<Loop> loop, self, raised)
        return 0

    # -- running it

    cdef int check(self, str verb) except -1:
        if not self.is_alive():
            raise RuntimeError(f"You cannot {verb} an unbound(dead) tasklet")
        if self.is_blocked():
            raise RuntimeError(f"You cannot {verb} a blocked tasklet")
        return 0

    def insert(self):
        """Append the tasklet to its thread's run queue, and return it. A sleeping tasklet is woken. Raise
        RuntimeError if the tasklet is dead or blocked."""
        if self.state == PARKED and strcmp(self.why, "sleep") == 0:
            get_loop().wake(self, None)
            return self
        self.check("run")
        if not self.is_scheduled():
            self.make_ready()
            self.loop.push(self)
        return self

    cdef int make_ready(self) except -1:
        """It was paused, and is going to be put into the run queue."""
        if self.state == NEW:
            return self.enter(self.loop)
        self.state = READY
        self.why = NULL
        return 0

    def remove(self):
        """Pause the tasklet: remove it from its thread's run queue. The running tasklet stops here. Raise
        RuntimeError if the tasklet is blocked."""
        cdef Thread state = here()
        if self.is_blocked():
            raise RuntimeError("You cannot remove a blocked tasklet.")
        if self.state == RUNNING:
            if self.loop is not state.loop:
                raise RuntimeError("You cannot remove a tasklet that runs in another thread")
            pause(state, self, PAUSED, None)
        elif self.state == READY:
            remove_item(&self.loop.ready, self)
            self.state = PARKED
            self.why = PAUSED
        elif self.inserted:
            remove_item(&self.loop.ready, self)
            self.loop.release(self)
            self.inserted = False
        return self

    cdef int run_next(self, Thread state, bint stays) except -1:
        running(state)                              # refuses if it may not switch
        if self.state == NEW:
            self.enter(state.loop)
        elif self.why == PAUSED or self.why == IN_RUN:
            self.why = NULL
        return run_now(state, self, stays)

    def run(self):
        """Run the tasklet now. The current tasklet moves to the end of the run queue, followed by the
        tasklets before this one. A tasklet of another thread runs next in that thread. Return the `tempval`
        of the current tasklet."""
        cdef Thread state = here()
        self.check("run")
        if self.loop is not state.loop:
            if self.state == RUNNING:
                return None
            if self.is_scheduled():
                remove_item(&self.loop.ready, self)
            else:
                self.make_ready()
            self.loop.push_first(self)
            return None
        if state.loop.current is not self:
            self.run_next(state, True)
        return take_tempval(state.loop.current)

    def switch(self):
        """Run the tasklet now, and pause the current one. Raise RuntimeError if it belongs to another thread.
        Return the `tempval` of the current tasklet."""
        cdef Thread state = here()
        self.check("run")
        if self.loop is not state.loop:
            raise RuntimeError("can't switch to a different thread.")
        if state.loop.current is not self:
            self.run_next(state, False)
        return take_tempval(state.loop.current)

    # -- ending it

    @cython.embedsignature(False)
    def kill(self, pending=False, *excess, exception=TaskletExit, block=True, timeout=None):
        """kill($self, pending=False, *, exception=..., block=True, timeout=None)\n--\n\n\
        Raise TaskletExit in the tasklet, now or when its turn comes (`pending`). Nothing happens if the
        tasklet is dead."""
        at_most("kill", 1, excess)
        if isinstance(pending, (type, BaseException)) or (
            (self.spawned or self.is_main) and not isinstance(pending, bool)
        ):
            exception, pending = pending, False                 # as syncless.Tasklet has it
        if self.spawned or self.is_main:
            if not self.spawned and self.loop is not get_loop():
                block = False                   # Stackless does not wait for another thread
            return Tasklet.kill(self, exception, block and not pending, timeout)
        if self.has_no_thread():
            _function, _args, _kwargs = self.function, self.args, self.kwargs   # dropped when all is done
            self.state = DONE
            self.ready_to_run = False
            self.function = self.args = self.kwargs = None
            return
        self.throw(exception, None, None, pending)

    @cython.embedsignature(False)
    def raise_exception(self, exc_class=ABSENT, *args):
        """raise_exception($self, exc_class, *args)\n--\n\n\
        Raise exc_class(*args) in the tasklet now."""
        if exc_class is ABSENT:
            required("raise_exception", "exc_class")
        if not (isinstance(exc_class, type) and issubclass(exc_class, BaseException)):
            raise TypeError("raise_exception() needs an exception class")
        self.throw(exc_class, args or None)

    @cython.embedsignature(False)
    def throw(self, exc=ABSENT, val=None, tb=None, pending=False, *excess):
        """throw($self, exc, val=None, tb=None, pending=False)\n--\n\n\
        Raise the exception in the tasklet, now or when its turn comes (`pending`). Raise RuntimeError if
        the tasklet is dead, unless the exception is TaskletExit. A tasklet running in another thread gets
        the exception when it next waits."""
        cdef Thread state = here()
        cdef BaseException exception
        at_most("throw", 4, excess)
        if exc is ABSENT:
            required("throw", "exc")
        exception = exception_of(exc, val, tb)
        if self.has_no_thread():
            raise RuntimeError("tasklet has no thread: its thread has ended")
        if not self.is_alive():
            if isinstance(exception, TaskletExit):
                return
            raise RuntimeError("You cannot throw to a dead tasklet")
        if self.state == RUNNING and self.loop is state.loop:
            raise exception
        if not pending and self.loop is not state.loop and self.state != NEW:
            self.loop.throw(self, exception)
            return
        if not pending and self.loop is state.loop:
            running(state)                      # refuses if it may not switch
        keep_pending(self, exception, False)
        if pending:
            if self.state == PARKED:
                self.make_ready()
                (<Loop> self.loop).push(self)
            elif self.state == NEW and not self.inserted:
                self.insert()
        elif self.loop is state.loop:
            self.run_next(state, True)
        else:
            self.insert()

    @cython.embedsignature(False)
    def bind_thread(self, thread_id=None, *excess):
        """bind_thread($self, thread_id=None)\n--\n\n\
        Move a tasklet that has not started to another thread, by default this one. Raise RuntimeError if
        the tasklet is in a run queue or has started, ValueError if there is no such thread."""
        cdef Loop loop = here().loop
        at_most("bind_thread", 1, excess)
        thread_id = number_of_thread(thread_id)
        if thread_id == -1 and self.loop is loop:
            return
        if thread_id != -1:
            try:
                loop = loop_of(thread_id)
            except LookupError as error:
                raise ValueError(f"bad thread: {error}") from None
        # no Python code from here on, in which another thread could insert it
        if self.is_scheduled() and not self.is_blocked():
            raise RuntimeError("can't (re)bind a runnable tasklet")
        if self.state not in (NEW, DONE) or self.carrier != NULL:
            raise RuntimeError(HAS_C_STATE)
        self.loop = loop

    # -- pickling

    def __reduce__(self):
        """Its function, arguments and flags, without its place in a run queue. Only before it starts or after
        it has ended."""
        if self.state == RUNNING:
            raise RuntimeError("You cannot __reduce__ the tasklet which is current.")
        if not self.restorable:
            raise TypeError(
                "a tasklet that has started cannot be pickled: it is a greenlet, whose frames stay in place")
        # as many items as in Stackless: a tasklet that has not started handles no exception
        return type(self), (), (
            self.flags(), self.tempval, getattr(self, "__dict__", None),
            (None if self.state == DONE else self.function, self.args if self.ready_to_run else None,
                self.kwargs),
            None, None, None, None)

    def __setstate__(self, state):
        flags, tempval, attributes, (function, args, kwargs), *_ = state
        if function is not None:
            self.bind(function, args, kwargs)
        self.set_flags(flags)
        self.tempval = tempval
        if attributes:
            vars(self).update(attributes)


cdef object take_tempval(BaseTasklet one):
    value = None
    if isinstance(one, tasklet):
        value, (<tasklet> one).tempval = (<tasklet> one).tempval, None
    return value


def _spawn(function, *args, **kwargs):
    """Make the tasklets of syncless.spawn() once this module is imported."""
    cdef tasklet made = tasklet.__new__(tasklet)
    if not callable(function):
        raise TypeError(f"a tasklet needs a function to run, not {type(function).__name__}")
    made.function = function
    made.spawned = True
    made.give(args, kwargs)
    if get_loop().closed:
        refuse_spawn()
    made.enter(get_loop())
    made.loop.push(made)
    return made


scheduler.main_type = tasklet
scheduler.new_tasklet = _spawn
if scheduler.DEBUG_BUILD:
    scheduler.explorer.keeps_order = True


cdef class Preemption(BytecodeLimit):
    """Of one call of run(). Hard: the tasklet is paused where the interpreter would let another thread run,
    and run() returns it. Soft: run() goes on at its next switch."""
    cdef Thread state
    cdef BaseTasklet runner
    cdef bint soft

    cdef int exceeded(self, BaseTasklet present) except -1:
        if present is self.runner or self.state.switch_trap or (
            isinstance(present, tasklet) and (<tasklet> present).atomic
        ):
            return 0                            # asked again before its next bytecode
        if not self.soft and not interpreter_checks():
            return 0                            # `one.count += 1` is done whole
        if not end_run(self.state, self.runner):
            return 0                            # it is over already, or another run() within it is not
        self.left = self.limit
        if self.soft:
            return 0
        self.state.interrupted = present
        pause(self.state, present, PAUSED, None)
        return 0


cdef BytecodeLimit preemption(Thread state, BaseTasklet runner, timeout, bint soft, bint in_all):
    made = Preemption(timeout, in_all)
    made.state, made.runner, made.soft = state, runner, soft
    return made


@cython.embedsignature(False)
def schedule(retval=ABSENT, *excess):
    """schedule(retval=...)\n--\n\n\
    Let the other ready tasklets run once. Return `retval`, or else the current tasklet."""
    cdef Thread state = here()
    at_most("schedule", 1, excess)
    cdef BaseTasklet me = running(state)
    hold(me, retval)
    me.state = READY
    state.loop.push(me)
    pass_turn(state.loop, me)
    return held(me, retval)


@cython.embedsignature(False)
def schedule_remove(retval=ABSENT, *excess):
    """schedule_remove(retval=...)\n--\n\n\
    Pause the current tasklet until it is inserted again; otherwise like schedule()."""
    cdef Thread state = here()
    at_most("schedule_remove", 1, excess)
    cdef BaseTasklet me = running(state)
    hold(me, retval)
    leave(state, me, False)
    return held(me, retval)


cdef inline void hold(BaseTasklet me, object retval) noexcept:
    """Others may change it meanwhile."""
    if isinstance(me, tasklet):
        (<tasklet> me).tempval = me if retval is ABSENT else retval


cdef inline object held(BaseTasklet me, object retval):
    if not isinstance(me, tasklet):
        return me if retval is ABSENT else retval
    retval, (<tasklet> me).tempval = (<tasklet> me).tempval, None
    return retval


@cython.embedsignature(False)
def run(timeout=0, threadblock=False, soft=False, ignore_nesting=False, totaltimeout=False, *excess):
    """run(timeout=0, threadblock=False, soft=False, ignore_nesting=False, totaltimeout=False)\n--\n\n\
    Run the other tasklets until none is ready and none waits for I/O or a time. Raise any exception that
    no tasklet has caught.

    `timeout`: pause and return a tasklet that runs more bytecodes than this in one turn, at its next call,
    backward jump or function entry; with `soft`, run() ends at the next switch instead, and returns None.
    `totaltimeout`: count the bytecodes of all turns together. `threadblock`: while tasklets wait for
    channels, wait for another thread that may meet them. `ignore_nesting` has no effect: a tasklet can be
    interrupted at any depth. A nested run() has no timeout of its own; the outer one applies.
    """
    cdef Thread state = here()
    cdef BaseTasklet me = running(state)
    cdef BytecodeLimit limit = None
    at_most("run", 5, excess)
    if timeout and state.runners[0] is None:
        limit = preemption(state, me, timeout, soft, totaltimeout)
        limit.start()                       # RuntimeError if a debugger traces
        state.runners[0] = me
    state.runners.append(me)
    state.awaits_threads += bool(threadblock)
    try:
        pause(state, me, IN_RUN, None)
    finally:
        if limit is not None:
            limit.stop()
            state.runners[0] = None
        state.awaits_threads -= bool(threadblock)
        leave_run(state, me)
        interrupted, state.interrupted = state.interrupted, None
    return interrupted


def getcurrent():
    """Return the running tasklet."""
    return here().loop.current


def getmain():
    """Return this thread's main tasklet."""
    return here().loop.main


def getruncount():
    """Return the number of tasklets in the run queue, including the running one."""
    return len(run_queue(here().loop))


def getcurrentid():
    """Return a number that identifies the running tasklet."""
    return id(here().loop.current)


class _ThreadNotFound(RuntimeError, ValueError):
    """A RuntimeError like all errors here, and a ValueError because an argument is wrong."""


@cython.embedsignature(False)
def get_thread_info(thread_id=None, flags=0, *excess):
    """get_thread_info(thread_id=None, flags=0)\n--\n\n\
    Return (main tasklet, current tasklet, run count) of a thread, by default this one. Raise RuntimeError,
    which is also a ValueError, if there is no such thread.

    Bit 30 of `flags` adds three figures about Stackless's C stacks, which do not exist here: always 0, 0 and
    None. Bit 31 adds a list: the tasklet whose run() has a timeout, or None, followed by all tasklets in
    run(). The list stays up to date, and must not be changed.
    """
    cdef Thread state = here()
    at_most("get_thread_info", 2, excess)
    thread_id = number_of_thread(thread_id)
    if thread_id != -1 and thread_id != state.loop.thread_id:
        if thread_id not in threads:
            raise _ThreadNotFound("Thread id not found")
        state = threads[thread_id]
    info = state.loop.main, state.loop.current, len(run_queue(state.loop))
    if flags & 1 << 30:
        info += 0, 0, None
    if flags & 1 << 31:
        info += state.runners,
    return info


def getthreads():
    """Return the ids of the threads that have tasklets, this one first."""
    mine = here().loop.thread_id
    other_threads(None)
    return [mine, *(each for each in threads if each != mine)]


def switch_trap(delta=0):
    """Add `delta` to a counter: while the counter is not 0, a switch raises RuntimeError. Return its previous
    value."""
    cdef Thread state = here()
    before = state.switch_trap
    state.switch_trap += delta
    return before


class atomic:
    """A context manager, ``with atomic():``, in which the tasklet must not be preempted."""

    def __enter__(self):
        self._tasklet = getcurrent()
        if self._tasklet is not None:  # a callback of the loop belongs to no tasklet, and is not preempted
            self._before = self._tasklet.set_atomic(True)

    def __exit__(self, *error):
        if self._tasklet is not None:
            self._tasklet.set_atomic(self._before)


def getdebug():
    """Return False: this is not a debugging build of Stackless's interpreter."""
    return False


def getuncollectables():
    """Return the objects that Stackless could not free: always an empty list."""
    return []


def enable_softswitch(flag):
    """Return False: greenlets always switch on the C stack."""
    return False
