from libc.stdint cimport int64_t

from syncless.http.scanner cimport HEAD_BEFORE_HEADERS, head, head_limits


cdef enum:
    MEMORY_BYTES = 2048
    LINE_BYTES = 256

cdef struct Memory:                     # the head of a connection's last request, and what came of its fields
    int64_t serial                      # another one for each other head; 0: it is not remembered whole
    int64_t claimed                     # a number of its own for each head that make() is to fill in
    int64_t used                        # when it last served, by the loop's clock
    long size                           # bytes; 0: none; negative: make() has not come yet
    long room                           # for so many of them
    int fd                              # its connection's
    int index                           # in EnvironMaker.memories, remembered and spares
    int minor
    char keep_alive
    long line_size                      # of the request line; 0: it was too long
    char line[LINE_BYTES]
    char found[HEAD_BEFORE_HEADERS]     # what scan() found, but for the fields
    char* bytes


cdef class EnvironMaker:
    cdef readonly dict template         # what is the same for every request of a server
    cdef list keys                      # environ keys of the known names, by index
    cdef char forwarding[256]           # whether only a trusted peer may send the known name
    cdef list last                      # the last value of each known name: clients repeat themselves
    cdef object last_path_raw
    cdef str last_path
    cdef str last_query
    cdef int most                       # memories there may be
    cdef int count                      # of them
    cdef int hand  # the next that is looked at when one is wanted and there may be no more
    cdef Memory** memories              # without gaps
    cdef Memory** by_fd                 # the same; NULL: this descriptor has none
    cdef int fd_capacity
    cdef const int64_t* clock           # the loop's
    cdef list remembered                # the environs that belong to them
    cdef list spares  # requests that have ended, and left the environ of such a head as it was
    cdef int64_t serials
    cdef int64_t scanned  # the serial of the head that scan() found last; 0: it is not remembered
    cdef long scan(self, const char* data, size_t size, const head_limits* limits, int fd, bint remember, head* found) noexcept
    cdef dict make(self, const char* data, head* found, int fd, object remote_addr, int remote_port, bint trusted)
    cdef Memory* memory_of(self, int fd) noexcept
    cdef Memory* claim(self, int fd, long size) noexcept
    cdef bint make_way(self, int fd) noexcept
    cdef void remember_line(self, Memory* memory, const char* line, long size, head* found) noexcept
    cdef void forget(self, int fd) noexcept
    cdef dict fields(self, const char* data, head* found, bint trusted)
    cdef str path(self, const char* raw, Py_ssize_t size, bint escaped)
