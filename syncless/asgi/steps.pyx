"""The first step of a task, made at once where it begins.

asyncio makes a task's first step in the loop's next round. A request's coroutine mostly ends in it, so it is
made in the tasklet of the request: no turn of the loop, and no other callback, comes between. Takes the
rounds of the loop (asyncio/rounds.pyx), in which all further steps are made.
"""

from asyncio import Task

from cpython.contextvars cimport PyContext_Enter, PyContext_Exit
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF

from syncless._core.cpython.compat cimport raised
from syncless._core.cpython.threadlocal cimport keep_locals, locals_used
from syncless._core.threadloop cimport get_loop
from syncless.asyncio.rounds cimport Caller, Handle, Rounds, keep_for

cdef extern from "Python.h":
    PyObject* PyObject_Call(PyObject* function, PyObject* args, PyObject* kwargs) noexcept

cdef object new_task = Task
# Stands for a caller while a task is made: no other one is called for its first step.
cdef Caller nobody = Caller.__new__(Caller)


cdef object begin_task(Rounds rounds, object coroutine):
    """The coroutine as a task of the loop, whose first step has been made. The caller has made asyncio's
    notes (Rounds.enter).

    A task factory of the program decides itself when it makes the first step. A loop that is to tell which
    steps wait, or to wait with them, makes all steps itself.
    """
    cdef Handle first = rounds.first, last = rounds.last, step, later, following
    cdef Caller caller = rounds.caller
    cdef Py_ssize_t count = rounds.count
    cdef PyObject* returned
    if rounds.task_factory is not None or rounds.warns or rounds.blocks or rounds.debug:
        return with_locals(rounds.loop.create_task(coroutine))
    rounds.first = rounds.last = None
    rounds.count = 0
    rounds.caller = nobody
    try:
        task = new_task(coroutine, loop=rounds.loop)
    finally:
        step = rounds.first
        rounds.first = first
        rounds.last = last
        rounds.count = count
        rounds.caller = caller
    later = step.after
    step.after = None
    while later is not None:                        # callbacks that finalisers have added meanwhile
        following = later.after
        later.after = None
        rounds.append(later)
        later = following
    context = step.context
    PyContext_Enter(context)
    returned = PyObject_Call(<PyObject*> step.callback, <PyObject*> step.args, NULL)
    if returned == NULL:
        raised()                                    # the task keeps it
    else:
        Py_DECREF(<object> returned)
    PyContext_Exit(context)
    return with_locals(task)


cdef object with_locals(object task):
    """A task that is not done takes the values in threading.local along from the tasklet of its first
    step."""
    if get_loop().current.locals.own and locals_used() and not task.done():
        keep_for(task, keep_locals())
    return task
