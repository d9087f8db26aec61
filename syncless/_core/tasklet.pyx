"""Tasklet: a function that runs beside others in one thread and yields whenever it waits. Built on
loop.pyx.

Also how tasklets come to be (spawn() and spawn_in(), and the main tasklet of each thread; the kinds that are
made are in scheduler.pyx, because Stackless has its own), and `local`, values of a tasklet's own. current.pyx
has the actions of a running one. Next to read: timeout.pyx.
"""

import sys
from types import GenericAlias
import weakref

from cpython.contextvars cimport PyContext_CopyCurrent, PyContext_Enter, PyContext_Exit
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from cython cimport final
from libc.stdint cimport int64_t, uintptr_t

from syncless._core cimport scheduler
from syncless._core.callbacks cimport drop_callback, with_callback
from syncless._core.clock cimport deadline_after, monotonic_ns
from syncless._core.cpython.compat cimport dict_version, raised
from syncless._core.cpython cimport threadlocal
from syncless._core.cpython.threadlocal cimport (
    Slots, drop_own, end_locals, separate, slot_of, slots_here, start_locals,
)
from syncless._core.cpython.tracing cimport (
    begin_settings, change_settings, drop_settings, has_settings, hooks_known, names_of_threading,
)
from syncless._core.current cimport wait_in
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport (
    DONE, NEW, RUNNING, BaseTasklet, Scheduler, main_of, next_pending, take_back,
)
from syncless._core.threadloop cimport end_process, get_loop, loop_of, peek_loop
from syncless._core.wait.waitqueue cimport wake_all

from syncless._core.cpython.functions import original_of
from syncless._core.cpython.tracing import report_waiting
from syncless._core.exits import TaskletExit, TaskletKilled, has_error_handler, tell_uncaught

cdef object current_frames = original_of(sys._current_frames)

cdef extern from "Python.h":
    # NULL: an exception is set
    PyObject* PyObject_Call(PyObject* function, PyObject* args, PyObject* kwargs) noexcept
    void PyErr_SetObject(object kind, object exception)
    PyObject* PyErr_Occurred()
    str PyUnicode_FromObject(object text)


class _Link:
    """A done callback for one of the two ends that a tasklet can come to; the same as its callback for those
    who take it back."""

    __slots__ = ("callback", "success")

    def __init__(self, callback, success):
        self.callback, self.success = callback, success

    def __call__(self, tasklet):
        if tasklet.successful() is self.success:
            self.callback(tasklet)

    def __eq__(self, other):
        return self.callback == other

    def __hash__(self):
        return hash(self.callback)


cdef str _states(int state):
    return ("new", "ready", "running", "waiting", "ended", "waiting", "waiting", "ready")[state]


