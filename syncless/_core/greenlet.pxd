"""The part of greenlet's C API that the engine uses. Each module that calls it runs PyGreenlet_Import() once, first."""

from cpython.object cimport PyObject

cdef extern from "greenlet.h":
    ctypedef struct PyGreenlet:
        pass
    void PyGreenlet_Import()
    PyGreenlet* PyGreenlet_New(PyObject* run, PyGreenlet* parent) except NULL
    PyGreenlet* PyGreenlet_GetCurrent()
    PyObject* PyGreenlet_Switch(PyGreenlet* target, PyObject* args, PyObject* kwargs) except NULL
    int PyGreenlet_SetParent(PyGreenlet* greenlet, PyGreenlet* parent)
