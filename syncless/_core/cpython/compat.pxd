"""One function for each thing that the versions of CPython do by different means.

Takes and gives plain objects; the callers need not know any version.
"""

from cpython.object cimport PyObject
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

    /* The exception that is set, if there is one, is set aside and put back. */
    static inline void syncless_set_aside(PyObject *raised[3]) {
    #if PY_VERSION_HEX >= 0x030C0000
        raised[0] = PyErr_GetRaisedException();
    #else
        PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
    #endif
    }

    static inline void syncless_put_back(PyObject *raised[3]) {
    #if PY_VERSION_HEX >= 0x030C0000
        PyErr_SetRaisedException(raised[0]);
    #else
        PyErr_Restore(raised[0], raised[1], raised[2]);
    #endif
    }

    /* Where a frame is in its code: its line is looked up later, if it can be. */
    static inline int syncless_place_in(PyObject *frame) {
    #if PY_VERSION_HEX >= 0x030B0000
        return PyFrame_GetLasti((PyFrameObject *)frame);
    #else
        return PyFrame_GetLineNumber((PyFrameObject *)frame);
    #endif
    }

    static inline int syncless_line_at(PyObject *code, int place) {
    #if PY_VERSION_HEX >= 0x030B0000
        return PyCode_Addr2Line((PyCodeObject *)code, place);
    #else
        (void)code;
        return place;
    #endif
    }

    /* The state of this OS thread if it runs Python code but has given up the GIL for the moment, else NULL.
       The GIL need not be held. `holds`: whether it holds it. */
    static inline PyThreadState *syncless_detached_state(int *holds) {
        PyThreadState *mine = PyGILState_GetThisThreadState();
    #if PY_VERSION_HEX >= 0x030D0000
        *holds = mine != NULL && mine == PyThreadState_GetUnchecked();
    #else
        *holds = mine != NULL && mine == _PyThreadState_UncheckedGet();
    #endif
        return *holds ? NULL : mine;
    }

    /* As sys.set_asyncgen_hooks(), without its arguments by name and its audit events, NULL: no hook; and
       sys.set_coroutine_origin_tracking_depth(). */
    static inline void syncless_set_asyncgen_hooks(PyObject *first, PyObject *last, int depth) {
        PyThreadState *state = PyThreadState_Get();
        state->coroutine_origin_tracking_depth = depth;
        Py_XSETREF(state->async_gen_firstiter, Py_XNewRef(first));
        Py_XSETREF(state->async_gen_finalizer, Py_XNewRef(last));
    }

    static inline int syncless_in_main_interpreter(void) {
        return PyInterpreterState_Get() == PyInterpreterState_Main();
    }

    #if PY_VERSION_HEX < 0x030E0000
    /* Another number after each change of the dict (PEP 509). */
    static inline uint64_t syncless_dict_version(PyObject *dict) {
    #pragma GCC diagnostic push
    #pragma GCC diagnostic ignored "-Wdeprecated-declarations"
        return ((PyDictObject *)dict)->ma_version_tag;
    #pragma GCC diagnostic pop
    }
    #else
    /* Since Python 3.14 dicts have no version. The first change of a dict after this question makes the
       number another one, and so does a change of any other dict that was asked about. */
    static uint64_t syncless_changes;
    static int syncless_watcher = -1;
    static int syncless_on_change(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *new) {
        if (event != PyDict_EVENT_DEALLOCATED) {
            syncless_changes++;
            PyDict_Unwatch(syncless_watcher, dict);
        }
        return 0;
    }
    static inline uint64_t syncless_dict_version(PyObject *dict) {
        if (syncless_watcher < 0 && (syncless_watcher = PyDict_AddWatcher(syncless_on_change)) < 0) {
            PyErr_Clear();                      /* others have taken all eight: nothing can be known */
            return ++syncless_changes;
        }
        PyDict_Watch(syncless_watcher, dict);
        return syncless_changes;
    }
    #endif
    """
    bint Py_IsFinalizing()
    ctypedef struct PyThreadState:
        pass
    PyThreadState* detached_state "syncless_detached_state" (int* holds) noexcept nogil
    object raised "syncless_raised" ()
    void set_aside "syncless_set_aside" (PyObject** raised) noexcept
    void put_back "syncless_put_back" (PyObject** raised) noexcept
    int place_in "syncless_place_in" (PyObject* frame) noexcept
    int line_at "syncless_line_at" (PyObject* code, int place) noexcept
    void set_asyncgen_hooks "syncless_set_asyncgen_hooks" (
        PyObject* first, PyObject* last, int depth) noexcept
    bint in_main_interpreter "syncless_in_main_interpreter" () noexcept
    uint64_t dict_version "syncless_dict_version" (object mapping) noexcept
