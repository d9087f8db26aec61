"""Handles: the calls that a program has asked for, soon or at a time.

Takes callbacks and times. Where and when the calls are made is told in rounds.pyx, which this must not know.
"""

import sys
from asyncio import format_helpers

from cpython.contextvars cimport PyContext_CopyCurrent
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t

from syncless._core.linked cimport append as list_append, remove as list_remove
from syncless._core.timers cimport timer_init

from syncless.asyncio.reports import describe, tell_failure

cdef extern from "Python.h":
    # NULL: an exception is set
    PyObject* PyObject_Call(PyObject* function, PyObject* args, PyObject* kwargs) noexcept

cdef double LATEST = 9e9            # s; timers beyond it would not fit into 64 bits of nanoseconds

cdef object call_site = format_helpers.extract_stack


cdef class Handle:
    """The result of call_soon() and its kin, as asyncio.Handle."""

    def cancel(self):
        """The callback is not called, if it has not been."""
        if not self.is_cancelled:
            self.is_cancelled = True
            if self.rounds.debug:
                self.source_traceback = None
            self.callback = self.args = None

    def cancelled(self):
        """Whether cancel() was called."""
        return self.is_cancelled

    def get_context(self):
        """The context in which the callback is called."""
        return self.context

    cdef PyObject* invoke(self) noexcept:
        """Makes the call, in the present context. A new reference; NULL: an exception is set."""
        return PyObject_Call(<PyObject*> self.callback, <PyObject*> self.args, NULL)

    cdef int tell(self, object error) except -1:
        """The call has raised."""
        tell_failure(self.rounds.loop, self, error)
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
        return self.rounds.loop

    @property
    def _cancelled(self):
        return self.is_cancelled

    @property
    def _source_traceback(self):
        return self.source_traceback

    cdef int fill(self, Calls rounds, object callback, tuple args, object context) except -1:
        if rounds.closed:
            raise RuntimeError("Event loop is closed")
        self.rounds = rounds
        self.callback = callback
        self.args = args
        self.context = PyContext_CopyCurrent() if context is None else context
        return 0

    def look_at(self, method):
        """In debug mode: is it a function, and where was it made?"""
        self.rounds.loop._check_callback(self.callback, method)
        try:
            self.source_traceback = call_site(sys._getframe(0))
        except ValueError:                          # no Python code runs: a task's step was called from here
            pass

    def _run(self):
        self.rounds.call(self)

    def __repr__(self):
        return describe(self)


cdef void timer_fires(void* owner) noexcept:
    cdef TimerHandle handle = <TimerHandle> owner
    list_remove(&handle.rounds.timers, &handle.place)
    handle.rounds.append(handle)
    Py_DECREF(handle)


cdef class TimerHandle(Handle):
    """The result of call_later() and call_at(), as asyncio.TimerHandle."""

    def __cinit__(self):
        timer_init(&self.timer, timer_fires, <void*> self)

    def when(self):
        """The time at which the callback is due, in seconds on the clock of loop.time()."""
        return self.moment

    def cancel(self):
        """The callback is not called, if it has not been."""
        if self.place.owner != NULL:
            list_remove(&self.rounds.timers, &self.place)
            if self.rounds.engine is not None:
                self.rounds.engine.timers.remove(&self.timer)
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
        """Calls it now. Its exceptions go to the loop's exception handler."""
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
