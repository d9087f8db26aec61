"""The end of an OS thread wakes the tasklets that join it.

Fact: up to CPython 3.12 threading joins a thread by a lock that the interpreter releases in C when the thread
state is deleted, so no replaced method of the lock sees it. Danger: the tasklets that wait for the lock would
wait for ever. Decision: the thread state's own hook for its end (`on_delete`) calls the interpreter's
function first and then wakes the first waiter of the lock. Since 3.13 there is no such lock; threads are
joined through their handle (patches/threads.py). Guarded by tests/patches/test_threads.py.
"""

from cpython.object cimport PyObject

from syncless._core.cpython.locks cimport wake_first

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
    void syncless_watch_threads(woken_t woken)


cdef void thread_ended(PyObject* lock) noexcept:
    wake_first(<object> lock)


def watch_threads() -> None:
    """Tasklets may join the OS threads that have been started so far."""
    syncless_watch_threads(thread_ended)
