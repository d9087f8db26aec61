"""local: values of a tasklet's own."""

import weakref

from cpython.object cimport PyObject

from syncless._core.scheduler cimport BaseTasklet
from syncless._core.tasklet cimport Tasklet
from syncless._core.threadloop cimport get_loop

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
    """local(*args, **kwargs)\n--\n\nAttributes that each tasklet has for itself, as threading.local has them
    for each thread; they go when the tasklet ends.

    A subclass's ``__init__`` is called, with the arguments of the construction, for each tasklet that touches
    the object. Under the patch threading.local does the same. RuntimeError in a callback of the loop, where
    there is no tasklet.
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
            raise RuntimeError("a callback of the loop has no tasklet, and no values in a local")
        return tasklet

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
