"""C arrays that grow: lists that double, and tables with a place for each descriptor."""

from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Realloc
from libc.string cimport memcpy


cdef inline void* doubled(void* items, Py_ssize_t* capacity, size_t size, Py_ssize_t first) except NULL:
    """The list with twice the capacity, or with its first one. If there is no memory, it is left as it is."""
    cdef Py_ssize_t more = capacity[0] * 2 or first
    cdef void* grown = PyMem_Realloc(items, <size_t> more * size)
    if grown == NULL:
        raise MemoryError
    capacity[0] = more
    return grown


cdef inline void* with_place_for(int fd, void* table, int* capacity, size_t size) noexcept:
    """The table with a place for that descriptor, zeroed if it is new; NULL if there is no memory, and it is
    left as it is. Fact: pages that nobody has touched cost nothing, so new ones are asked for, not zeroed."""
    cdef int more = max(256, capacity[0])
    cdef void* grown
    while more <= fd:
        more *= 2
    grown = PyMem_Calloc(more, size)
    if grown != NULL:
        if table != NULL:
            memcpy(grown, table, capacity[0] * size)
            PyMem_Free(table)
        capacity[0] = more
    return grown
