"""The part of an asyncio loop with which programs ask for calls: soon, later, or when a descriptor is ready;
and run_forever(), which makes them.

Takes callbacks. Gives handles. How they are called is told in dispatcher.pyx: a watched
descriptor's callback is given to the dispatcher whenever the engine says that the descriptor is ready.

FirstStep makes the first step of a coroutine at once, as a step of an asyncio task. Takes a coroutine. Gives
its task, which the loop goes on with, or None if there is nothing more to do. Knows nothing of requests.

asyncio makes a task's first step in the loop's next round. A request's coroutine mostly ends in it, so it is
made in the tasklet of the request: no turn of the loop, and no other callback, comes between.

Fact: making a task, listing it and dropping it costs more instructions than a small application, which ends
in its first step and mostly does not ask for its task. Decision: asyncio.current_task() and all_tasks() give
a task that has not begun, and whose coroutine is the one that runs. If that waits, the task takes over
(Relay). If it has ended, the task is as if nothing had been, and serves the next one. Danger: somebody still
has the task, has cancelled it, named it, or waits for its end. So it is compared to the last byte with what
it was before, and its context must be empty; else it comes to its end as any task. asyncio's dict of current
tasks and its set of all tasks are written to directly, because a call of its functions costs several times as
much. Price: the places of two fields of a task (layouts.pyx). Guarded by tests/asgi/test_firststep.py.
"""

import _asyncio
from asyncio import Task
from asyncio.tasks import _enter_task as enter_task
from asyncio.tasks import _leave_task as leave_task
from asyncio.tasks import _register_task as register_task
from asyncio.tasks import _unregister_task as unregister_task
from selectors import _fileobj_to_fd as number_of
import threading

from cpython.contextvars cimport PyContext_Enter, PyContext_Exit
from cpython.object cimport PyObject, PyObject_Size
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memcmp, memcpy

from syncless._core.clock cimport monotonic_ns
from syncless._core.cpython.compat cimport raised
from syncless._core.cpython.layouts cimport coroutine_at, must_cancel_at, must_cancel_bit, require
from syncless._core.cpython.threadlocal cimport keep_locals, locals_used
from syncless._core.cpython.tracing cimport UNKNOWN_HOOKS, begin_settings, traced_here
from syncless._core.loop cimport Loop
from syncless._core.poll.now cimport is_ready
from syncless._core.poll.poller cimport READ, WRITE
from syncless._core.scheduler cimport BaseTasklet
from syncless._core.threadloop cimport get_loop, peek_loop
from syncless.asyncio.dispatcher cimport Dispatcher, Handle, Runner, TimerHandle, keep_for

from syncless._core.cpython.layouts import UnknownLayout
from syncless.tools.runningloop import current_tasks, listing_of


cdef class ReadyHandle(Handle):
    """Called whenever its descriptor is ready.

    A descriptor is reported when it becomes ready, but asyncio promises a call for as long as it is. So it is
    looked at after each call.
    """

    cdef int done(self) except -1:
        self.under_way = False
        if self.is_cancelled:
            return 0
        return self.descriptor.look(self.bit)


cdef class Descriptor(Watcher):
    """A descriptor that add_reader() or add_writer() watches."""

    cdef int on_ready(self, Loop engine, int bits) except -1:
        if bits & READ and self.reader is not None:
            self.due(self.reader)
        if bits & WRITE and self.writer is not None:
            self.due(self.writer)
        return 0

    cdef int due(self, ReadyHandle handle) except -1:
        if not handle.under_way:                # else it is looked at once more when that call is over
            handle.under_way = True
            self.descriptors.dispatcher.append(handle)
        return 0

    cdef int look(self, int bits) except -1:
        """The loop runs: its handle is called if it is ready, and when it will be."""
        cdef Loop engine = self.descriptors.dispatcher.engine
        if engine is None:
            return 0
        if is_ready(self.fd, bits):
            return self.due(self.reader if bits & READ else self.writer)
        if engine.fds.entry(self.fd).watcher == <PyObject*> self:
            engine.fds.arm(self.fd, bits)           # for a poller whose every report is the last one
        return 0

    cdef int awaited(self) noexcept:
        """Return the directions that have a handle."""
        return (READ if self.reader is not None else 0) | (WRITE if self.writer is not None else 0)

    cdef int arm(self) except -1:
        """From now on its events come here. The number may have been another descriptor's before."""
        cdef Loop engine = self.descriptors.dispatcher.engine
        if engine is not None:
            engine.fds.arm_for_wait(self.fd, self.awaited())
            engine.fds.entry(self.fd).watcher = <PyObject*> self
        return 0

    cdef int leave_engine(self, Loop engine) except -1:
        """No event comes here any more."""
        if engine.fds.entry(self.fd).watcher == <PyObject*> self:
            engine.fds.entry(self.fd).watcher = NULL
            engine.fds.disarm_after_wait(self.fd)
        return 0


