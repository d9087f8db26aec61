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
    static destructor syncless_finalize_of(PyObject *type) {
        return ((PyTypeObject *)type)->tp_finalize;
    }
    static void syncless_set_finalize(PyObject *type, destructor finalize) {
        ((PyTypeObject *)type)->tp_finalize = finalize;
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
    ctypedef void (*destructor)(PyObject* self) noexcept
    initproc set_init "syncless_set_init" (object type, initproc init)
    destructor finalize_of "syncless_finalize_of" (object type)
    void set_finalize "syncless_set_finalize" (object type, destructor finalize)
    newfunc set_new "syncless_set_new" (object type, newfunc new)
    iternextfunc set_next "syncless_set_next" (object type, iternextfunc next)
