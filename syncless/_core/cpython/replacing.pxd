"""Slots of types, which the interpreter calls without looking for a method. See replacing.pyx."""

from cpython.object cimport PyObject, PyTypeObject

cdef extern from "Python.h":
    ctypedef int (*initproc)(object self, object args, PyObject* kwargs) except -1
    ctypedef PyObject* (*iternextfunc)(PyObject* self) except? NULL
    ctypedef PyObject* (*newfunc)(PyTypeObject* type, PyObject* args, PyObject* kwargs) except NULL
    ctypedef void (*destructor)(PyObject* self) noexcept

cdef extern from *:
    size_t INIT "offsetof(PyTypeObject, tp_init)"
    size_t NEW "offsetof(PyTypeObject, tp_new)"
    size_t NEXT "offsetof(PyTypeObject, tp_iternext)"
    size_t FINALIZE "offsetof(PyTypeObject, tp_finalize)"

cdef void* slot_of(object type, size_t slot) noexcept
cdef int replace_slot(object type, size_t slot, str name, void* old, void* new) except -1