cdef class Tasklet(BaseTasklet):
    """Tasklet(function, *args, **kwargs)\n--\n\nA function that runs concurrently with others. spawn()
    creates a tasklet, which starts when the current tasklet waits or ends.

    An exception that leaves the function is reported with its traceback and ends this tasklet only; result()
    raises it. KeyboardInterrupt and SystemExit are raised in the main tasklet instead.
    """

    def __cinit__(self, *args, **kwargs):
        pass

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)          # Tasklet[int], for annotations

    def __init__(self, function, *args, **kwargs):
        if self.loop is not None:
            raise RuntimeError("this tasklet has been started already")
        if not callable(function):
            raise TypeError(f"a tasklet needs a function to run, not {type(function).__name__}")
        self.function = function
        self.args = args
        self.kwargs = kwargs or None
        self.context = PyContext_CopyCurrent()
        self._start_in(get_loop())

    def _start_in(self, Loop loop):
        if loop.closed:
            refuse_spawn()
        loop.adopt(self)
        loop.push(self)

    # -- its life --------------------------------------------------------------------------------------------

    cdef int turn(self, Scheduler loop) except -1:
        return self.run_inline(loop) if self.state == NEW else 0        # else it was killed meanwhile

    @final
    cdef int run_inline(self, Scheduler loop) except -1:
        """At the base of a carrier: the life of a spawned tasklet, a request or a tasklet of Stackless, from
        its first turn to its end, waits included. The loop has adopted it. Little is on the stack meanwhile,
        see scheduler.pyx."""
        cdef PyObject* returned
        loop.current = self
        self.state = RUNNING
        self.switches += 1
        if dict_version(names_of_threading) != hooks_known:
            begin_traced(self)
        if loop.observers is not None:
            tell_beginning(loop, self)
        if separate:
            start_locals(&self.locals)
        PyContext_Enter(self.context)
        returned = self.execute(loop) if self.pending is None else raise_first(self)
        if returned == <PyObject*> None:
            Py_DECREF(None)
        else:
            keep_outcome(self, returned)
        if self.function is not None and self._exception is None:
            self.function, self.args, self.kwargs = Tasklet, None, None     # whose finalisers may wait here
        if has_settings(loop.thread_state):
            drop_settings(&self.settings)
        PyContext_Exit(self.context)
        if self.locals.own:
            end_locals(&self.locals)
        loop.current = None
        if loop.observers is not None:
            loop._tell_stop(self)
        return self.finish(loop)

    cdef PyObject* execute(self, Scheduler loop) noexcept:
        """Call its function. Return a new reference; NULL if it raises, and no line of this file is then in
        the traceback."""
        return PyObject_Call(
            <PyObject*> self.function, <PyObject*> self.args,
            NULL if self.kwargs is None else <PyObject*> self.kwargs)

    cdef int finish(self, Scheduler loop) except -1:
        """It has run, or will never run."""
        self.state = DONE
        loop.release(self)
        if self._exception is not None:
            self.failed(loop)
        if self.pending is not None:
            loop.drop_pending(self)
        if self.function is not None:
            self.function = self.args = self.kwargs = self.context = None
        if self.joiners.first != NULL or self.callbacks is not None:
            self.tell(loop)
        if loop.orphan is self:
            end_process(self._exception)
        return 0

    cdef int failed(self, Scheduler loop) except -1:
        """An exception has ended it. In a child after fork, one that is meant for the program ends the
        process."""
        if not isinstance(self._exception, (KeyboardInterrupt, SystemExit)):
            if has_error_handler():
                as_tasklet(loop, tell_uncaught, (self, self._exception))
            else:
                tell_uncaught(self, self._exception)
        elif loop.orphan is not self and not isinstance(self._exception, TaskletExit):
            loop.throw(main_of(loop), self._exception)
        return 0

    cdef int end_with_thread(self, Scheduler loop) except -1:
        loop.release(self)
        self.why = NULL
        self.waiting_on = None
        if self is not loop.main:
            self._exception = TaskletExit("its thread has ended")
        loop.drop_pending(self)
        return self.tell(loop)

    cdef int tell(self, Scheduler loop) except -1:
        """Tell those who wait that it has ended."""
        wake_all(&self.joiners)
        if self.callbacks is not None:
            callbacks, self.callbacks = self.callbacks, None
            for callback in callbacks:
                self._call_back(loop, callback)
        return 0

    def _call_back(self, Scheduler loop, callback):
        try:
            callback(self)
        except BaseException as error:
            loop.report(callback, error)

    # -- waiting for it --------------------------------------------------------------------------------------

    def join(self, timeout=None) -> bool:
        """Wait until the tasklet has ended, for at most `timeout` seconds. Return whether it has."""
        cdef int64_t deadline
        if self.state == DONE:
            return True
        if get_loop().current is self:
            raise RuntimeError("a tasklet cannot join itself")
        deadline = deadline_after(timeout)
        if self.state == DONE:                  # meanwhile, see sync.pyx
            return True
        wait_in(&self.joiners, "end of a tasklet", self, deadline)
        return self.state == DONE

    def result(self, timeout=None):
        """Wait for the end; return the function's result, or raise its exception.

        Raise TaskletKilled if the tasklet was killed, TimeoutError after `timeout` seconds.
        """
        if not self.join(timeout):
            raise TimeoutError(f"{self!r} has not ended within {timeout} s")
        if self._exception is None:
            return self._result
        if isinstance(self._exception, TaskletExit):
            raise TaskletKilled(f"{self.name} was killed") from self._exception
        raise self._exception

    def exception(self, timeout=None):
        """Wait for the end and return the exception that ended the tasklet, or None. Raise TimeoutError after
        `timeout` seconds."""
        if not self.join(timeout):
            raise TimeoutError(f"{self!r} has not ended within {timeout} s")
        return self._exception

    def done(self) -> bool:
        """Return whether the tasklet has ended."""
        return self.state == DONE

    ready = done

    def add_done_callback(self, callback) -> None:
        """Call `callback(tasklet)` once the tasklet has ended, or immediately if it already has. The callback
        must not block; its errors are reported."""
        if self.state == DONE:
            self._call_back(self.loop, callback)
        else:
            self.callbacks = with_callback(self.callbacks, callback)

    def remove_done_callback(self, callback) -> int:
        """Remove the callback. Return how often the callback was registered."""
        return drop_callback(self.callbacks, callback)

    link, unlink = add_done_callback, remove_done_callback

    def link_value(self, callback) -> None:
        """Like add_done_callback(), but only if the function returns."""
        self.add_done_callback(_Link(callback, True))

    def link_exception(self, callback) -> None:
        """Like add_done_callback(), but only if the function raises, or the tasklet is killed."""
        self.add_done_callback(_Link(callback, False))

    def successful(self) -> bool:
        """Return whether the tasklet's function has returned."""
        return self.state == DONE and self._exception is None

    def set_switch_hook(self, hook) -> None:
        """Call hook(True) before the tasklet yields to others, and hook(False) before it resumes. The hook
        must not wait. None removes it."""
        self.switch_hook = hook

    # -- ending it -------------------------------------------------------------------------------------------

    def kill(self, exception=TaskletExit, block=True, timeout=None) -> bool:
        """Raise the exception (class or instance) in the tasklet, where it waits. A tasklet that has not
        started never runs.

        With `block`, wait until the tasklet has ended, for at most `timeout` seconds. Return whether it has.
        Killing the current tasklet raises immediately. Any thread may call kill().

        Several exceptions are raised in FIFO order, one at each wait. Exceptions that are left when the
        tasklet ends are dropped, except KeyboardInterrupt and SystemExit, which are then raised in the main
        tasklet.
        """
        if isinstance(exception, type):
            exception = exception()
        if not isinstance(exception, BaseException):
            raise TypeError(f"kill() needs an exception, not {type(exception).__name__}")
        if self.state == DONE:
            return True
        if self.loop is None:
            raise RuntimeError(f"{type(self).__name__}.__init__() has not called that of Tasklet")
        if self.state == NEW:
            self._exception = exception
            self.finish(self.loop)
            return True
        if get_loop().current is self:
            raise exception
        self.loop.throw(self, exception)
        if block:
            return self.join(timeout)
        return False

    def take_back(self, exception) -> None:
        """Withdraw an exception thrown by kill(exception, block=False); harmless if it has already been
        raised."""
        take_back(self, exception)

    cdef BaseTasklet acts_for(self):
        """Return the tasklet as which a program sees it that takes tasklets for threads."""
        return self

    cdef object owner_of_locks(self):
        """Return the object whose locks it takes: itself, its slot, or the task of asyncio whose step it
        makes."""
        return self if self.locals.slot == NULL else <object> self.locals.slot

    cdef object step(self):
        """Return the step of an asyncio task, or the callback, that it makes now, among others; or None."""
        return None

    cdef str label(self):
        """Its name, if nobody gives it one."""
        function = getattr(self.function, "__qualname__", None) or type(self.function or self).__name__
        self._name = f"{function}-{self.serial}"
        return self._name

    # -- its state -------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.label() if self._name is None else self._name

    @name.setter
    def name(self, value not None):
        self._name = PyUnicode_FromObject(value)        # of a subclass, as str itself

    @property
    def status(self) -> str:
        """The state: 'new', 'ready', 'running', 'waiting' or 'ended'."""
        return _states(self.state)

    @property
    def waiting_for(self):
        """The reason for the current wait as text ('sleep', 'socket read', ...), or None."""
        return self.why.decode() if self.why != NULL else None

    @property
    def waiting_object(self):
        """The object that the tasklet waits for (a socket, a lock, a tasklet ...), or None."""
        return self.waiting_on

    @property
    def waiting_seconds(self):
        """Seconds that the current wait has lasted so far, or None."""
        return max(0, monotonic_ns() - self.since) / 1e9 if self.why != NULL else None

    @property
    def number(self) -> int:
        """The serial number, unique in the process."""
        return self.serial

    @property
    def parent_number(self) -> int:
        """The number of the tasklet that spawned this one, which may have ended; 0 if the loop spawned it."""
        return self.parent

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds that the tasklet has used up to its last switch, while debug.measure_cpu() was on."""
        return self.cpu / 1e9

    @property
    def frame(self):
        """The tasklet's current frame, or None if it has not started or has ended."""
        if self.state == RUNNING:
            if self.loop is peek_loop():
                return sys._getframe() if self.loop.current is self else None
            return current_frames().get((<Loop> self.loop).thread_id)
        return (<object> <PyObject*> self.carrier).gr_frame if self.carrier != NULL else None

    def __repr__(self):
        doing = f"waiting for {self.waiting_for}" if self.why != NULL else _states(self.state)
        return f"<{type(self).__name__} {self.name}: {doing}>"


