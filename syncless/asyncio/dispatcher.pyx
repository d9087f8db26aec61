"""Callbacks that are due are called in rounds, in their order, each where it may park.

Takes handles, which are calls that a program has asked for, and those whose time has come. Gives calls. It
must not know how a program asks for them (callbacks.pyx), nor what a transport, a task or a resolver is
(eventloop.py).

One tasklet, the *runner*, calls one callback after the other, inline on the leader (scheduler.pyx). A
callback that never waits costs no tasklet of its own. When a callback waits in a call that parks, its runner
parks with it, another runner goes on with the next callback, and the first one ends when its callback does.
So a blocking call in a coroutine blocks its own task only.

Fact: a call that does not wait, such as recv() on a non-blocking socket, yields now and then. Danger:
transports count on nothing else of their loop running inside send(); two writes were mixed. Decision: a
runner that yields lets tasklets have a turn, but no other callback. Guarded by
tests/asyncio/test_callbacks.py::test_callback_that_gives_way_stays_ahead_of_the_next.

asyncio keeps notes per OS thread: which loop runs, which task is the current one, and the hooks for
asynchronous generators. They are made when a runner begins or goes on, and taken away when it ends or parks
(Runner.__call__), so tasklets that are no callbacks see none of them.

Under the patch, values in threading.local belong to a task. Fact: the steps of a task are made in several
tasklets, and tasklets have values of their own. Danger: at an await a task would lose its database
connection; and if all tasks shared one, two that wait in the midst of a query would use the same. Decision:
each task has values of its own, from its first step to its end. They are taken from the tasklet that makes a
step as soon as there are any, and lent to the one that makes the next. Price: a look for each step which
tells that there are none. Guarded by tests/patches/test_task_locals.py.
"""

from asyncio import Future, constants, current_task, events, format_helpers
import sys

from cpython.contextvars cimport PyContext_CopyCurrent, PyContext_Enter, PyContext_Exit, PyContext_New
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cython cimport final
from libc.stdint cimport int64_t

from syncless._core.clock cimport NEVER, monotonic_ns
from syncless._core.cpython.compat cimport raised, set_asyncgen_hooks
from syncless._core.cpython.threadlocal cimport (
    KeptLocals, exchange_kept, keep_locals, kept_count, locals_used,
)
from syncless._core.cpython.tracing cimport (
    UNKNOWN_HOOKS, KeptFunctions, begin_settings, begin_with, functions_now, is_traced, kept_functions,
)
from syncless._core.linked cimport Node, append as list_append, remove as list_remove
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport (
    NEW, PARKED, RUNNING, BaseTasklet, Scheduler, is_poll_due, main_of,
)
from syncless._core.tasklet cimport begin_anew
from syncless._core.threadloop cimport forks, get_loop
from syncless._core.timers cimport timer_init

from syncless._core.exits import TaskletExit, is_interrupt
from syncless.asyncio.reports import describe, tell_failure, tell_slow, tell_wait, waiting_site
from syncless.tools.runningloop import note_of_running_loop, swap_current_task

cdef extern from "Python.h":
    # NULL: an exception is set
    PyObject* PyObject_Call(PyObject* function, PyObject* args, PyObject* kwargs) noexcept

cdef int ORIGIN_DEPTH = constants.DEBUG_STACK_DEPTH
cdef double LATEST = 9e9            # s; timers beyond it would not fit into 64 bits of nanoseconds

cdef object call_site = format_helpers.extract_stack