cdef class Descriptors:
    """Those of one loop."""

    def __init__(self, Dispatcher dispatcher):
        self.dispatcher = dispatcher
        self.by_number = {}

    cdef int follow(self, object number, ReadyHandle handle) except -1:
        """The handle is called from now on, instead of the last one for this direction."""
        cdef Descriptor descriptor = self.by_number.get(number)
        cdef ReadyHandle before
        if descriptor is None:
            descriptor = Descriptor.__new__(Descriptor)
            descriptor.descriptors = self
            descriptor.fd = number
        handle.descriptor = descriptor
        if handle.bit == READ:
            before, descriptor.reader = descriptor.reader, handle
        else:
            before, descriptor.writer = descriptor.writer, handle
        if before is not None:
            before.cancel()
        descriptor.arm()                            # raises for a descriptor that cannot be waited for
        self.by_number[number] = descriptor
        return 0

    cdef bint leave(self, object number, int bit) except -1:
        """Return whether a handle was called for this direction; it is not any more."""
        cdef Descriptor descriptor = self.by_number.get(number)
        cdef ReadyHandle handle
        if descriptor is None:
            return False
        if bit == READ:
            handle, descriptor.reader = descriptor.reader, None
        else:
            handle, descriptor.writer = descriptor.writer, None
        if descriptor.reader is None and descriptor.writer is None:
            del self.by_number[number]
            if self.dispatcher.engine is not None:
                descriptor.leave_engine(self.dispatcher.engine)
        if handle is None:
            return False
        handle.cancel()
        return True

    cdef int join_engine(self) except -1:
        """The loop runs from now on."""
        for descriptor in self.by_number.values():
            (<Descriptor> descriptor).arm()
        return 0

    cdef int leave_engine(self, Loop engine) except -1:
        """The loop has stopped. Events that come meanwhile are found when it runs again."""
        for descriptor in self.by_number.values():
            (<Descriptor> descriptor).leave_engine(engine)
        return 0


