"""Bytes that Python code gives to native handlers, and replaces while they read them. See publish.h."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from syncless.native.threads cimport publish_view, reclaim_views


def publish(str name not None, data) -> None:
    """Gives the bytes a name, under which native handlers find them without a lock, in place of those that
    had it.

    Old bytes are freed when no handler can be reading them any more. None takes the name away. A process can
    have 256 names.
    """
    cdef bytes key = name.encode()
    cdef Py_buffer view
    cdef int outcome
    if data is None:
        outcome = publish_view(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), NULL, 0)
    else:
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        outcome = publish_view(
            PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), <const char*> view.buf, view.len)
        PyBuffer_Release(&view)
    if outcome < 0:
        raise MemoryError(f"cannot publish {name!r}: no memory, or more than 256 names")


def reclaim() -> int:
    """Frees old bytes that were published; how many readers may still have."""
    return reclaim_views()
