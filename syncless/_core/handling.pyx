"""The main thread, and the handlers of signals, which it calls on top of its wait.

Takes: a handler that the interpreter calls wherever the OS thread is. Gives: a call of it that is in all
respects the main tasklet's. Next to read: patches/signals.py, which replaces signal.signal.

Fact: the interpreter calls a handler in the main thread, in the middle of what that does: it has the thread's
identity, its values in threading.local, its context variables, its RLocks, and its frames below its own; the
main thread goes on when the handler has returned. Danger: here the OS thread may be in any tasklet, or in the
loop, when the signal comes. Decision: the main tasklet's carrier is switched to, and the handler is called
there, above the wait. The wait itself stays: the main tasklet is COVERED, still stands in its queue and has
its deadline; a wake-up is noted, and it goes on with it when the handler has returned. The code on top is a
tasklet of its own, so it may wait, be interrupted by another signal, and fork. The tasklet in which the
signal came is the next to run, before anything else, unless the handler waits. Price: two switches for a
signal, nothing for other waits. Guarded by tests/patches/test_signal_handlers.py.

What a handler raises is raised where the main tasklet waits, when its turn comes; in the tasklet in which the
signal came, if an exception of that type is on its way already: that tasklet holds the OS thread.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from cython cimport final
from libc.string cimport memset

from syncless._core cimport scheduler
from syncless._core.cpython.greenlet cimport (
    PyGreenlet, PyGreenlet_GetCurrent, PyGreenlet_Import, PyGreenlet_Throw,
)
from syncless._core.cpython.threadlocal cimport Locals
from syncless._core.current cimport acting
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport (
    COVERED, COVERED_READY, PARKED, READY, RUNNING, SHIELDED, BaseTasklet, is_thrown, keep_thrown,
    main_of, place_of, remove_item,
)
from syncless._core.tasklet cimport Tasklet
from syncless._core.threadloop cimport get_loop, peek_loop

from syncless._core.tasklet import spawn

cdef extern from "Python.h":
    ctypedef struct PyFrameObject
    void PyErr_Clear()
    PyFrameObject* PyEval_GetFrame()        # borrowed; NULL if there is none

PyGreenlet_Import()


class Signal(BaseException):
    """An exception that is thrown at the main tasklet's carrier and immediately caught by the engine."""


def main_tasklet() -> BaseTasklet | None:
    """Return the tasklet that is the interpreter's main thread: signals are its affair. In the child of a
    fork that is the tasklet that forked. None in any other OS thread."""
    cdef Loop loop = get_loop()
    return main_of(loop) if loop.hears_signals else None


def is_main_thread() -> bool:
    """Return whether this is code of the main tasklet: its own, a handler's, a callback's of the asyncio loop
    that it runs; or of the loop itself."""
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me
    if loop is None:
        return main_tasklet() is not None
    if not loop.hears_signals:
        return False
    me = acting(loop)
    return me is None or me is main_of(loop) or (
        isinstance(me, Tasklet) and (<Tasklet> me).acts_for() is main_of(loop))


def interrupted_frame(frame):
    """For a handler that tells what holds the thread: the frame of the tasklet in which its signal came.
    `frame`, which the handler was given, where that was the main tasklet, or none."""
    cdef BaseTasklet me = get_loop().current
    if not isinstance(me, OnTop) or not isinstance((<OnTop> me).before, Tasklet):
        return frame
    found = (<Tasklet> (<OnTop> me).before).frame
    return frame if found is None else found


def call_handler(function, number, frame) -> None:
    """function(number, frame) on top of the main tasklet, at once if the caller is a tasklet."""
    cdef Loop loop = get_loop()
    cdef BaseTasklet me = loop.current, top = main_of(loop) if loop.top is None else loop.top
    if me is top:
        function(number, frame)
    elif me is None:                        # the loop itself, or a step that must not wait
        spawn(call_handler, function, number, None).name = f"signal {number}"
    elif scheduler.main_type is Tasklet and top.carrier != NULL and (
            top.state == PARKED or top.state == READY):
        call_on_top(loop, me, top, function, number)
    else:                                   # it has ended, or waits as Stackless's tasklets do
        try:
            function(number, frame)
        except BaseException as error:
            if not loop.interrupt(error):
                raise