cdef class Callbacks:
    """The base of EventLoop."""

    def __cinit__(self, *args, **kwargs):
        self.dispatcher = Dispatcher(self)
        self.descriptors = Descriptors(self.dispatcher)

    # -- soon, and later -------------------------------------------------------------------------------------

    def call_soon(self, callback, *args, context=None):
        """Call callback(*args) in the loop's next round, in the given context or a copy of the current one.
        Return a handle."""
        cdef Handle handle = Handle.__new__(Handle)
        handle.fill(self.dispatcher, callback, args, context)
        if self.dispatcher.debug:
            self._check_thread()
            handle.look_at("call_soon")
        self.dispatcher.append(handle)
        return handle

    def call_soon_threadsafe(self, callback, *args, context=None):
        """Like call_soon(), but callable from any thread or signal handler."""
        cdef Handle handle = Handle.__new__(Handle)
        handle.fill(self.dispatcher, callback, args, context)
        if self.dispatcher.debug:
            handle.look_at("call_soon_threadsafe")
        self.dispatcher.append(handle)
        return handle

    def call_later(self, delay, callback, *args, context=None):
        """Call callback(*args) after `delay` seconds. Return a handle."""
        if delay is None:
            raise TypeError("delay must not be None")
        return self._call_at(self.time() + delay, callback, args, context, "call_later")

    def call_at(self, when, callback, *args, context=None):
        """Call callback(*args) when loop.time() is `when`, in seconds. Return a handle."""
        if when is None:
            raise TypeError("when cannot be None")
        return self._call_at(when, callback, args, context, "call_at")

    def _call_at(self, double when, callback, tuple args, context, method):
        cdef TimerHandle handle = TimerHandle.__new__(TimerHandle)
        handle.fill(self.dispatcher, callback, args, context)
        if self.dispatcher.debug:
            self._check_thread()
            handle.look_at(method)
        handle.moment = when
        self.dispatcher.add_timer(handle)
        return handle

    def time(self):
        """Return the time of the monotonic clock in seconds."""
        return monotonic_ns() / 1e9

    # -- when a descriptor is ready --------------------------------------------------------------------------

    def _add_reader(self, fd, callback, *args, context=None):
        return self._follow(fd, READ, callback, args, context)

    def _add_writer(self, fd, callback, *args, context=None):
        return self._follow(fd, WRITE, callback, args, context)

    def _remove_reader(self, fd):
        return not self.dispatcher.closed and self.descriptors.leave(number_of(fd), READ)

    def _remove_writer(self, fd):
        return not self.dispatcher.closed and self.descriptors.leave(number_of(fd), WRITE)

    def _follow(self, fd, int bit, callback, tuple args, context):
        cdef ReadyHandle handle = ReadyHandle.__new__(ReadyHandle)
        handle.bit = bit
        handle.fill(self.dispatcher, callback, args, context)
        if self.dispatcher.debug:
            handle.look_at("add_reader" if bit == READ else "add_writer")
        number = number_of(fd)
        try:
            self.descriptors.follow(number, handle)
        except BaseException:
            self.descriptors.leave(number, bit)
            raise
        return handle

    # -- running ---------------------------------------------------------------------------------------------

    def run_forever(self):
        """Run the loop until stop(). The calling tasklet waits; all others continue."""
        cdef Loop engine = get_loop()
        cdef Dispatcher dispatcher = self.dispatcher
        self._check_closed()
        self._check_running()
        if engine.current is None:
            raise RuntimeError(
                "an asyncio loop cannot run in a callback of the engine: spawn a tasklet for it")
        self._set_coroutine_origin_tracking(dispatcher.debug)
        self._thread_id = threading.get_ident()
        dispatcher.first_hook = self._asyncgen_firstiter_hook
        dispatcher.last_hook = self._asyncgen_finalizer_hook
        try:
            dispatcher.begin_run(engine)
            self.descriptors.join_engine()
            dispatcher.wait_for_end()
        finally:
            dispatcher.end_run(None)
            self.descriptors.leave_engine(engine)
            self._thread_id = None
            self._set_coroutine_origin_tracking(False)
        if dispatcher.failure is not None:
            failure, dispatcher.failure = dispatcher.failure, None
            raise failure

    def stop(self):
        """Make run_forever() return after the callbacks that are due now."""
        self.dispatcher.stop()

    def _is_this_threads(self):
        """Return whether it runs on the calling thread's engine."""
        return self.dispatcher.engine is not None and self.dispatcher.engine is peek_loop()

    def _forked(self):
        """In the child of a fork: the loop does not run, and may be run anew."""
        self.dispatcher.forked()
        self._thread_id = None

    def _ended(self):
        """close(): nothing is called any more."""
        self.dispatcher.close()
        self.descriptors.by_number.clear()

    # -- how it behaves --------------------------------------------------------------------------------------

    @property
    def blocking(self):
        """The other callbacks while one of them waits in a call: "park" (they go on), "warn" (they go on, and
        each line of the program that waits so is logged once) or "block" (they wait, too, as in any other
        asyncio loop; tasklets go on)."""
        return "block" if self.dispatcher.blocks else "warn" if self.dispatcher.warns else "park"

    @blocking.setter
    def blocking(self, value):
        if value not in ("park", "warn", "block"):
            raise ValueError(f"blocking must be 'park', 'warn' or 'block', not {value!r}")
        self.dispatcher.blocks = value == "block"
        self.dispatcher.warns = value == "warn"
        self.dispatcher.told = set()

    def set_debug(self, enabled):
        """Set the debug mode, in which each call is checked, and handles record where they were created."""
        self.dispatcher.debug = enabled
        super().set_debug(enabled)

    def get_debug(self):
        """Return whether debug mode is on. Each future and each task calls this."""
        return self.dispatcher.debug

    def set_task_factory(self, factory):
        """Create tasks with factory(loop, coroutine), or with asyncio.Task if the factory is None."""
        super().set_task_factory(factory)
        self.dispatcher.task_factory = factory

    def _check_thread(self):
        if self.dispatcher.engine is not None and get_loop() is not self.dispatcher.engine:
            raise RuntimeError(
                "Non-thread-safe operation invoked on an event loop other than the current one")


