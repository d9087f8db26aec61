"""What an object of select.poll() watches.

The object keeps it in its first field, a dict, which Python does not show; _check_layout() refuses any other
layout.
"""

import select

from cpython.object cimport PyObject

cdef extern from *:
    """
    typedef struct { PyObject_HEAD PyObject *watched; } SynclessPoll;
    """
    ctypedef struct SynclessPoll:
        PyObject* watched


def watched_by(poll) -> dict:
    """Descriptor -> events."""
    return <dict?> (<SynclessPoll*> <PyObject*> poll).watched


def _check_layout():
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(5, 3)
        poll.register(4, 1)
        if type(poll).__basicsize__ < 4 * sizeof(void*) or watched_by(poll) != {5: 3, 4: 1}:
            raise ImportError("this Python's poll objects have an unknown layout; syncless supports CPython 3.10 to 3.13")

_check_layout()