cdef class Handle:
    """The result of call_soon() and its kin, as asyncio.Handle."""

    def cancel(self):
        """The callback is not called, if it has not been."""
        if not self.is_cancelled:
            self.is_cancelled = True
            if self.dispatcher.debug:
                self.source_traceback = None
            self.callback = self.args = None

    def cancelled(self):
        """Return whether cancel() was called."""
        return self.is_cancelled

    def get_context(self):
        """Return the context in which the callback is called."""
        return self.context

    cdef PyObject* invoke(self) noexcept:
        """Make the call, in the present context. A new reference; NULL: an exception is set."""
        return PyObject_Call(<PyObject*> self.callback, <PyObject*> self.args, NULL)

    cdef int tell(self, object error) except -1:
        """The call has raised."""
        tell_failure(self.dispatcher.loop, self, error)
        return 0

    cdef int done(self) except -1:
        """The call is over."""
        return 0

    @property
    def _callback(self):
        return self.callback

    @property
    def _args(self):
        return self.args

    @property
    def _loop(self):
        return self.dispatcher.loop

    @property
    def _cancelled(self):
        return self.is_cancelled

    @property
    def _source_traceback(self):
        return self.source_traceback

    cdef int fill(self, Calls dispatcher, object callback, tuple args, object context) except -1:
        if dispatcher.closed:
            raise RuntimeError("Event loop is closed")
        self.dispatcher = dispatcher
        self.callback = callback
        self.args = args
        self.context = PyContext_CopyCurrent() if context is None else context
        return 0

    def look_at(self, method):
        """In debug mode: is it a function, and where was it made?"""
        self.dispatcher.loop._check_callback(self.callback, method)
        try:
            self.source_traceback = call_site(sys._getframe(0))
        except ValueError:                          # no Python code runs: a task's step was called from here
            pass

    def _run(self):
        self.dispatcher.call(self)

    def __repr__(self):
        return describe(self)


cdef void timer_fires(void* owner) noexcept:
    cdef TimerHandle handle = <TimerHandle> owner
    list_remove(&handle.dispatcher.timers, &handle.place)
    handle.dispatcher.append(handle)
    Py_DECREF(handle)


cdef class TimerHandle(Handle):
    """The result of call_later() and call_at(), as asyncio.TimerHandle."""

    def __cinit__(self):
        timer_init(&self.timer, timer_fires, <void*> self)

    def when(self):
        """Return the time at which the callback is due, in seconds on the clock of loop.time()."""
        return self.moment

    def cancel(self):
        """The callback is not called, if it has not been."""
        if self.place.owner != NULL:
            list_remove(&self.dispatcher.timers, &self.place)
            if self.dispatcher.engine is not None:
                self.dispatcher.engine.timers.remove(&self.timer)
            Py_DECREF(self)
        Handle.cancel(self)

    def __lt__(self, TimerHandle other):
        return self.moment < other.moment


cdef class Calls:
    """The part of a loop that its handles know."""

    def __init__(self, loop):
        self.loop = loop

    cdef int append(self, Handle handle) except -1:
        """The callback is due. From any thread that holds the GIL."""
        raise NotImplementedError

    cdef int call(self, Handle handle) except -1:
        """Call it now. Its exceptions go to the loop's exception handler."""
        raise NotImplementedError

    cdef int add_timer(self, TimerHandle handle) except -1:
        """It is called at its moment, if the loop runs then, else when it runs again."""
        Py_INCREF(handle)                           # until it fires or is cancelled
        list_append(&self.timers, &handle.place, <PyObject*> handle)
        if self.engine is not None:
            self.set_timer(handle)
        return 0

    cdef int set_timer(self, TimerHandle handle) except -1:
        return self.engine.timers.add(
            &handle.timer, <int64_t> (min(max(handle.moment, 0.0), LATEST) * 1e9))

    cdef int close(self) except -1:
        """Nothing that is set is called any more, and nothing new is taken."""
        self.closed = True
        self.kept = None
        while self.timers.first != NULL:
            (<TimerHandle> self.timers.first.owner).cancel()
        return 0


cdef extern from "Python.h":
    # -1: an exception is set
    int unchecked_enter "PyContext_Enter" (PyObject* context) noexcept
    void PyErr_Clear()

cdef const char* RUNS = "callbacks of its asyncio loop"

cdef object note_running = note_of_running_loop(events)
cdef object swap_task = swap_current_task
cdef object task_now = current_task


cdef object task_of(Handle handle):
    """Return the task of which the callback is a step, or None."""
    owner = getattr(handle.callback, "__self__", None)
    return owner if isinstance(owner, Future) else None


# -- runners -------------------------------------------------------------------------------------------------