# -- the first step of a coroutine -----------------------------------------------------------------------

cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT
    PySendResult PyIter_Send(PyObject* iterator, PyObject* value, PyObject** result) noexcept
    bint PyCoro_CheckExact(object one)
    Py_ssize_t Py_REFCNT(PyObject* one)

cdef object new_task = Task
cdef dict tasks_now = current_tasks()
cdef Py_ssize_t task_size = Task.__basicsize__
# Stands for a runner while a task is made: no other one is called for its first step.
cdef Runner nobody = Runner.__new__(Runner)
cdef bint is_known = False              # how tasks are laid out

try:
    require("tasks of asyncio")
    is_known = Task is _asyncio.Task
except UnknownLayout:
    pass


cdef int set_coroutine(object task, object coroutine) except -1:
    cdef PyObject** place = <PyObject**> (<char*> <PyObject*> task + coroutine_at)
    cdef PyObject* before = place[0]
    Py_INCREF(coroutine)
    place[0] = <PyObject*> coroutine
    Py_DECREF(<object> before)
    return 0


cdef class Relay:
    """The coroutine of a task for the one step that its real coroutine has made already."""

    def __await__(self):
        return self

    def send(self, value):
        set_coroutine(self.task, self.coroutine)
        (<unsigned char*> <PyObject*> self.task)[must_cancel_at] |= self.cancelled
        if self.error is not None:
            raise self.error
        if self.waits:
            return self.result
        raise StopIteration(self.result)

    def throw(self, kind, value=None, trace=None):
        raise kind if value is None else value

    def close(self):
        pass


cdef Relay idle = Relay.__new__(Relay)


