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
    # NULL: an exception is set
    PyObject* PyGreenlet_Switch(PyGreenlet* target, PyObject* args, PyObject* kwargs) noexcept
    PyObject* PyGreenlet_Throw(PyGreenlet* target, PyObject* kind, PyObject* value, PyObject* trace) noexcept

ctypedef int (*Step)(PyObject* loop) noexcept           # a negative result: an exception is set

cdef extern from *:
    """
    #include <unistd.h>

    /* A greenlet begins at the recursion depth of its starter. A carrier begins at none: its C stack is
       checked by other means (3.12+), or its Python frames do not use it (3.11). Before 3.11 depth is C stack
       and must be inherited. */
    static void syncless_fresh_depth(void) {
    #if PY_VERSION_HEX >= 0x030C0000
        PyThreadState *ts = PyThreadState_Get();
        ts->py_recursion_remaining = ts->py_recursion_limit;
    #elif PY_VERSION_HEX >= 0x030B0000
        PyThreadState *ts = PyThreadState_Get();
        ts->recursion_remaining = ts->recursion_limit;
    #endif
    }

    static void syncless_stand_still(int *returned) {
        while (!*returned)
            pause();
    }

    /* The body of a greenlet of the engine: steps, until one returns 1 or failed() does, which is asked
       after a step that raised.

       Fact: before 3.14, an interpreter that ends makes each other thread that asks for the GIL call
       pthread_exit, which unwinds the thread's stack. Danger: below these frames are C++ frames of greenlet,
       and below those what is left of another greenlet's stack: the process crashes. Decision: the unwinding
       meets the cleanup of a variable here, which never returns, so the thread stands still, as in 3.14.
       Price: none before that; -fexceptions, without which C code has no cleanups. Guarded by
       tests/core/test_interpreter_ends.py. */
    static int syncless_at_base(int (*step)(PyObject *), int (*failed)(PyObject *), PyObject *loop) {
        __attribute__((cleanup(syncless_stand_still))) int returned = 0;
        int result;
        syncless_fresh_depth();
        do {
            result = step(loop);
            if (result < 0)
                result = failed(loop);
        } while (result == 0);
        returned = 1;
        return result;
    }
    """
    int at_base "syncless_at_base" (Step step, Step failed, PyObject* loop) except -1

cdef extern from *:
    """
    /* The target, if it begins now, begins that many bytes below its caller. */
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
