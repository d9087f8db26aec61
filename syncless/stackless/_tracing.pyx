"""Trace and profile functions of a tasklet's own, as sys.settrace() and sys.setprofile() set them for a
thread.

Fact: CPython keeps them for a thread, and greenlet does not exchange them (before 3.12 it exchanges a flag
that says whether there are any). Danger: a function set in one tasklet sees all tasklets, or is lost at the
next switch. Decision: from the first function that is set for a tasklet, its thread exchanges them at each
switch. Price: none before that. Guarded by tests/stackless/test_tracing.py.
"""

import sys

from syncless._core.cpython.counting cimport FLAG_PER_GREENLET
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport Observer
from syncless._core.threadloop cimport peek_loop
from syncless.stackless._state cimport StatefulTasklet
from syncless.stackless._thread cimport Thread, threads


cdef class TracedTasklet(StatefulTasklet):
    """A base class of Stackless's tasklets: trace and profile functions of their own."""

    @property
    def trace_function(self):
        """The function that sys.settrace() has set in this tasklet, or None. It can also be set from outside.
        Then it sees the lines of frames that the tasklet enters, and of other frames with an f_trace."""
        return sys.gettrace() if runs_here(self) else self.trace

    @trace_function.setter
    def trace_function(self, function):
        check(self, function)
        if runs_here(self):
            sys.settrace(function)
        else:
            self.trace = function

    @property
    def profile_function(self):
        """The function that sys.setprofile() has set in this tasklet, or None. It can be set from outside,
        too. RuntimeError if it is set while the tasklet runs in another thread, TypeError if it is no
        function; this holds for both."""
        return sys.getprofile() if runs_here(self) else self.profile

    @profile_function.setter
    def profile_function(self, function):
        check(self, function)
        if runs_here(self):
            sys.setprofile(function)
        else:
            self.profile = function


cdef bint runs_here(TracedTasklet one) noexcept:
    cdef Loop loop = peek_loop()
    return loop is not None and loop.current is one


cdef int check(TracedTasklet one, object function) except -1:
    """Whether it can be set; from now on the tasklet's thread exchanges its functions."""
    cdef Thread state
    if function is not None and not callable(function):
        raise TypeError(f"a trace or profile function must be callable, not {type(function).__name__}")
    if not one.alive:
        if function is None:
            return 0
        raise RuntimeError("tasklet is not alive")
    if one.loop.current is one and not runs_here(one):
        raise RuntimeError("You cannot trace a tasklet that runs in another thread")
    state = threads.get((<Loop> one.loop).thread_id)
    if state is not None and state.exchanger is None:
        state.exchanger = _Exchanger(state.loop)
        if state.teller is not None:
            state.loop.unobserve(state.teller)
        state.loop.observe(state.exchanger)
        if state.teller is not None:
            state.loop.observe(state.teller)    # after it: the schedule callback may set a function
    return 0


cdef class _Exchanger(Observer):
    """Exchanges the functions at each switch of a thread. It stays."""
    cdef Loop loop
    cdef object running             # the tasklet whose functions the thread has now

    def __init__(self, Loop loop):
        self.loop = loop
        self.running = loop.current

    cdef int stops(self, object one) except -1:
        self.running = None
        if isinstance(one, TracedTasklet) and not self.counts():
            (<TracedTasklet> one).trace, (<TracedTasklet> one).profile = sys.gettrace(), sys.getprofile()
        return 0

    cdef int begins(self, object one) except -1:
        cdef object trace = None, profile = None
        if self.running is one or self.counts():
            return 0
        self.running = one
        if isinstance(one, TracedTasklet):
            trace, (<TracedTasklet> one).trace = (<TracedTasklet> one).trace, None
            profile, (<TracedTasklet> one).profile = (<TracedTasklet> one).profile, None
        if FLAG_PER_GREENLET or sys.gettrace() is not trace:
            sys.settrace(trace)
        if FLAG_PER_GREENLET or sys.getprofile() is not profile:
            sys.setprofile(profile)
        return 0

    cdef bint counts(self) noexcept:
        """run(timeout) has the thread's trace function."""
        return FLAG_PER_GREENLET and self.loop.limits is not None