@final
cdef class Runner(Tasklet):
    """The tasklet in which callbacks are called."""

    def __cinit__(self):
        self.context = PyContext_New()

    cdef BaseTasklet acts_for(self):
        return self if self.thread is None else self.thread

    cdef object owner_of_locks(self):
        task = task_now(self.dispatcher.loop) if self.state == RUNNING else self.task
        return self if task is None else task

    cdef object step(self):
        return self.handle

    cdef PyObject* execute(self, Scheduler engine) noexcept:
        if unchecked_run_round(self.dispatcher, self) < 0:
            if engine.orphan is self:
                return NULL                         # the exception ends the process
            self.dispatcher.end_run(raised())           # a fault of the loop itself, or no memory
        Py_INCREF(None)
        return <PyObject*> None

    cdef int finish(self, Scheduler engine) except -1:
        self.switch_hook = self.thread = self.kept = self.functions = None
        Tasklet.finish(self, engine)
        self.dispatcher.spare = self
        return 0

    cdef str label(self):
        return "asyncio callbacks" if self.handle is None else repr(self.handle)

    def __call__(self, leaving):
        """The switch hook: others run in its place, or it goes on."""
        cdef Dispatcher dispatcher = self.dispatcher
        if leaving:
            self.task = swap_task(dispatcher.loop, None)
            if (dispatcher.warns or dispatcher.debug) and self.state == PARKED:
                self.site = waiting_site(self.waiting_for)
            dispatcher.leave()
            self.left = monotonic_ns()
            if dispatcher.runner is self and self.state == PARKED and not dispatcher.blocks:
                dispatcher.runner = None
                if dispatcher.count or dispatcher.stopping:
                    dispatcher.call_next()
        elif self.forks != forks:                   # in the child of a fork no loop of the parent runs
            swap_task(dispatcher.loop, self.task)
        else:
            self.away += monotonic_ns() - self.left
            if self.site is not None:
                self._note_wait((monotonic_ns() - self.left) / 1e9)
            dispatcher.enter(self.task)
            self.task = None

    def _note_wait(self, double seconds):
        """The program has waited for `seconds` at the site."""
        if self.waits is None:
            self.waits = {}
        _, before = self.waits.get(self.site, (None, 0.0))
        self.waits[self.site] = self.handle if self.task is None else self.task, before + seconds
        self.site = None


