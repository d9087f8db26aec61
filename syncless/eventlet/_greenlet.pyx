"""Green threads: tasklets with the methods of a greenlet. See support/greenlets.py and greenthread.py.

Native, because a program makes one for each piece of its work. An exception that ends a green thread is
printed, and not reported as that of a tasklet.
"""

import traceback

from cpython.contextvars cimport PyContext_CopyCurrent
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from syncless._core.clock cimport NEVER, deadline_after
from syncless._core.cpython.compat cimport raised
from syncless._core.current cimport wait_in
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport DONE, NEW, Scheduler
from syncless._core.tasklet cimport Tasklet, refuse_spawn
from syncless._core.threadloop cimport get_loop

from greenlet import GreenletExit

from syncless._core.current import park, wake
from syncless._core.exits import TaskletExit

cdef extern from "Python.h":
    PyObject* PyObject_Call(PyObject* function, PyObject* args, PyObject* kwargs) noexcept
    void PyErr_SetObject(object kind, object exception)

begin_thread = None
"""Called in each green thread at its beginning, and end_thread at its end, if it is a thread for the module
threading, see support/currentthread.py."""
end_thread = None
find_hub = None
"""hubs.get_hub(), which the module of hubs puts here."""
show_errors = True
"""Whether exceptions that end a green thread are printed (debug.hub_exceptions())."""


def exception_of(tuple arguments):
    """Return the exception that throw(), kill() and cancel() are given: class, value, traceback."""
    kind, value, trace = list(arguments + (None, None, None))[:3]
    if isinstance(value, BaseException):
        error = value
    elif isinstance(kind, BaseException):
        error = kind
    elif kind is None:
        error = GreenletExit()
    elif value is None:
        error = kind()
    else:
        error = kind(*value) if isinstance(value, tuple) else kind(value)
    return error.with_traceback(trace) if trace is not None else error


def show(error) -> None:
    if show_errors and not isinstance(error, GreenletExit):
        traceback.print_exception(error)


cdef class Turn(Tasklet):
    """A call that the hub makes: code in it is in no green thread."""


cpdef bint in_hub() noexcept:
    return is_in_hub(get_loop())


def switch_to(Tasklet tasklet not None, args, kwargs):
    """Resume a tasklet that waits in hub.switch(). A tasklet that calls this stops as if in hub.switch(); a
    call from the hub returns."""
    value = (args, kwargs) if kwargs and args else kwargs or (args[0] if len(args) == 1 else args)
    wake(tasklet, value)
    if not in_hub() and get_loop().current is not tasklet:
        return park("hub.switch()")[1]
    return None


def throw_in(Tasklet tasklet not None, arguments) -> None:
    """Raise an exception in the tasklet before the calling one goes on."""
    cdef Loop loop = get_loop()
    here = loop.current
    Tasklet.kill(tasklet, exception_of(arguments), block=False)
    if here is not None and here is not tasklet and not in_hub():
        loop.yield_()


def kill(g, *throw_args) -> None:
    """End a green thread: raise GreenletExit, or another exception, where it waits."""
    if g.dead:
        return
    if isinstance(g, Tasklet) and get_loop().current is g:
        raise exception_of(throw_args)
    g.throw(*throw_args)


def cancel(g, *throw_args) -> None:
    """End a green thread if it has not begun."""
    if not g:
        kill(g, *throw_args)


def sleep(seconds=0) -> None:
    """Let other green threads run for so many seconds; 0 is until each that is ready has run.

    Fact: programs of eventlet's call sleep(0) to let all others run, and events come in. Decision: if anybody
    waits for an event, it is a sleep until all that are ready have had their turns and there was a look for
    events; else it is a turn's end.
    """
    cdef Loop loop = get_loop()
    if seconds > 0:
        loop.park("sleep", None, deadline_after(seconds))
    elif loop.timers.count or loop.parked_count > loop.mutual_count:
        loop.park("sleep", None, deadline_after(1e-9))
    else:
        loop.yield_()


