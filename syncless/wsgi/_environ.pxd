from cpython.object cimport PyObject

from syncless.wsgi._head cimport head, head_limits


cdef enum:
    MEMORIES = 64
    MEMORY_BYTES = 2048

cdef struct Memory:                     # the fields of the last request of some connection, and what came of them
    long size                           # bytes; 0: none
    int fd
    int minor
    char keep_alive
    char bytes[MEMORY_BYTES]


cdef class EnvironMaker:
    cdef readonly dict template         # what is the same for every request of a server
    cdef list keys                      # environ keys of the known names, by index
    cdef char forwarding[256]           # whether only a trusted peer may send the known name
    cdef list last                      # the last value of each known name: clients repeat themselves
    cdef object last_path_raw
    cdef str last_path
    cdef str last_query
    cdef Memory* memories               # by descriptor, modulo MEMORIES
    cdef list remembered                # the environs that belong to them
    cdef long scan(self, const char* data, size_t size, const head_limits* limits, int fd, bint remember, head* found) noexcept
    cdef dict make(self, const char* data, head* found, int fd, object remote_addr, int remote_port, bint trusted)
    cdef void forget(self, int fd) noexcept
    cdef dict fields(self, const char* data, head* found, bint trusted)
    cdef str path(self, const char* raw, Py_ssize_t size, bint escaped)