cdef class Dispatcher(Calls):
    """The callbacks of one loop that are due, and their runners."""

    # -- callbacks that are due ------------------------------------------------------------------------------

    cdef int append(self, Handle handle) except -1:
        """The callback is due. From any thread that holds the GIL."""
        if self.last is None:
            self.first = handle
        else:
            self.last.after = handle
        self.last = handle
        self.count += 1
        if self.runner is None:
            self.call_next()
        return 0

    cdef int call_next(self) except -1:
        """A runner gets in line for its turn, if the loop runs."""
        cdef Runner runner
        if self.engine is None or self.forks != forks:
            return 0
        runner = self.spare
        if runner is None:
            runner = Runner.__new__(Runner)
            runner.dispatcher = self
        else:
            self.spare = None
            begin_anew(runner)
        runner.thread = self.thread
        runner.forks = forks
        if self.engine is None:                     # it has ended while Python code ran
            return 0
        runner.state = NEW
        self.runner = runner
        self.engine.adopt(runner)
        return self.engine.push(runner)

    cdef int run_round(self, Runner me) except -1:
        """Call what was due when the round began, and go on with the next round, until a poll is due or a
        tasklet is ready. The rest is another turn's.

        Nothing is held on to across a call, which may park: another runner goes on meanwhile.
        """
        cdef Handle handle
        cdef PyObject* before
        if self.runner is not me or self.engine is None:
            return 0                                # the loop was stopped meanwhile
        if self.host.settings != NULL:
            begin_with(self.host.settings)
        self.enter(None)
        me.switch_hook = me
        if self.batch == 0:
            self.batch = self.count
        while self.batch:
            handle = self.first
            self.first = handle.after
            handle.after = None
            if self.first is None:
                self.last = None
            self.count -= 1
            self.batch -= 1
            if not handle.is_cancelled:
                me.handle = handle
                if kept_count and me.locals.own:
                    me.kept = lend_locals(self, task_of(handle))
                before = functions_now() if is_traced(me.loop.thread_state) else NULL
                if kept_functions:
                    me.functions = lend_functions(task_of(handle))
                if self.debug:
                    self.call_and_watch(me, handle)
                else:
                    self.call(handle)
                if me.functions is not None or (
                        is_traced(me.loop.thread_state) and functions_now() != before):
                    take_functions_back(task_of(handle), me.functions)
                    me.functions = None
                    self.trace_as_host()
                if me.forks != forks:
                    return self.end_child(handle)
                if me.pending is not None:
                    me.loop.drop_pending(me)        # thrown at this callback, and no other
                if me.kept is not None or me.locals.own and locals_used():
                    take_locals_back(self, task_of(handle), me.kept)
                    me.kept = None
                if me.waits is not None:
                    self.tell_of(me)
                me.handle = None
            handle.done()
            if self.runner is not me:
                self.leave()
                return 0
            if is_poll_due(&self.engine.clock):
                break
            if self.batch == 0 and not self.stopping and self.engine.ready.count == 0:
                self.batch = self.count
        me.switch_hook = None
        self.leave()
        self.runner = None
        if self.batch == 0 and self.stopping:
            return self.end_run(None)
        if self.count:
            return self.call_next()
        return 0

    cdef int trace_as_host(self) except -1:
        """The next callback begins as a new thread, or with the functions of the tasklet that runs the
        loop."""
        if not is_traced(get_loop().thread_state):
            begin_settings(False, UNKNOWN_HOOKS)
            if self.host is not None and self.host.settings != NULL:
                begin_with(self.host.settings)
        return 0

    cdef int call(self, Handle handle) except -1:
        """Call one callback. Its exceptions go to the loop's exception handler."""
        cdef object context = handle.context
        cdef PyObject* returned
        if unchecked_enter(<PyObject*> context) < 0:
            # Another callback waits in the same context. This one gets a copy.
            PyErr_Clear()
            context = context.copy()
            PyContext_Enter(context)
        returned = handle.invoke()
        if returned != NULL:
            Py_DECREF(<object> returned)
            PyContext_Exit(context)
            return 0
        error = raised()
        PyContext_Exit(context)
        return self.failed(handle, error)

    cdef int call_and_watch(self, Runner me, Handle handle) except -1:
        """As call(), in debug mode: tells of a callback that blocked all others. Time in which others ran is
        its own affair."""
        cdef int64_t began = monotonic_ns()
        me.away = 0
        callback = handle.callback
        self.call(handle)
        tell_slow(self.loop, handle, callback, (monotonic_ns() - began - me.away) / 1e9)
        return 0

    cdef int tell_of(self, Runner me) except -1:
        """Tells of waits in calls that block any other loop: with "warn" once of each line, in debug mode of
        each that took long."""
        waits, me.waits = me.waits, None
        for site, (task, seconds) in waits.items():
            if self.warns and site not in self.told:
                self.told.add(site)
                tell_wait(task, site, seconds)
            elif self.debug and seconds >= self.loop.slow_callback_duration:
                tell_wait(task, site, seconds)
        return 0

    cdef int failed(self, Handle handle, object error) except -1:
        cdef Loop engine = get_loop()
        if engine.orphan is not None and engine.orphan is engine.current:
            if task_of(handle) is None:
                raise error                         # the task has it
        elif isinstance(error, (KeyboardInterrupt, SystemExit)):
            if not self.loop.of_thread:
                self.end_run(error)
            elif task_of(handle) is None or is_interrupt(error):
                engine.throw(main_of(engine), error)    # a thread's loop goes on
        elif not isinstance(error, TaskletExit):
            handle.tell(error)
        return 0

    cdef int end_child(self, Handle handle) except -1:
        """The callback has forked and returned, and this is the child, where no loop runs: raises what ends
        the process. A task whose connection is the parent's has no fault."""
        task = task_of(handle)
        self.leave()
        if task is None:
            return 0
        if not task.done():
            raise RuntimeError("the child of a fork cannot await: its asyncio loop runs in the parent")
        try:
            task.result()
        except ConnectionError:
            pass
        return 0

    cdef int enter(self, object task) except -1:
        """Make asyncio's notes: this loop runs, and this is its current task."""
        note_running(self.loop)
        if task is not None:
            swap_task(self.loop, task)
        set_asyncgen_hooks(
            <PyObject*> self.first_hook, <PyObject*> self.last_hook, ORIGIN_DEPTH if self.debug else 0)
        return 0

    cdef int leave(self) except -1:
        """Take the notes away. No task is the current one."""
        set_asyncgen_hooks(NULL, NULL, 0)
        note_running(None)
        return 0

    # -- running ---------------------------------------------------------------------------------------------

    cdef int begin_run(self, Loop engine) except -1:
        """Callbacks are called from now on, while the current tasklet waits in wait_for_end()."""
        cdef Node* one
        self.engine = engine
        self.forks = forks
        self.host = engine.current
        self.thread = main_of(engine) if self.loop.of_thread else self.host
        self.failure = None
        self.batch = 0
        one = self.timers.first
        while one != NULL:
            self.set_timer(<TimerHandle> one.owner)
            one = one.after
        engine.clock.turns_left = 0                       # asyncio looks for events before it calls anything
        return self.call_next()

    cdef int wait_for_end(self) except -1:
        cdef Loop engine = self.engine
        while self.engine is not None:
            engine.park(RUNS, self.loop, NEVER)
        return 0

    cdef int end_run(self, object failure) except -1:
        """wait_for_end() is over. Callbacks that are parked go on all the same."""
        cdef Loop engine = self.engine
        cdef Node* one
        if engine is None:
            return 0
        self.engine = None
        self.runner = None                          # one in line finds that it is not
        self.stopping = False
        self.failure = failure
        one = self.timers.first
        while one != NULL:
            engine.timers.remove(&(<TimerHandle> one.owner).timer)
            one = one.after
        if self.host.why == RUNS:
            engine.wake(self.host, None)
        self.host = self.thread = None
        return 0

    cdef int forked(self) except -1:
        """In the child of a fork: the run is the parent's. A new run may call callbacks that are due or set
        here."""
        self.engine = self.runner = self.spare = self.host = self.thread = None
        self.batch = 0
        self.stopping = False
        return 0

    cdef int stop(self) except -1:
        """The run ends with the present round, or the next one if none is under way."""
        self.stopping = True
        if self.runner is None:
            self.call_next()
        return 0

    cdef int close(self) except -1:
        """Nothing that is due or set is called any more."""
        while self.first is not None:
            self.first = self.first.after
        self.last = None
        self.count = self.batch = 0
        return Calls.close(self)


