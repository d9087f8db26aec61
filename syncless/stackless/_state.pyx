# cython: binding=False, always_allow_keywords=False, embedsignature=True, embedsignature.format=clinic
"""The state of a tasklet: whether it is alive and where it is queued, its function, flags, context and C
stack, and its own trace and profile functions (cpython/tracing.pyx).
"""

import sys

from cpython.object cimport PyObject

from syncless._core.cpython.tracing cimport change_settings, settings_of
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport DONE, NEW, PARKED, READY, RUNNING, Scheduler
from syncless._core.tasklet cimport Tasklet
from syncless._core.threadloop cimport peek_loop
from syncless._core.wait.waitqueue cimport is_queued
from syncless.stackless._thread cimport IN_RUN, PAUSED, Guard, here, run_queue

from syncless._core.cpython.tracing import report_waiting

cdef extern from "Python.h":
    # NULL: an exception is set
    PyObject* PyObject_Call(PyObject* function, PyObject* args, PyObject* kwargs) noexcept


cdef class StatefulTasklet(Tasklet):
    """The base class of Stackless's tasklets, with their state, their flags and their own context."""

    def __cinit__(self, *args, **kwargs):
        self.ignore_nesting = False

    # -- its life and its place

    cdef bint is_alive(self) noexcept:
        if self.state == NEW:
            return self.ready_to_run and not self.loop.closed
        return self.state != DONE

    cdef bint is_blocked(self) noexcept:
        return self.state == PARKED and self.why != PAUSED and self.why != IN_RUN

    cdef bint is_scheduled(self) noexcept:
        return self.inserted if self.state == NEW else self.state in (READY, RUNNING) or self.is_blocked()

    cdef bint has_no_thread(self) noexcept:
        """Its thread has ended, and it had not."""
        return self.loop.closed and self.function is not None and (self.state == DONE or self.ready_to_run)

    @property
    def alive(self):
        """Whether the tasklet can still run."""
        return self.is_alive()

    @property
    def blocked(self):
        """Whether the tasklet waits for a channel, for I/O or for a time."""
        return self.is_blocked()

    @property
    def scheduled(self):
        """Whether the tasklet is in the run queue, or blocked."""
        return self.is_scheduled()

    @property
    def paused(self):
        """Whether the tasklet is alive, but neither in the run queue nor blocked. A tasklet in run() is
        paused."""
        return self.is_alive() and not self.is_scheduled()

    @property
    def is_current(self):
        return self.loop is not None and self.loop.current is self

    @property
    def thread_id(self):
        """The id of the tasklet's thread, or -1 if the thread has ended."""
        if self.loop is None:                       # of a class that does not call tasklet.__init__()
            self.loop = here().loop
        return -1 if self.loop.closed else (<Loop> self.loop).thread_id

    @property
    def next(self):
        """The tasklet behind this one in the run queue or the channel's queue, or None if this one is in
        neither."""
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

    @property
    def times_switched_to(self):
        """How often the tasklet was switched to since it was bound."""
        return self.switches

    # -- its function, and its exceptions

    @property
    def method_name(self):
        """The name of the tasklet's function, or None if it has none or has ended."""
        return getattr(self.function, "__name__", None)

    @property
    def module_name(self):
        return getattr(self.function, "__module__", None)

    @property
    def file_name(self):
        code = getattr(self.function, "__code__", None)
        return None if code is None else code.co_filename

    @property
    def line_number(self):
        code = getattr(self.function, "__code__", None)
        return None if code is None else code.co_firstlineno

    @property
    def dont_raise(self):
        """Whether exceptions of the function are reported, with a traceback, rather than raised in run()."""
        return self.guard is not None and self.guard.dont_raise

    @dont_raise.setter
    def dont_raise(self, value):
        if not isinstance(value, bool):
            raise TypeError("dont_raise must be a bool")
        self.guarded().dont_raise = value

    @property
    def exception_handler(self):
        """With `dont_raise`: called with a text in place of the report, and sys.exc_info() is the exception.
        None: it is reported."""
        return None if self.guard is None else self.guard.exception_handler

    @exception_handler.setter
    def exception_handler(self, handler):
        if handler is not None and not callable(handler):
            raise TypeError("exception_handler must be callable, or None")
        self.guarded().exception_handler = handler

    @property
    def context_manager_getter(self):
        """With `dont_raise`: called with the tasklet; the function runs inside the context manager that it
        returns. Exceptions of the context manager itself are raised in run()."""
        return None if self.guard is None else self.guard.context_manager_getter

    @context_manager_getter.setter
    def context_manager_getter(self, getter):
        if getter is not None and not callable(getter):
            raise TypeError("context_manager_getter must be callable, or None")
        self.guarded().context_manager_getter = getter

    cdef Guard guarded(self):
        if self.state not in (NEW, DONE):
            raise RuntimeError(
                "the handling of exceptions must be set before the tasklet starts")
        if self.guard is None:
            self.guard = Guard()
        return self.guard

    cdef PyObject* execute(self, Scheduler loop) noexcept:
        cdef tuple arguments
        if self.guard is None or not self.guard.dont_raise:
            return Tasklet.execute(self, loop)
        arguments = (self, self.function, self.args, self.kwargs)
        return PyObject_Call(<PyObject*> self.guard, <PyObject*> arguments, NULL)

    # -- its flags

    cdef int flags(self) noexcept:
        """As a number, for pickling."""
        return self.atomic | self.ignore_nesting << 1 | self.block_trap << 2

    cdef int set_flags(self, int flags) except -1:
        self.atomic, self.ignore_nesting, self.block_trap = flags & 1, flags >> 1 & 1, flags >> 2 & 1
        return 0

    def set_atomic(self, flag):
        """Set whether the tasklet must not be preempted. Return the previous value."""
        if not isinstance(flag, int):
            raise TypeError("set_atomic needs exactly one bool or integer")
        before, self.atomic = self.atomic, bool(flag)
        return before

    def set_ignore_nesting(self, flag):
        if not isinstance(flag, int):
            raise TypeError("set_ignore_nesting needs exactly one bool or integer")
        before, self.ignore_nesting = self.ignore_nesting, bool(flag)
        return before

    # -- its context and its C stack

    @property
    def context_id(self):
        return id(self.context)

    def set_context(self, context):
        """Set the contextvars.Context in which the tasklet will run, and return the tasklet. Raise
        RuntimeError if it has started."""
        if self.state not in (NEW, DONE):
            raise RuntimeError("the context of a tasklet that has started cannot be changed")
        self.context = context
        return self

    def context_run(self, function, /, *args, **kwargs):
        """Call function(*args, **kwargs) in the tasklet's context."""
        if self.state == RUNNING or self.context is None:
            return function(*args, **kwargs)
        return self.context.run(function, *args, **kwargs)

    @property
    def restorable(self):
        """Whether the tasklet can be pickled, because it has not started or has ended."""
        return self.carrier == NULL and self.state in (NEW, DONE)

    @property
    def recursion_depth(self):
        """1 if the tasklet has started, else 0."""
        return int(self.state not in (NEW, DONE))

    @property
    def nesting_level(self):
        """1 if the tasklet has started and is not running, because its frames are on a C stack; else 0."""
        return int(self.carrier != NULL)