cdef class FirstStep:
    def __init__(self, Dispatcher dispatcher not None):
        self.dispatcher = dispatcher

    cdef object begin(self, object coroutine):
        """Make the first step of the coroutine. Return its task, or None if it has returned; raise what it
        raises. The caller has made asyncio's notes (Dispatcher.enter).

        A task factory of the program decides itself when it makes the first step. A loop that is to tell
        which steps wait, or to wait with them, makes all steps itself.
        """
        cdef Dispatcher dispatcher = self.dispatcher
        cdef PyObject* result = NULL
        cdef PySendResult outcome
        cdef Relay relay
        cdef Handle step
        if dispatcher.task_factory is not None or dispatcher.warns or dispatcher.blocks or dispatcher.debug:
            return with_locals(dispatcher.loop.create_task(coroutine))
        if not is_known or not PyCoro_CheckExact(coroutine):
            self.make(coroutine)
            return self.make_step()
        if self.task is None:
            self.make_spare()
        step = self.step
        set_coroutine(self.task, coroutine)
        self.list_task()
        if tasks_now is None or tasks_now.setdefault(dispatcher.loop, self.task) is not self.task:
            enter_task(dispatcher.loop, self.task)
        trace_anew()
        PyContext_Enter(step.context)
        outcome = PyIter_Send(<PyObject*> coroutine, <PyObject*> None, &result)
        error = raised() if outcome == PYGEN_ERROR else None
        PyContext_Exit(step.context)
        if tasks_now is None or tasks_now.pop(dispatcher.loop, None) is not self.task:
            leave_task(dispatcher.loop, self.task)
        if outcome != PYGEN_NEXT:
            self.unlist_task()
            set_coroutine(self.task, idle)
            if self.step is step and self.is_untouched():
                if error is not None:
                    raise error
                Py_DECREF(<object> result)
                return None
            self.list_task()
        relay = Relay.__new__(Relay)
        relay.coroutine = coroutine
        relay.waits = outcome == PYGEN_NEXT
        relay.error = error
        if result != NULL:
            relay.result = <object> result
            Py_DECREF(<object> result)
        return self.give_over(relay)

    cdef int make(self, object coroutine) except -1:
        """A task that has not begun, and whose first step is not due in the loop, but here.

        Fact: Python code that runs meanwhile, such as a finaliser or the handler of a signal, may yield.
        Danger: the runner, whose turn that may be, would find another one in its place and end, and be put
        back; no callback was ever called again. Decision: nothing waits or yields while a task is made.
        Guarded by tests/asgi/test_firststep.py::test_no_callback_is_called_while_a_task_is_made."""
        cdef Dispatcher dispatcher = self.dispatcher
        cdef Loop engine = get_loop()
        cdef BaseTasklet me = engine.current
        cdef Handle first = dispatcher.first, last = dispatcher.last, later, following
        cdef Runner runner = dispatcher.runner
        cdef Py_ssize_t count = dispatcher.count
        dispatcher.first = dispatcher.last = None
        dispatcher.count = 0
        dispatcher.runner = nobody
        engine.current, engine.still = None, me
        try:
            self.task = new_task(coroutine, loop=dispatcher.loop)
        finally:
            engine.current, engine.still = me, None
            self.step = dispatcher.first
            dispatcher.first = first
            dispatcher.last = last
            dispatcher.count = count
            dispatcher.runner = runner
        later = self.step.after
        self.step.after = None
        while later is not None:                    # callbacks that finalisers have added meanwhile
            following = later.after
            later.after = None
            dispatcher.append(later)
            later = following
        return 0

    cdef int make_spare(self) except -1:
        """A task for one coroutine after the other. Nobody hears of it before there is one."""
        self.make(idle)
        self.task._log_destroy_pending = False
        self.listed, self.entry = listing_of(self.task)
        self.unlist_task()
        memcpy(self.before, <PyObject*> self.task, task_size)
        return 0

    cdef int list_task(self) except -1:
        """From now on asyncio.all_tasks() has the task."""
        if self.listed is None:
            register_task(self.task)
        else:
            self.listed.add(self.entry)
        return 0

    cdef int unlist_task(self) except -1:
        if self.listed is None:
            unregister_task(self.task)
        else:
            self.listed.discard(self.entry)
        return 0

    cdef bint is_untouched(self) except -1:
        """No variable but that of slots_here() is set in its context, nobody has it or the task, and nobody
        has changed either."""
        cdef PyObject* context = <PyObject*> self.step.context
        return (
            Py_REFCNT(context) == 2 and PyObject_Size(<object> context) == 1
            and memcmp(self.before, <PyObject*> self.task, task_size) == 0)

    cdef object give_over(self, Relay relay):
        """The task makes the step that its coroutine has made already, and the loop makes the others."""
        cdef unsigned char* mark = <unsigned char*> <PyObject*> self.task + must_cancel_at
        relay.task = self.task
        relay.cancelled = mark[0] & must_cancel_bit
        mark[0] &= ~must_cancel_bit                 # or it would throw, instead of looking what it waits for
        set_coroutine(self.task, relay)
        self.task._log_destroy_pending = True
        self.listed = self.entry = None
        return self.make_step()

    cdef object make_step(self):
        """Make the first step of the task, and return the task."""
        cdef Handle step = self.step
        cdef PyObject* returned
        task, self.task, self.step = self.task, None, None
        trace_anew()
        PyContext_Enter(step.context)
        returned = step.invoke()
        if returned == NULL:
            raised()                                # the task keeps it
        else:
            Py_DECREF(<object> returned)
        PyContext_Exit(step.context)
        return with_locals(task)


cdef int trace_anew() except -1:
    """A tool that follows all threads takes the task for another one than the tasklet."""
    if traced_here():
        begin_settings(False, UNKNOWN_HOOKS)
    return 0


cdef object with_locals(object task):
    """A task that is not done takes the values in threading.local along from the tasklet of its first
    step."""
    if get_loop().current.locals.own and locals_used() and not task.done():
        keep_for(task, keep_locals())
    return task