cdef int as_tasklet(Scheduler loop, object function, tuple args) except -1:
    """Call function(*args), at once, where it may wait: at the base of a carrier as a tasklet of its own.
    Further work of the caller may come after other turns."""
    cdef Tasklet one
    if loop.current is not None or loop.still is not None or loop.ending or loop.closed:
        function(*args)
        return 0
    one = Tasklet.__new__(Tasklet)
    one.function = function
    one.args = args
    one.context = PyContext_CopyCurrent()
    loop.adopt(one)
    return one.run_inline(loop)


cdef int begin_traced(Tasklet one) except -1:
    """Set what threading.settrace() and setprofile() say, or find that they say nothing."""
    try:
        begin_settings(one.sets_own, dict_version(names_of_threading))
    except BaseException as error:              # of an audit hook
        tell_uncaught(one, error)
    return 0


cdef int keep_outcome(Tasklet one, PyObject* returned) except -1:
    """Keep its return value, or the exception that is set."""
    if returned == NULL:
        one._exception = raised() if PyErr_Occurred() else SystemError("it failed without an exception")
        if one.broken_off and one.pending is not None and isinstance(one._exception, Exception):
            why = next_pending(one)         # the C library has made its own error of it
            why.__context__, one._exception = one._exception, why
    else:
        one._result = <object> returned
        Py_DECREF(one._result)
    return 0


