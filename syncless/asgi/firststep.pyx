"""FirstStep: the first step of a request's coroutine, made at once, as a step of an asyncio task.

Takes a coroutine. Gives its task, which the loop goes on with, or None if there is nothing more to do. Knows
nothing of requests.

asyncio makes a task's first step in the loop's next round. A request's coroutine mostly ends in it, so it is
made in the tasklet of the request: no turn of the loop, and no other callback, comes between.

Fact: making a task, listing it and dropping it costs more instructions than a small application, which ends
in its first step and mostly does not ask for its task. Decision: asyncio.current_task() and all_tasks() give
a task that has not begun, and whose coroutine is the one that runs. If that waits, the task takes over
(Relay). If it has ended, the task is as if nothing had been, and serves the next one. Danger: somebody still
has the task, has cancelled it, named it, or waits for its end. So it is compared to the last byte with what
it was before, and its context must be empty; else it comes to its end as any task. Price: the places of two
fields of a task (layouts.pyx). Guarded by tests/asgi/test_firststep.py.
"""

import _asyncio
from asyncio import Task
from asyncio.tasks import _enter_task as enter_task
from asyncio.tasks import _leave_task as leave_task

from cpython.contextvars cimport PyContext_Enter, PyContext_Exit
from cpython.object cimport PyObject, PyObject_Size
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memcmp, memcpy

from syncless._core.cpython.compat cimport raised
from syncless._core.cpython.layouts cimport coroutine_at, must_cancel_at, must_cancel_bit, require
from syncless._core.cpython.threadlocal cimport keep_locals, locals_used
from syncless._core.threadloop cimport get_loop
from syncless.asyncio.dispatcher cimport Dispatcher, Handle, Runner, keep_for

from syncless._core.cpython.layouts import UnknownLayout
from syncless.tools.runningloop import listing_of

cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT
    PySendResult PyIter_Send(PyObject* iterator, PyObject* value, PyObject** result) noexcept
    bint PyCoro_CheckExact(object one)
    Py_ssize_t Py_REFCNT(PyObject* one)

cdef object new_task = Task
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
        """Makes the first step of the coroutine. Returns its task, or None if it has returned; raises what it
        raises. The caller has made asyncio's notes (Dispatcher.enter).

        A task factory of the program decides itself when it makes the first step. A loop that is to tell
        which steps wait, or to wait with them, makes all steps itself.
        """
        cdef Dispatcher dispatcher = self.dispatcher
        cdef PyObject* result = NULL
        cdef PySendResult outcome
        cdef Relay relay
        if dispatcher.task_factory is not None or dispatcher.warns or dispatcher.blocks or dispatcher.debug:
            return with_locals(dispatcher.loop.create_task(coroutine))
        if not is_known or not PyCoro_CheckExact(coroutine):
            self.make(coroutine)
            return self.make_step()
        if self.task is None:
            self.make_spare()
        set_coroutine(self.task, coroutine)
        self.list_it(self.entry)
        enter_task(dispatcher.loop, self.task)
        PyContext_Enter(self.step.context)
        outcome = PyIter_Send(<PyObject*> coroutine, <PyObject*> None, &result)
        error = raised() if outcome == PYGEN_ERROR else None
        PyContext_Exit(self.step.context)
        leave_task(dispatcher.loop, self.task)
        if outcome != PYGEN_NEXT:
            self.unlist(self.entry)
            set_coroutine(self.task, idle)
            if self.is_untouched():
                if error is not None:
                    raise error
                Py_DECREF(<object> result)
                return None
            self.list_it(self.entry)
        relay = Relay.__new__(Relay)
        relay.coroutine = coroutine
        relay.waits = outcome == PYGEN_NEXT
        relay.error = error
        if result != NULL:
            relay.result = <object> result
            Py_DECREF(<object> result)
        return self.give_over(relay)

    cdef int make(self, object coroutine) except -1:
        """A task that has not begun, and whose first step is not due in the loop, but here."""
        cdef Dispatcher dispatcher = self.dispatcher
        cdef Handle first = dispatcher.first, last = dispatcher.last, later, following
        cdef Runner runner = dispatcher.runner
        cdef Py_ssize_t count = dispatcher.count
        dispatcher.first = dispatcher.last = None
        dispatcher.count = 0
        dispatcher.runner = nobody
        try:
            self.task = new_task(coroutine, loop=dispatcher.loop)
        finally:
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
        self.list_it, self.unlist, self.entry = listing_of(self.task)
        self.unlist(self.entry)
        memcpy(self.before, <PyObject*> self.task, task_size)
        return 0

    cdef bint is_untouched(self) except -1:
        """No variable is set in its context, nobody has it or the task, and nobody has changed either."""
        cdef PyObject* context = <PyObject*> self.step.context
        return (
            Py_REFCNT(context) == 2 and PyObject_Size(<object> context) == 0
            and memcmp(self.before, <PyObject*> self.task, task_size) == 0)

    cdef object give_over(self, Relay relay):
        """The task makes the step that its coroutine has made already, and the loop makes the others."""
        cdef unsigned char* mark = <unsigned char*> <PyObject*> self.task + must_cancel_at
        relay.task = self.task
        relay.cancelled = mark[0] & must_cancel_bit
        mark[0] &= ~must_cancel_bit                 # or it would throw, instead of looking what it waits for
        set_coroutine(self.task, relay)
        self.task._log_destroy_pending = True
        self.list_it = self.unlist = self.entry = None
        return self.make_step()

    cdef object make_step(self):
        """Makes the first step of the task, and returns the task."""
        cdef Handle step = self.step
        cdef PyObject* returned
        task, self.task, self.step = self.task, None, None
        PyContext_Enter(step.context)
        returned = step.invoke()
        if returned == NULL:
            raised()                                # the task keeps it
        else:
            Py_DECREF(<object> returned)
        PyContext_Exit(step.context)
        return with_locals(task)


cdef object with_locals(object task):
    """A task that is not done takes the values in threading.local along from the tasklet of its first
    step."""
    if get_loop().current.locals.own and locals_used() and not task.done():
        keep_for(task, keep_locals())
    return task
