from cpython.list cimport PyList_GET_ITEM, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t

from syncless._core.loop cimport Loop
from syncless.http.wire.wire cimport HEAD_BEFORE_HEADERS, head, head_limits


cdef enum:
    LINE_BYTES = 256

cdef struct Memory:                     # a head, and what came of its fields
    int64_t serial                      # differs for each other head; 0: it is not remembered whole
    int64_t claimed                     # a number of its own for each head of which something is to be made
    int64_t used                        # when it last served, by the loop's clock
    long size                           # bytes of its fields; 0: none; negative: nothing is made of them yet
    long room                           # bytes for fields that it can hold
    int fd                              # of the connection whose last one it was; -1: first requests share it
    int index                           # in RequestHeads.memories, made and spares
    int minor
    char keep_alive
    long line_size                      # of the request line; 0: it was too long
    char line[LINE_BYTES]
    char found[HEAD_BEFORE_HEADERS]     # the result of scan(), without the fields
    char* bytes


cdef class RequestHeads:
    cdef int most                       # memories there may be
    cdef int count                      # of them
    cdef int hand  # the next that is looked at when one is wanted and there may be no more
    cdef Memory** memories              # without gaps
    cdef Memory** by_fd                 # the same; NULL: this descriptor has none
    cdef int fd_capacity
    cdef Loop loop                      # for its clock
    cdef int64_t serials
    cdef int64_t scanned  # the serial of the head that scan() found last; 0: it is not remembered
    cdef Memory* memory                 # that scan() has taken its fields from or has claimed; NULL: none
    cdef Memory first                   # of the last first request, whichever connection it came on
    cdef object made_of_first
    # objects that an application keeps with each memory; they leave with it
    cdef list made                      # of its fields
    cdef list spares                    # exchanges that have ended, to answer the same head again

    cdef long scan(
        self, const char* data, size_t size, const head_limits* limits, int fd, bint remember, bint share,
        head* found
    ) noexcept
    cdef int keep_made(self, int fd, int64_t claimed, object made) except -1
    cdef Memory* claim_first(self, const char* fields, long size) noexcept
    cdef void forget(self, int fd) noexcept
    cdef Memory* claim(self, int fd, long size) noexcept
    cdef bint make_way(self, int fd) noexcept
    cdef void remember_line(self, Memory* memory, const char* line, long size, head* found) noexcept


cdef inline Memory* memory_of(RequestHeads heads, int fd) noexcept:
    return heads.by_fd[fd] if <unsigned> fd < <unsigned> heads.fd_capacity else NULL


cdef inline object made_of(RequestHeads heads, const Memory* memory):
    return heads.made_of_first if memory.fd < 0 else heads.made[memory.index]


cdef inline object swapped_spare(RequestHeads heads, const Memory* memory, object spare):
    """Keep this spare, or None, with the memory; return the one that was kept."""
    before = <object> PyList_GET_ITEM(heads.spares, memory.index)
    Py_INCREF(spare)
    PyList_SET_ITEM(heads.spares, memory.index, spare)
    Py_DECREF(before)
    return before