cdef int tell_beginning(Scheduler loop, Tasklet tasklet) except -1:
    """An error of an observer is raised in the tasklet, as it is where one goes on: its function is not
    called."""
    try:
        loop.observers.begins(tasklet)
    except BaseException as error:
        loop.throw(tasklet, error)
    return 0


cdef PyObject* raise_first(BaseTasklet tasklet) noexcept:
    """It was thrown before the tasklet began."""
    exception = next_pending(tasklet)
    PyErr_SetObject(type(exception), exception)
    return NULL


cdef int refuse_spawn() except -1:
    raise RuntimeError("cannot spawn a tasklet in this loop: its thread has ended")


def spawn(function, *args, **kwargs) -> Tasklet:
    """Run function(*args, **kwargs) in a new tasklet of this thread, with a copy of the current context
    (contextvars).

    The new tasklet starts when the current one waits or ends.
    """
    return scheduler.new_tasklet(function, *args, **kwargs)


def where_it_may_wait(function, *args) -> None:
    """Call function(*args) here if the caller may wait, otherwise in a new tasklet. Use it for program code
    that may be called from anywhere."""
    cdef Loop loop = peek_loop()
    if loop is None or loop.current is not None or loop.ending or loop.closed:
        function(*args)
    else:
        spawn(function, *args)


