"""threading.local per tasklet.

Fact: the interpreter finds the values of threading.local through fields of the OS thread's state. Danger:
tasklets that stand for threads share them. Decision: the fields are exchanged when such a tasklet runs, so
that every local, old or new, is per tasklet, and as fast as the interpreter's own. Price: a few exchanged
pointers per switch. Guarded by tests/patches/test_locals.py.

Each tasklet that has values of its own holds either them, while it does not run, or those of the thread,
while it does. A task of asyncio, which runs in several tasklets one after the other, has KeptLocals.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF

cdef extern from *:
    """
    static inline void syncless_exchange(PyObject **field, PyObject **held) {
        PyObject *value = *field;
        *field = *held;
        *held = value;
    }
    static void syncless_exchange_locals(PyObject **held) {
        PyThreadState *state = PyThreadState_Get();
        syncless_exchange(&state->dict, &held[0]);
    #if PY_VERSION_HEX >= 0x030D0000
        syncless_exchange(&state->threading_local_key, &held[1]);
        syncless_exchange(&state->threading_local_sentinel, &held[2]);
    #endif
    }
    static int syncless_locals_used(void) {
        PyThreadState *state = PyThreadState_Get();
    #if PY_VERSION_HEX >= 0x030D0000
        return state->threading_local_key != NULL;
    #else
        return state->dict != NULL && PyDict_GET_SIZE(state->dict) > 1;
    #endif
    }
    """
    bint syncless_locals_used() noexcept
    void syncless_exchange_locals(PyObject** held)

cdef bint separate = False
cdef Py_ssize_t kept_count = 0


def separate_thread_locals(bint on) -> None:
    """Whether tasklets that start from now on have values of their own in threading.local, as threads
    have."""
    global separate
    separate = on


cdef void start_locals(Locals* locals) noexcept:
    """A tasklet starts."""
    if separate:
        locals.own = True
        syncless_exchange_locals(locals.held)


cdef void exchange_locals(Locals* locals) noexcept:
    """A tasklet that has values of its own stops, or goes on."""
    syncless_exchange_locals(locals.held)


cdef void end_locals(Locals* locals) noexcept:
    """A tasklet has ended: drops its values in threading.local."""
    if locals.own:
        syncless_exchange_locals(locals.held)
        locals.own = False
        drop_locals(locals)


cdef void drop_locals(Locals* locals) noexcept:
    cdef PyObject* value
    cdef int number
    for number in range(3):
        value = locals.held[number]
        locals.held[number] = NULL
        Py_XDECREF(value)


# -- values whose owner is no tasklet ------------------------------------------------------------------------


cdef class KeptLocals:
    """See threadlocal.pxd. The collector of cyclic garbage sees what it holds."""

    def __cinit__(self):
        global kept_count
        kept_count += 1

    def __dealloc__(self):
        global kept_count
        kept_count -= 1


cdef bint locals_used() noexcept:
    """Whether the running tasklet, which has values of its own, has set any. One entry up to Python 3.12 is
    asyncio's note of the running loop, which the caller must have made."""
    return syncless_locals_used()


cdef KeptLocals keep_locals():
    """The values of the running tasklet, which has none from now on."""
    cdef KeptLocals kept = KeptLocals()
    exchange_kept(kept)
    return kept


cdef int exchange_kept(KeptLocals kept) except -1:
    """Its owner begins to run, or stops."""
    cdef PyObject* held[3]
    held[0] = owned(kept.values)
    held[1] = owned(kept.key)
    held[2] = owned(kept.sentinel)
    syncless_exchange_locals(held)
    kept.values = given(held[0])
    kept.key = given(held[1])
    kept.sentinel = given(held[2])
    return 0


cdef inline PyObject* owned(object value) noexcept:
    if value is None:
        return NULL
    Py_INCREF(value)
    return <PyObject*> value


cdef inline object given(PyObject* value):
    if value == NULL:
        return None
    made = <object> value
    Py_XDECREF(value)
    return made
