"""threading.local per tasklet.

Fact: the interpreter keeps the values of threading.local in a dictionary of the OS thread. Danger: tasklets that stand for threads share
them. Decision: the dictionary is changed with the tasklet, so that every local, old or new, is per tasklet, and as fast as the interpreter's
own. Price: 2 ns per switch. Guarded by tests/patches/test_locals.py.

`home` is the main tasklet's dictionary, which is also the loop's and that of all tasklets that have none of their own; borrowed, as it holds
the loop; NULL when the thread ends.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF

cdef extern from *:
    """
    static PyObject **syncless_thread_dict(void) { return &PyThreadState_Get()->dict; }
    """
    PyObject** syncless_thread_dict()

cdef bint separate = False


def separate_thread_locals(bint on) -> None:
    """Whether tasklets that start from now on have values of their own in threading.local, as threads have."""
    global separate
    separate = on


cdef void start_locals(PyObject* home) noexcept:
    """A tasklet starts."""
    cdef PyObject** place
    if separate:
        place = syncless_thread_dict()
        if home != NULL and place[0] == home:
            Py_DECREF(<object> home)
            place[0] = NULL


cdef void end_locals(PyObject* home) noexcept:
    """A tasklet has ended: what it had in threading.local is dropped."""
    cdef PyObject** place = syncless_thread_dict()
    cdef PyObject* old = place[0]
    if home != NULL and old != home:
        Py_INCREF(<object> home)
        place[0] = home
        Py_XDECREF(old)


cdef void put_locals_away(PyObject* home, PyObject** kept, bint main) noexcept:
    """A tasklet stops; `kept` is its own place for them."""
    cdef PyObject** place = syncless_thread_dict()
    if home == NULL or (place[0] == home and not main):
        return                                  # it shares them with main, who keeps them
    if place[0] == NULL:
        Py_INCREF(None)
        place[0] = <PyObject*> None             # it has a dictionary of its own, which has not been needed yet
    kept[0] = place[0]
    Py_INCREF(<object> home)
    place[0] = home


cdef void take_locals_out(PyObject* home, PyObject** kept) noexcept:
    """A tasklet goes on."""
    cdef PyObject** place
    if home == NULL or kept[0] == NULL:
        return
    place = syncless_thread_dict()
    Py_XDECREF(place[0])
    place[0] = kept[0]
    kept[0] = NULL
    if place[0] == <PyObject*> None:
        Py_DECREF(None)
        place[0] = NULL
