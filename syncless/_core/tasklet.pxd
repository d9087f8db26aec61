"""A tasklet's life and how it comes to be. See tasklet.pyx."""

from cpython.contextvars cimport PyContext_Copy
from cpython.object cimport PyObject, PyObject_Size

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet, Scheduler
from syncless._core.wait.waitqueue cimport WaitQueue

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)


cdef class Tasklet(BaseTasklet):
    cdef object function            # None once it has ended
    cdef tuple args
    cdef dict kwargs
    cdef object context             # contextvars.Context in which it runs
    cdef str _name
    cdef object _result
    cdef BaseException _exception
    cdef list callbacks
    cdef WaitQueue joiners
    cdef readonly bint is_main      # it stands for code that was not spawned
    cdef object __weakref__

    # its life, in this order; a request and a tasklet of Stackless define some of it themselves
    cdef int run_inline(self, Scheduler loop) except -1
    cdef PyObject* execute(self, Scheduler loop) noexcept
    cdef int finish(self, Scheduler loop) except -1
    cdef int failed(self, Scheduler loop) except -1
    cdef int tell(self, Scheduler loop) except -1

    cdef str label(self)
    cdef BaseTasklet acts_for(self)
    cdef object owner_of_locks(self)
    cdef object step(self)


cdef unsigned long ident_of(BaseTasklet tasklet) noexcept

cdef inline int begin_anew(Tasklet one) except -1:
    """An object that has ended becomes another tasklet, which shows nothing of the last one. It must have no
    result."""
    one.serial = one.parent = one.switches = 0
    one.cpu = 0
    if one._name is not None:
        one._name = None
    if one.switch_hook is not None:
        one.switch_hook = None
    return 0


cdef inline int renew_context(Tasklet one, object fresh) except -1:
    """It gets a copy of the fresh context, in which one variable is set (see slots_here): its own, if no
    other one is set there and nobody else has it."""
    cdef object context = one.context
    if context is None or Py_REFCNT(<PyObject*> context) > 2 or PyObject_Size(context) != 1:
        one.context = PyContext_Copy(fresh)
    return 0


cdef int refuse_spawn() except -1


cdef int become_main(Loop loop, Tasklet main) except -1