cdef int call_on_top(Loop loop, BaseTasklet me, BaseTasklet top, object function, object number) except -1:
    cdef OnTop call = OnTop.__new__(OnTop)
    cdef PyGreenlet* carrier
    cdef PyObject* returned
    call.function, call.args = function, (number,)
    call.below, call.before = top, me
    call._name = f"handler of signal {number}"
    loop.adopt(call)
    if top.state == READY:
        remove_item(&loop.ready, top)
        top.state = COVERED_READY
    else:
        top.state = COVERED
    me.state = READY
    loop.push_first(me)
    me.carrier = PyGreenlet_GetCurrent()
    loop.current = None
    if me.locals.own or me.switch_hook is not None or loop.observers is not None:
        loop._stops(me)
    loop.comes_on_top = call
    carrier = top.carrier
    if carrier == NULL:
        raise SystemError("the main tasklet waits on no carrier")
    returned = PyGreenlet_Throw(carrier, <PyObject*> Signal, NULL, NULL)
    carrier = me.carrier
    me.carrier = NULL
    Py_DECREF(<object> carrier)             # which runs, and so has other owners
    if returned == NULL:
        return loop._switch_failed(me)
    Py_DECREF(<object> returned)
    if call.switches > 1:                   # the handler has waited: others have run
        me.switches += 1
    if me.locals.own or me.switch_hook is not None:
        loop._goes_on(me)
    me.state = RUNNING
    loop.current = me
    if loop.observers is not None:
        loop.observers.begins(me)
    if call.refused is not None:
        raise call.refused
    return 0


@final
cdef class OnTop(Tasklet):
    """A call on top of the main tasklet, or on top of another such call."""
    cdef BaseTasklet below
    cdef BaseTasklet before                 # which was running when the signal came
    cdef BaseException refused              # what the handler has raised, if `before` is to raise it

    cdef BaseTasklet acts_for(self):
        cdef BaseTasklet below = self.below
        return (<Tasklet> below).acts_for() if isinstance(below, Tasklet) else below

    cdef object owner_of_locks(self):
        cdef BaseTasklet below = self.below
        return (<Tasklet> below).owner_of_locks() if isinstance(below, Tasklet) else below

    cdef PyGreenlet* run_on_top(self) except? NULL:
        """On the carrier of `below`, in the midst of its wait. Return the carrier that comes next, as
        _next_carrier() does."""
        cdef Loop loop = <Loop> self.loop
        cdef BaseTasklet below = self.below, before = self.before
        cdef PyObject* innermost = <PyObject*> PyEval_GetFrame()
        PyErr_Clear()
        loop._goes_on(below)
        self.take_over(below)
        loop.top = loop.current = self
        self.state = RUNNING
        self.switches += 1
        if loop.observers is not None:
            loop.observers.begins(self)
        error = None
        try:
            self.function(*self.args, None if innermost == NULL else waiting_frame(<object> innermost))
        except BaseException as raised:
            error = raised
        self.function = self.args = self.before = None
        loop.current = None
        if loop.observers is not None:
            loop.observers.stops(self)
        below.locals = self.locals
        memset(&self.locals, 0, sizeof(Locals))
        self.switch_hook = None
        loop.top = None if below is main_of(loop) else below
        self.finish(loop)
        if error is not None:
            self.hand_down(loop, error, before)
            error = None
        return self.uncover(loop, before)

    cdef int take_over(self, BaseTasklet below) except -1:
        """What belongs to the thread: its values go while others run, and files know that it is in them."""
        self.locals, below.locals = below.locals, self.locals
        self.switch_hook = below.switch_hook
        self.in_file = below.in_file
        return 0

    cdef int hand_down(self, Loop loop, BaseException error, BaseTasklet before) except -1:
        if before.state == READY and is_thrown(self.below, type(error)) and (
                place_of(&loop.ready, before) == 0):
            self.refused = error
        else:
            keep_thrown(self.below, error)
        return 0

    cdef PyGreenlet* uncover(self, Loop loop, BaseTasklet before) except? NULL:
        cdef BaseTasklet below = self.below
        self.below = None
        if below.state == COVERED_READY or (below.pending is not None and below.shielded != SHIELDED):
            below.state = READY
            below.ready_since = loop.clock.now
            loop.push(below)
        else:
            below.state = PARKED
        if before.state == READY and before.carrier != NULL and place_of(&loop.ready, before) == 0:
            remove_item(&loop.ready, before)
            return before.carrier
        return loop._next_carrier(below)


cdef object waiting_frame(object innermost):
    """Return the program's frame that waits: functions of ours stand in for C functions, which have none."""
    frame = innermost
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "syncless":
        frame = frame.f_back
    return innermost if frame is None else frame
