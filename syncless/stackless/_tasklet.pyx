"""Stackless Python's tasklets, which are those of syncless with another face."""

from cpython.contextvars cimport PyContext_CopyCurrent

from syncless._core cimport hooks
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport DONE, NEW, PARKED, READY, RUNNING, Scheduler, keep_pending
from syncless._core.tasklet cimport Tasklet, refuse_spawn
from syncless._core.threadloop cimport get_loop, loop_of
from syncless._core.wait.waitqueue cimport is_queued
from syncless.stackless._bomb cimport exception_of, tell_uncaught
from syncless.stackless._thread cimport (
    PAUSED, Thread, here, pause, refuse_switch, run_now, run_queue, running, take_out,
)
from syncless.stackless._tracing cimport TracedTasklet

from syncless._core.exits import TaskletExit


cdef class tasklet(TracedTasklet):
    """tasklet(func=None, args=None, kwargs=None)\n--\n\nA function that runs beside others. Calling it gives
    it arguments and inserts it."""

    def __cinit__(self, *args, **kwargs):
        self.ignore_nesting = False

    def __init__(self, func=None, args=None, kwargs=None):
        self.loop = here().loop
        if func is not None:
            self.bind(func, args, kwargs)
        elif args is not None or kwargs is not None:
            raise TypeError("tasklet() with arguments needs a callable")

    def __call__(self, *args, **kwargs):
        """Binds the arguments and inserts the tasklet at the end of the run queue. Returns it."""
        return self.setup(*args, **kwargs)

    def bind(self, func=None, args=None, kwargs=None):
        """The function that it runs; with `args` or `kwargs` it is alive, and paused. bind(None) unbinds.
        Returns the tasklet."""
        cdef Thread state = here()
        cdef bint gives = args is not None or kwargs is not None
        if func is not None and not callable(func):
            raise TypeError("tasklet function must be a callable")
        if gives:
            args = tuple(args) if args is not None else ()
            kwargs = dict(kwargs) if kwargs is not None else {}
        # no Python code from here on, in which another thread could insert it
        # dropped when all is done
        function, _result, _exception, _pending = self.function, self._result, self._exception, self.pending
        if self.is_alive():
            if self.state == RUNNING:
                raise RuntimeError("can't (re)bind the current tasklet")
            if self.is_scheduled():
                raise RuntimeError("tasklet is scheduled")
            if self.state != NEW:
                raise RuntimeError("tasklet is already bound to a frame")
        elif self.carrier != NULL:
            raise RuntimeError("can't (re)bind a tasklet that still waited when its thread ended")
        if func is None and gives:
            if function is None:
                raise TypeError("cannot bind arguments to an unbound tasklet")
            func = function
        if self.loop is None or self.loop.closed:
            self.loop = state.loop
        self.state = NEW
        self.function = func
        self.ready_to_run = self.inserted = False
        self._result = self._exception = self.pending = None
        if gives:
            self.give(args, kwargs)
        return self

    cdef int give(self, tuple args, dict kwargs) except -1:
        self.args = args
        self.kwargs = kwargs or None
        if self.context is None:
            self.context = PyContext_CopyCurrent()
        self.ready_to_run = True
        return 0

    def setup(self, *args, **kwargs):
        """Binds the arguments and inserts the tasklet. Returns it. RuntimeError if it is alive."""
        if self.is_alive():
            raise RuntimeError("tasklet is alive")
        if self.function is None or self.state == DONE:
            raise RuntimeError("cframe function must be a callable")
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
        self.tempval = self._result             # what it returned, for those who still have it
        if not self.spawned and self._exception is not None and not isinstance(self._exception, TaskletExit):
            raised, self._exception = self._exception, None
        Tasklet.finish(self, loop)
        if raised is not None:
            tell_uncaught(<Loop> loop, raised)
        return 0

    # -- what it is doing

    cdef bint is_alive(self) noexcept:
        if self.state == NEW:
            return self.ready_to_run and not self.loop.closed
        return self.state != DONE

    cdef bint is_blocked(self) noexcept:
        return self.state == PARKED and self.why != PAUSED

    cdef bint is_scheduled(self) noexcept:
        return self.inserted if self.state == NEW else self.state in (READY, RUNNING) or self.is_blocked()

    @property
    def alive(self):
        """It can still run."""
        return self.is_alive()

    @property
    def blocked(self):
        """It waits: for a channel, or for input or output, or a time."""
        return self.is_blocked()

    @property
    def scheduled(self):
        """It is in the run queue, or blocked."""
        return self.is_scheduled()

    @property
    def paused(self):
        """It is alive, and neither in the run queue nor blocked."""
        return self.is_alive() and not self.is_scheduled()

    @property
    def is_current(self):
        return self.loop is not None and self.loop.current is self

    @property
    def restorable(self):
        """Never: greenlets cannot be pickled."""
        return False

    @property
    def recursion_depth(self):
        return 0

    @property
    def nesting_level(self):
        return 0

    @property
    def thread_id(self):
        """Of the thread to which it belongs; -1 if that has ended."""
        if self.loop is None:                       # of a class that does not call tasklet.__init__()
            self.loop = here().loop
        return -1 if self.loop.closed else (<Loop> self.loop).thread_id

    @property
    def next(self):
        """Behind it in the run queue or the channel's queue; None if it is in neither."""
        return self.neighbour(1)

    @property
    def prev(self):
        return self.neighbour(-1)

    cdef object neighbour(self, int step):
        cdef list ring
        if is_queued(self):
            beside = self.place.after if step > 0 else self.place.before
            return <object> beside.owner if beside != NULL else None
        if self.loop is None or not self.is_scheduled() or self.is_blocked():
            return None
        ring = run_queue(<Loop> self.loop)
        return ring[(ring.index(self) + step + len(ring)) % len(ring)] if self in ring else None

    # -- running it

    cdef int check(self, str verb) except -1:
        if not self.is_alive():
            raise RuntimeError(f"You cannot {verb} an unbound(dead) tasklet")
        if self.is_blocked():
            raise RuntimeError(f"You cannot {verb} a blocked tasklet")
        return 0

    def insert(self):
        """Puts it at the end of its thread's run queue. RuntimeError if it is dead or blocked."""
        self.check("run")
        if self.is_scheduled():
            return
        if self.state == NEW:
            self.enter(self.loop)
        else:
            self.state = READY
            self.why = NULL
        self.loop.push(self)

    def remove(self):
        """Takes it out of its thread's run queue: it is paused. The running one stops here. RuntimeError if
        it is blocked."""
        cdef Thread state = here()
        if self.is_blocked():
            raise RuntimeError("You cannot remove a blocked tasklet.")
        if self.state == RUNNING:
            if self.loop is not state.loop:
                raise RuntimeError("You cannot remove a tasklet that runs in another thread")
            pause(state, self, PAUSED, None)
        elif self.state == READY:
            take_out(<Loop> self.loop, self)
            self.state = PARKED
            self.why = PAUSED
        elif self.inserted:
            take_out(<Loop> self.loop, self)
            self.loop.release(self)
            self.inserted = False
        return self

    cdef int run_next(self, Thread state, bint stays) except -1:
        if self.state == NEW:
            self.enter(state.loop)
        elif self.why == PAUSED:
            self.why = NULL
        return run_now(state, self, stays)

    def run(self):
        """Runs it now; the present tasklet goes to the end of the run queue, and what is before this one
        follows there. One of another thread is inserted there instead."""
        cdef Thread state = here()
        self.check("run")
        if self.loop is not state.loop:
            self.insert()
        elif state.loop.current is not self:
            self.run_next(state, True)

    def switch(self):
        """Runs it now; the present tasklet is paused. RuntimeError if it belongs to another thread."""
        cdef Thread state = here()
        self.check("run")
        if self.loop is not state.loop:
            raise RuntimeError("Can't switch to a tasklet of a different thread")
        if state.loop.current is not self:
            self.run_next(state, False)

    # -- ending it

    def kill(self, pending=False, *, exception=TaskletExit, block=True, timeout=None):
        """Raises TaskletExit in it, now, or when its turn comes (`pending`). Nothing happens if it is
        dead."""
        if isinstance(pending, (type, BaseException)) or (
            (self.spawned or self.is_main) and not isinstance(pending, bool)
        ):
            exception, pending = pending, False                 # as syncless.Tasklet has it
        if self.spawned or self.is_main:
            return Tasklet.kill(self, exception, block and not pending, timeout)
        self.throw(exception, None, None, pending)

    def raise_exception(self, exc_class, *args):
        """Raises exc_class(*args) in it, now."""
        if not (isinstance(exc_class, type) and issubclass(exc_class, BaseException)):
            raise TypeError("raise_exception() needs an exception class")
        self.throw(exc_class, args or None)

    def throw(self, exc=None, val=None, tb=None, pending=False):
        """Raises the exception in it, now, or when its turn comes (`pending`). RuntimeError if it is dead,
        except for TaskletExit. In one that runs in another thread it is raised when it next waits."""
        cdef Thread state = here()
        cdef BaseException exception = exception_of(exc, val, tb)
        if not self.is_alive():
            if isinstance(exception, TaskletExit):
                return
            raise RuntimeError("You cannot throw to a dead tasklet")
        if self.state == RUNNING and self.loop is state.loop:
            raise exception
        if self.state == NEW:
            if not pending and isinstance(exception, TaskletExit):
                if state.switch_trap:
                    refuse_switch(state)        # although it would not be one: it has not begun
                if self.inserted:
                    take_out(<Loop> self.loop, self)
                self._exception = exception
                self.finish(self.loop)
                return
        if not pending and self.loop is not state.loop and self.state != NEW:
            self.loop.throw(self, exception)
            return
        if not pending and self.loop is state.loop:
            running(state)                      # refuses if it may not switch
        keep_pending(self, exception, False)
        if pending:
            if self.state == PARKED:
                self.state = READY
                self.why = NULL
                (<Loop> self.loop).push(self)
            elif self.state == NEW and not self.inserted:
                self.insert()
        elif self.loop is state.loop:
            self.run_next(state, True)
        else:
            self.insert()

    # -- flags

    def set_atomic(self, flag):
        """A section in which it must not be preempted. Returns the flag's last value."""
        before, self.atomic = self.atomic, bool(flag)
        return before

    def set_ignore_nesting(self, flag):
        before, self.ignore_nesting = self.ignore_nesting, bool(flag)
        return before

    @property
    def context_id(self):
        return id(self.context)

    def set_context(self, context):
        """The contextvars.Context in which it will run. RuntimeError if it runs already. Returns the
        tasklet."""
        if self.state not in (NEW, DONE):
            raise RuntimeError("the context of a tasklet that has started cannot be changed")
        self.context = context
        return self

    def context_run(self, function, /, *args, **kwargs):
        """function(*args, **kwargs) in its context."""
        if self.state == RUNNING or self.context is None:
            return function(*args, **kwargs)
        return self.context.run(function, *args, **kwargs)

    def bind_thread(self, thread_id=None):
        """Lets a tasklet that has not started belong to another thread, by default this one. RuntimeError if
        it is in a run queue or has started; ValueError if there is no such thread."""
        cdef Loop loop = here().loop
        if thread_id is not None:
            if not isinstance(thread_id, int):
                raise TypeError(f"thread_id must be an int, not {type(thread_id).__name__}")
            if thread_id < 0:
                raise OverflowError("thread_id must not be negative")
            try:
                loop = loop_of(thread_id)
            except LookupError as error:
                raise ValueError(f"Thread id not found: {error}") from None
        # no Python code from here on, in which another thread could insert it
        if self.state not in (NEW, DONE) or self.carrier != NULL:
            raise RuntimeError(
                "can't (re)bind a tasklet that has started: greenlets cannot be moved to another thread")
        if self.inserted:
            raise RuntimeError("can't (re)bind a runnable tasklet")
        self.loop = loop

    def __reduce_ex__(self, protocol):
        raise TypeError("tasklets cannot be pickled: they run on greenlets, whose frames stay where they are")


def _spawn(function, *args, **kwargs):
    """Makes the tasklets of syncless.spawn() once this module is imported."""
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


hooks.main_type = tasklet
hooks.new_tasklet = _spawn
