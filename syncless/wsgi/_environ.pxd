from libc.stdint cimport int64_t, uint64_t

from syncless.wsgi._head cimport HEAD_BEFORE_HEADERS, head, head_limits


cdef enum:
    MEMORIES = 64
    MEMORY_BYTES = 2048
    LINE_BYTES = 256

cdef struct Memory:                     # the head of the last request of some connection, and what came of its fields
    int64_t serial                      # another one for each other head; 0: it is not remembered whole
    long size                           # bytes; 0: none
    int fd
    int minor
    char keep_alive
    long line_size                      # of the request line; 0: it was too long
    char line[LINE_BYTES]
    char found[HEAD_BEFORE_HEADERS]     # what scan() found, but for the fields
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
    cdef list spares                    # requests that have ended, and left the environ of such a head as it was
    cdef int64_t serials
    cdef int64_t scanned                # the serial of the head that scan() found last; 0: it is not remembered
    cdef long scan(self, const char* data, size_t size, const head_limits* limits, int fd, bint remember, head* found) noexcept
    cdef dict make(self, const char* data, head* found, int fd, object remote_addr, int remote_port, bint trusted)
    cdef void remember_line(self, Memory* memory, const char* line, long size, head* found) noexcept
    cdef void forget(self, int fd) noexcept
    cdef dict fields(self, const char* data, head* found, bint trusted)
    cdef str path(self, const char* raw, Py_ssize_t size, bint escaped)

cdef uint64_t dict_version(dict mapping) noexcept