ctypedef int (*RunRound)(Dispatcher self, Runner me) noexcept
cdef RunRound unchecked_run_round = <RunRound> Dispatcher.run_round


cdef str PLACE = "_syncless_locals"     # a task's attribute: it lives as long as the task


cdef KeptLocals lend_locals(Calls dispatcher, object task):
    """A callback is called: its values, if it has any, are in place until take_locals_back(). `task` is the
    one of which it is a step, or None: such callbacks hand theirs on, but not while one of them waits."""
    cdef KeptLocals kept = dispatcher.kept if task is None else getattr(task, PLACE, None)
    if kept is None or kept.lent:
        return None
    kept.lent = True
    exchange_kept(kept)
    return kept


cdef int take_locals_back(Calls dispatcher, object task, KeptLocals lent) except -1:
    """The callback has returned and has values, lent or new. They go if its task is done, which may run code
    of the program, and park."""
    if lent is None:
        lent = keep_locals()
    else:
        exchange_kept(lent)
        lent.lent = False
    note_running(dispatcher.loop)           # asyncio remembers where it is, and these values may go
    if task is not None:
        keep_for(task, lent)
    elif dispatcher.kept is None and not dispatcher.closed:
        dispatcher.kept = lent
    return 0


cdef int keep_for(object task, KeptLocals kept) except -1:
    """The task has these values while no step of it is made."""
    setattr(task, PLACE, None if task.done() else kept)
    return 0


# -- trace and profile functions of tasks --------------------------------------------------------------------
#
# A debugger that is called in one step of a task, and steps over an `await`, follows the task, and no other.

cdef str FUNCTIONS = "_syncless_functions"


cdef KeptFunctions lend_functions(object task):
    """A step of the task is made: its functions, if it has any of its own, are set until
    take_functions_back()."""
    cdef KeptFunctions kept = None if task is None else getattr(task, FUNCTIONS, None)
    if kept is not None:
        kept.exchange()
    return kept


cdef int take_functions_back(object task, KeptFunctions lent) except -1:
    """The callback has returned and has set functions, or they were lent."""
    if lent is None:
        lent = KeptFunctions()
    lent.exchange()
    if task is not None:
        setattr(task, FUNCTIONS, None if lent.is_empty() or task.done() else lent)
    return 0
