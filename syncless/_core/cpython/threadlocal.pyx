"""threading.local per tasklet.

Fact: the interpreter finds the values of threading.local through fields of the OS thread's state. Danger:
tasklets that stand for threads share them. Decision: the fields are exchanged when such a tasklet runs, so
that every local, old or new, is per tasklet, and as fast as the interpreter's own. Price: a few exchanged
pointers per switch. Guarded by tests/patches/test_locals.py.

Each tasklet that has values of its own holds either them, while it does not run, or those of the thread,
while it does.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF

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
    """
    void syncless_exchange_locals(PyObject** held)

cdef bint separate = False


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