cdef class TracedTasklet(StatefulTasklet):
    """A base class of Stackless's tasklets, with their own trace and profile functions."""

    cdef PyObject* execute(self, Scheduler loop) noexcept:
        if unchecked_begin(self) < 0:
            return NULL
        return StatefulTasklet.execute(self, loop)

    cdef object function_of(self, bint profile):
        if runs_here(self):
            return sys.getprofile() if profile else sys.gettrace()
        if self.state == NEW:
            return self.profile if profile else self.trace
        return settings_of(self.settings, profile)

    cdef int set_function(self, bint profile, object function) except -1:
        check(self, function)
        if runs_here(self):
            (sys.setprofile if profile else sys.settrace)(function)
        elif self.state != NEW:
            change_settings(&self.settings, profile, function)
            report_waiting(self.frame)
        elif profile:
            self.profile = function
        else:
            self.trace = function
        return 0

    @property
    def trace_function(self):
        """The function that sys.settrace() has set in this tasklet, or None. It can also be set from outside.
        Then it sees the lines of frames that the tasklet enters, and of other frames with an f_trace."""
        return self.function_of(False)

    @trace_function.setter
    def trace_function(self, function):
        self.set_function(False, function)

    @property
    def profile_function(self):
        """The function that sys.setprofile() has set in this tasklet, or None. It can be set from outside,
        too. Raise RuntimeError if it is set while the tasklet runs in another thread, TypeError if it is no
        function; this holds for both."""
        return self.function_of(True)

    @profile_function.setter
    def profile_function(self, function):
        self.set_function(True, function)


cdef int begin(TracedTasklet one) except -1:
    """It begins with the functions that it was given while it was new."""
    trace, profile, one.trace, one.profile = one.trace, one.profile, None, None
    if trace is not None:
        sys.settrace(trace)
    if profile is not None:
        sys.setprofile(profile)
    return 0


ctypedef int (*Begin)(TracedTasklet one) noexcept       # see scheduler.pxd
cdef Begin unchecked_begin = <Begin> begin


cdef bint runs_here(TracedTasklet one) noexcept:
    cdef Loop loop = peek_loop()
    return loop is not None and loop.current is one


cdef int check(TracedTasklet one, object function) except -1:
    """Whether it can be set."""
    if function is not None and not callable(function):
        raise TypeError(f"a trace or profile function must be callable, not {type(function).__name__}")
    if not one.alive:
        if function is None:
            return 0
        raise RuntimeError("tasklet is not alive")
    if one.loop.current is one and not runs_here(one):
        raise RuntimeError("You cannot trace a tasklet that runs in another thread")
    return 0
