"""The part of greenlet's C API that the engine uses, and what a carrier needs beside it.

Each module that calls it runs PyGreenlet_Import() once, first.
"""

from cpython.object cimport PyObject

cdef extern from "greenlet.h":
    ctypedef struct PyGreenlet:
        pass
    void PyGreenlet_Import()
    PyGreenlet* PyGreenlet_New(PyObject* run, PyGreenlet* parent) except NULL
    PyGreenlet* PyGreenlet_GetCurrent()
    PyObject* PyGreenlet_Switch(PyGreenlet* target, PyObject* args, PyObject* kwargs) noexcept      # NULL: an exception is set

cdef extern from *:
    """
    /* A greenlet begins at the recursion depth of whoever starts it. A carrier begins at none: its C stack is checked by other
       means (3.12+), or its Python frames do not use it (3.11). Before 3.11 depth is C stack and must be inherited. */
    static void syncless_fresh_depth(void) {
    #if PY_VERSION_HEX >= 0x030C0000
        PyThreadState *ts = PyThreadState_Get();
        ts->py_recursion_remaining = ts->py_recursion_limit;
    #elif PY_VERSION_HEX >= 0x030B0000
        PyThreadState *ts = PyThreadState_Get();
        ts->recursion_remaining = ts->recursion_limit;
    #endif
    }
    """
    void fresh_recursion_depth "syncless_fresh_depth" ()

cdef extern from *:
    """
    /* The target, if it begins now, begins so many bytes below its caller. */
    static int syncless_switch_further_down(PyGreenlet *target, size_t bytes) {
        volatile char *between = __builtin_alloca(bytes + 1);
        PyObject *returned;
        between[0] = 0;
        returned = PyGreenlet_Switch(target, NULL, NULL);
        Py_XDECREF(returned);
        return returned ? 0 : -1;
    }
    """
    int switch_further_down "syncless_switch_further_down" (PyGreenlet* target, size_t bytes) except -1