cdef class greenlet(Tasklet):
    """Calls a function, and prints the exception that ends it."""
    cdef object error               # what the function raised, or None
    cdef object returned
    cdef double seconds             # it begins after them
    cdef bint begun                 # the function has been called
    cdef bint killed                # it never will be
    cdef dict __dict__

    def __init__(self, run, *args, **kwargs):
        Tasklet.__init__(self, run, *args, **kwargs)

    cdef PyObject* execute(self, Scheduler loop) noexcept:
        """From the first turn to the end. No try block is on the stack while it waits, see scheduler.pyx."""
        cdef PyObject* returned = NULL
        if (self.seconds <= 0 and begin_thread is None) or self.prepare():
            self.begun = True
            returned = PyObject_Call(
                <PyObject*> self.function, <PyObject*> self.args,
                NULL if self.kwargs is None else <PyObject*> self.kwargs)
            if returned == NULL:
                self.error = raised()
            else:
                self.returned = <object> returned
                Py_DECREF(self.returned)
        error = self.concluded()
        if error is not None:
            PyErr_SetObject(type(error), error)
            return NULL
        Py_INCREF(None)
        return <PyObject*> None

    cdef bint prepare(self) noexcept:
        """Return whether the function is to be called."""
        try:
            if self.seconds > 0:
                sleep(self.seconds)
            if begin_thread is not None:
                begin_thread(self)
        except BaseException as error:
            self.error = error
            return False
        return True

    cdef object concluded(self):
        """Return the exception that is for the main tasklet, or that others have raised who were told."""
        self.function, self.args, self.kwargs = Tasklet, None, None     # whose finalisers may wait here
        meant_for_main = self.error is not None and isinstance(self.error, (KeyboardInterrupt, SystemExit))
        try:
            try:
                if self.error is not None and not meant_for_main:
                    show(self.error)
            finally:
                self.ended()            # also if stderr is closed: pools count on it
            if end_thread is not None:
                end_thread(self)
        except BaseException as error:
            return error
        return self.error if meant_for_main else None

    cdef int ended(self) except -1:
        """The function has returned or raised, or will never be called."""
        return 0

    @property
    def dead(self) -> bool:
        return self.killed or self.state == DONE

    def __bool__(self):
        return self.begun and not self.killed and self.state != DONE

    @property
    def parent(self):
        return find_hub().greenlet

    @property
    def gr_frame(self):
        return self.frame

    def switch(self, *args, **kwargs):
        return switch_to(self, args, kwargs)

    def throw(self, *arguments) -> None:
        if self.killed or self.state == DONE:
            return
        if self.state == NEW:
            self.killed = True
            self.error = exception_of(arguments)
            try:
                throw_in(self, (TaskletExit(),))    # which nobody is told of
            finally:
                self.ended()
        else:
            throw_in(self, arguments)


cdef class GreenThread(greenlet):
    """GreenThread(seconds, function, args, kwargs)\n--\n\nWhat spawn() returns: a green thread whose outcome
    wait() gives."""
    cdef list links                 # None: there are none
    cdef bint resolved              # its outcome is known

    def __init__(self, seconds, function, args, kwargs):
        self.seconds = seconds
        Tasklet.__init__(self, function, *args, **kwargs)

    def wait(self):
        """Wait for the end; return what the function returned, or raise what it raised."""
        if not self.resolved:       # else its links run, which may ask
            if get_loop().current is self:
                raise RuntimeError("a green thread cannot wait for itself")
            if self.state != DONE:
                wait_in(&self.joiners, "end of a tasklet", self, NEVER)
        if self.error is not None:
            raise self.error
        return self.returned

    def link(self, callback, *args, **kwargs) -> None:
        """Call callback(self, *args, **kwargs) at the end; at once if it has ended."""
        if self.links is None:
            self.links = []
        self.links.append((callback, args, kwargs))
        if self.resolved:
            self.ended()

    def unlink(self, callback, *args, **kwargs) -> bool:
        """Remove a link. Return whether there was one."""
        link = (callback, args, kwargs)
        if self.links is None or link not in self.links:
            return False
        self.links.remove(link)
        return True

    cdef int ended(self) except -1:
        self.resolved = True
        while self.links:
            callback, args, kwargs = self.links.pop(0)
            if kwargs:
                callback(self, *args, **kwargs)
            elif args:
                callback(self, *args)
            else:
                callback(self)
        return 0

    def kill(self, *arguments) -> None:
        """Raise GreenletExit, or another exception, in it. If it has not begun, it never will."""
        kill(self, *arguments)

    def cancel(self, *arguments) -> None:
        """The same if it has not begun; else do nothing."""
        cancel(self, *arguments)


cdef int begin(greenlet made, object function, tuple args, dict kwargs) except -1:
    cdef Loop loop = get_loop()
    if not callable(function):
        raise TypeError(f"a green thread needs a function to run, not {type(function).__name__}")
    if loop.closed:
        refuse_spawn()
    made.function = function
    made.args = args
    made.kwargs = kwargs or None
    made.context = PyContext_CopyCurrent()
    loop.adopt(made)
    return loop.push(made)


def spawn(function, *args, **kwargs) -> GreenThread:
    """Call the function in a green thread of its own."""
    cdef GreenThread made = GreenThread.__new__(GreenThread)
    begin(made, function, args, kwargs)
    return made


def spawn_n(function, *args, **kwargs) -> greenlet:
    """The same, for code that does not want the outcome."""
    cdef greenlet made = greenlet.__new__(greenlet)
    begin(made, function, args, kwargs)
    return made