def spawn_in(where, function, *args, **kwargs) -> Tasklet:
    """Like spawn(), but in another thread: pass the thread's loop (from current_loop() in that thread), a
    threading.Thread, or its ident. Raise RuntimeError if the loop's thread has ended, LookupError if the
    thread has ended or has not used syncless yet.
    """
    cdef Loop loop = loop_of(where), here = peek_loop()
    cdef Tasklet made = Tasklet.__new__(Tasklet)
    if loop.ending or loop.closed:
        refuse_spawn()
    if not callable(function):
        raise TypeError(f"a tasklet needs a function to run, not {type(function).__name__}")
    made.function = function
    made.args = args
    made.kwargs = kwargs or None
    made.context = PyContext_CopyCurrent()
    made._start_in(loop)
    made.parent = 0 if here is None or here.current is None else here.current.serial
    return made


cdef unsigned long ident_of(BaseTasklet tasklet) noexcept:
    """As which a tasklet owns locks."""
    cdef Loop loop = <Loop> tasklet.loop
    owner = tasklet
    if tasklet is not loop.main and isinstance(tasklet, Tasklet):
        owner = (<Tasklet> tasklet).owner_of_locks()
    if owner is loop.main:                      # it is main, or a handler of a signal, which is main's
        return loop.thread_id
    return <unsigned long> <uintptr_t> <PyObject*> owner


def in_slot(Tasklet tasklet not None) -> Tasklet:
    """The tasklet, which has not begun and was spawned in this context, stands for a thread of the pool whose
    Slots are there, if there are any: it takes one."""
    slots = slots_here()
    tasklet.locals.slots = NULL if slots is None else <PyObject*> slots
    return tasklet


def as_thread(Tasklet tasklet not None) -> Tasklet:
    """The tasklet, which has not begun, asks threading.settrace() and setprofile() itself, or begins without
    them, as threads do."""
    tasklet.sets_own = True
    return tasklet


def set_in(Tasklet tasklet not None, bint profile, function) -> None:
    """sys.settrace(function), or setprofile(), in a tasklet that has begun and does not run."""
    change_settings(&tasklet.settings, profile, function)
    report_waiting(tasklet.frame)


def end_thread_locals() -> None:
    """Drop the running tasklet's values in threading.local, as a thread does at its end, before tasklets that
    join this one resume. A finaliser of a dropped value may wait."""
    cdef Loop loop = peek_loop()
    if loop is not None and loop.current is not None:
        drop_own(&loop.current.locals)


def at_end_of_slot(function) -> bool:
    """Call function() when the slot of the running tasklet ends. Return whether it has one."""
    slot = slot_of(&get_loop().current.locals)
    if slot is None:
        return False
    if slot.at_end is None:
        slot.at_end = []
    slot.at_end.append(function)
    return True


def end_idle_slots(Slots slots not None, int rounds) -> bool:
    """End the slots that no tasklet has had for so many calls of this, as their threads would end. Return
    whether there are others to look after; never after 0 rounds, see threadlocal.pyx. To be called in a
    tasklet."""
    return threadlocal.end_idle_slots(slots, rounds, &get_loop().current.locals)


cdef int become_main(Loop loop, Tasklet main) except -1:
    """It stands for the code of the loop's thread that was not spawned, and is running whenever no other
    tasklet is. If another has done that before, which must be running, it goes on with what belongs to
    that."""
    cdef Tasklet before = loop.main
    main.is_main = True
    main.state = RUNNING
    main._name = "main"
    if before is not None:
        main.pending, before.pending = before.pending, None
        main.serial = before.serial
        main.switches = before.switches
        main.cpu = before.cpu
        main.locals = before.locals
        main.settings, before.settings = before.settings, NULL
        main.switch_hook = before.switch_hook
        main.callbacks = before.callbacks
        loop.release(before)
    loop.main = main
    loop.adopt(main)
    loop.current = main                 # not before: it would be its own parent
    return 0


