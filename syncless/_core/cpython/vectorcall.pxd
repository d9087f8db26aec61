"""Objects of a class in Cython that are called as functions are, without a tuple and a dict (PEP 590).

Takes: a class whose objects hold a pointer to a C function, and where. From then on they, and those of its
subclasses in Cython, are called by that function.
"""

from cpython.object cimport PyObject

cdef extern from *:
    """
    static void syncless_call_by(PyObject *type, Py_ssize_t offset) {
        ((PyTypeObject *)type)->tp_vectorcall_offset = offset;
        ((PyTypeObject *)type)->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
        PyType_Modified((PyTypeObject *)type);
    }
    """
    void syncless_call_by(object type, Py_ssize_t offset)

ctypedef PyObject* (*Vectorcall)(PyObject* self, PyObject** args, size_t count, PyObject* names) except NULL

cdef extern from "Python.h":
    # NULL with an exception, which the caller passes on
    PyObject* PyObject_Vectorcall(object function, PyObject** args, size_t count, PyObject* names) noexcept
    Py_ssize_t PyVectorcall_NARGS(size_t count) noexcept


cdef inline void call_by(object type, Py_ssize_t offset):
    syncless_call_by(type, offset)
    for each in type.__subclasses__():
        call_by(each, offset)
