"""The hook by which a tasklet can learn that the interpreter deletes an OS thread's state.

Before 3.13 threading joins a thread by a lock that the interpreter releases in that hook. watch_threads()
puts itself before it in all threads that run now: the lock is released, and then `woken` is called with it.
Since 3.13 there is no such lock, and watch_threads() does nothing.
"""

from cpython.object cimport PyObject

cdef extern from *:
    """
    typedef void (*syncless_woken_t)(PyObject *lock);
    #if PY_VERSION_HEX < 0x030D0000
    static syncless_woken_t syncless_woken;
    static void (*syncless_release)(void *reference);           /* the interpreter's own */

    static void syncless_thread_ended(void *reference) {
        /* after a fork the child deletes the states of the parent's threads: nobody waits for them there */
        int own = PyThreadState_Get()->on_delete_data == reference;
        PyObject *lock = PyWeakref_GET_OBJECT((PyObject *) reference);
        Py_INCREF(lock);
        syncless_release(reference);
        if (own && lock != Py_None)
            syncless_woken(lock);
        Py_DECREF(lock);
    }
    static void syncless_watch_threads(syncless_woken_t woken) {
        PyThreadState *state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
        syncless_woken = woken;
        for (; state != NULL; state = PyThreadState_Next(state))
            if (state->on_delete && (!syncless_release || state->on_delete == syncless_release)) {
                syncless_release = state->on_delete;
                state->on_delete = syncless_thread_ended;
            }
    }
    #else
    static void syncless_watch_threads(syncless_woken_t woken) {}
    #endif
    """
    ctypedef void (*woken_t "syncless_woken_t")(PyObject* lock) noexcept
    void watch_threads "syncless_watch_threads" (woken_t woken)