def _new_main(Loop loop):
    become_main(loop, <Tasklet> scheduler.main_type.__new__(scheduler.main_type))


scheduler.main_type = scheduler.new_tasklet = Tasklet
scheduler.new_main = _new_main


cdef extern from "Python.h":
    object _PyObject_GenericGetAttrWithDict(object self, object name, PyObject* values, int suppress)
    int _PyObject_GenericSetAttrWithDict(object self, object name, PyObject* value,
        PyObject* values) except -1


class _Forget(weakref.ref):
    """A done callback: drops the values that the tasklet had in a local. If the local goes before, so does
    this."""

    __slots__ = ("tasklet",)

    def __call__(self, tasklet):
        one = weakref.ref.__call__(self)
        if one is not None:
            _forget(one, tasklet)


def _forget(local one, BaseTasklet tasklet):
    one.everybody.pop(tasklet.serial, None)


def _gone(forget):
    cdef list callbacks = (<Tasklet> forget.tasklet).callbacks
    cdef Py_ssize_t i
    if callbacks is not None:
        for i in range(len(callbacks) - 1, -1, -1):
            if callbacks[i] is forget:
                del callbacks[i]


cdef class local:
    """local(*args, **kwargs)\n--\n\nAn object with separate attributes for each tasklet, like threading.local
    for threads; a tasklet's attributes are dropped when it ends.

    A subclass's ``__init__`` is called, with the constructor's arguments, for each tasklet that touches the
    object. Under the patch threading.local does the same. Access raises RuntimeError in a callback of the
    loop, where there is no tasklet.
    """
    cdef dict everybody             # a tasklet's serial number -> its values
    cdef tuple args
    cdef dict kwargs
    cdef object __weakref__

    def __cinit__(self, *args, **kwargs):
        if (args or kwargs) and type(self).__init__ is object.__init__:
            raise TypeError("initialization arguments are not supported")
        self.everybody = {}
        self.args = args
        self.kwargs = kwargs
        self.begin(self.present())          # the construction itself calls __init__

    cdef BaseTasklet present(self):
        cdef BaseTasklet tasklet = get_loop().current
        if tasklet is None:
            raise RuntimeError("a callback of the loop has no tasklet, so a local has no values there")
        owner = (<Tasklet> tasklet).owner_of_locks() if isinstance(tasklet, Tasklet) else tasklet
        return <BaseTasklet> owner if isinstance(owner, BaseTasklet) else tasklet   # main, for a handler

    cdef dict begin(self, BaseTasklet tasklet):
        cdef dict values = {}
        self.everybody[tasklet.serial] = values
        forget = _Forget(self, _gone)
        forget.tasklet = tasklet
        tasklet.add_done_callback(forget)
        return values

    cdef dict values(self):
        cdef BaseTasklet tasklet = self.present()
        found = self.everybody.get(tasklet.serial)
        if found is None:
            found = self.begin(tasklet)
            type(self).__init__(self, *self.args, **self.kwargs)
        return found

    def __getattribute__(self, name):
        values = self.values()
        if name == "__dict__":
            return values
        return _PyObject_GenericGetAttrWithDict(self, name, <PyObject*> values, False)

    def __setattr__(self, name, value):
        if name == "__dict__":
            raise AttributeError(f"{type(self).__name__!r} object attribute '__dict__' is read-only")
        values = self.values()
        _PyObject_GenericSetAttrWithDict(self, name, <PyObject*> value, <PyObject*> values)

    def __delattr__(self, name):
        values = self.values()
        _PyObject_GenericSetAttrWithDict(self, name, NULL, <PyObject*> values)
