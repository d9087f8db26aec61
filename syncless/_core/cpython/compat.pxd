"""One function for each thing that the versions of CPython do by different means.

Takes and gives plain objects; the callers need not know any version.
"""

from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030D0000
    #define Py_IsFinalizing _Py_IsFinalizing
    #endif

    /* Takes the exception that is set. */
    static PyObject *syncless_raised(void) {
    #if PY_VERSION_HEX >= 0x030C0000
        return PyErr_GetRaisedException();
    #else
        PyObject *kind, *value, *trace;
        PyErr_Fetch(&kind, &value, &trace);
        PyErr_NormalizeException(&kind, &value, &trace);
        if (trace)
            PyException_SetTraceback(value, trace);
        Py_XDECREF(kind);
        Py_XDECREF(trace);
        return value;
    #endif
    }

    static inline int syncless_in_main_interpreter(void) {
        return PyInterpreterState_Get() == PyInterpreterState_Main();
    }

    /* Another number after each change of the dict (PEP 509). Python 3.14 has none: there each call gives
       another. */
    static inline uint64_t syncless_dict_version(PyObject *dict) {
    #if PY_VERSION_HEX < 0x030E0000
    #pragma GCC diagnostic push
    #pragma GCC diagnostic ignored "-Wdeprecated-declarations"
        return ((PyDictObject *)dict)->ma_version_tag;
    #pragma GCC diagnostic pop
    #else
        static uint64_t always_another;
        return ++always_another;
    #endif
    }
    """
    bint Py_IsFinalizing()
    object raised "syncless_raised" ()
    bint in_main_interpreter "syncless_in_main_interpreter" () noexcept
    uint64_t dict_version "syncless_dict_version" (object mapping) noexcept
