"""Slots of types, which the interpreter calls without looking for a method. See replacing.pyx."""

from cpython.object cimport PyObject, PyTypeObject

cdef extern from *:
    """
    #ifndef SYNCLESS_SLOTS
    #define SYNCLESS_SLOTS
    static initproc syncless_set_init(PyObject *type, initproc init) {
        initproc old = ((PyTypeObject *) type)->tp_init;
        ((PyTypeObject *) type)->tp_init = init;
        return old;
    }
    static newfunc syncless_set_new(PyObject *type, newfunc new_) {
        newfunc old = ((PyTypeObject *) type)->tp_new;
        ((PyTypeObject *) type)->tp_new = new_;
        return old;
    }
    static iternextfunc syncless_set_next(PyObject *type, iternextfunc next) {
        iternextfunc old = ((PyTypeObject *) type)->tp_iternext;
        ((PyTypeObject *) type)->tp_iternext = next;
        return old;
    }
    #endif
    """
    ctypedef int (*initproc)(object self, object args, PyObject* kwargs) except -1
    ctypedef PyObject* (*iternextfunc)(PyObject* self) except? NULL
    ctypedef PyObject* (*newfunc)(PyTypeObject* type, PyObject* args, PyObject* kwargs) except NULL
    initproc set_init "syncless_set_init" (object type, initproc init)
    newfunc set_new "syncless_set_new" (object type, newfunc new)
    iternextfunc set_next "syncless_set_next" (object type, iternextfunc next)
