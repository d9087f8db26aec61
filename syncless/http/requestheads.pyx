"""RequestHeads: reads request heads, and remembers the last one of each connection that has been used before,
and one that has begun connections twice in a row.

Takes bytes, gives what the scanner found (head.h). A client sends the same fields with each request of a
connection, whatever it asks for, and with each new connection: comparing them with the last ones is faster
than reading them again. Keeps for each remembered head what an Application has made of it, without knowing
what that is; of one that connections share, what is said of the client is another each time.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport int64_t
from libc.string cimport memcmp, memcpy, memset

from syncless._core.arrays cimport with_place_for
from syncless._core.threadloop cimport get_loop
from syncless.http.wire.wire cimport (
    HEAD_BEFORE_HEADERS, MEMORY_MOST, head, head_limits, scan_fields, scan_line,
)

cdef enum:
    LOOKS = 8                   # memories that are looked at for one that can be taken away
    SILENT = 1000000000         # ns after which a connection's memory may be another's


cdef class RequestHeads:
    """RequestHeads(most): remembers the heads of that many connections."""

    def __init__(self, int most=0):
        self.loop = get_loop()
        self.most = most
        self.memories = <Memory**> PyMem_Malloc((most or 1) * sizeof(Memory*))
        if self.memories == NULL:
            raise MemoryError
        self.made = []
        self.spares = []
        self.first.fd = -1

    def __dealloc__(self):
        cdef int i
        for i in range(self.count):
            PyMem_Free(self.memories[i].bytes)
            PyMem_Free(self.memories[i])
        PyMem_Free(self.memories)
        PyMem_Free(self.first.bytes)
        PyMem_Free(self.by_fd)

    cdef long scan(
        self, const char* data, size_t size, const head_limits* limits, int fd, bint remember, bint share,
        head* found
    ) noexcept:
        """As head_scan() of head.h; header_count is -1 where the fields are those that were remembered for
        the descriptor. `scanned` then says whether all of the head is.

        `remember`: the connection has been used before, so it may well be used again. Else `share`: what is
        made of the fields depends on nothing but them and the client's address.
        """
        cdef Memory* memory = memory_of(self, fd)
        cdef long used, line
        if share and not remember and self.most:
            memory = &self.first
        self.memory = memory
        if memory != NULL and memory.size > 0:
            memory.used = self.loop.clock.now
            line = memory.line_size
            if line and line + memory.size <= <long> size and memcmp(data, memory.line, line) == 0 \
                    and memcmp(data + line, memory.bytes, memory.size) == 0:
                memcpy(found, memory.found, HEAD_BEFORE_HEADERS)
                found.header_count = -1
                self.scanned = memory.serial
                return line + memory.size
        self.scanned = 0
        line = scan_line(data, size, limits, found)
        if line <= 0:
            return line
        if memory != NULL and memory.size > 0 and memory.size <= <long> size - line \
                and memory.minor == found.minor and line + memory.size <= limits.total and memcmp(data + line,
                    memory.bytes, memory.size) == 0:
            found.header_count = -1
            found.content_length = -1
            found.chunked = found.expect_continue = found.websocket = 0
            found.keep_alive = memory.keep_alive
            self.remember_line(memory, data, line, found)
            return line + memory.size
        used = scan_fields(data, size, line, limits, found)
        self.memory = NULL
        if (remember or memory == &self.first) and used > 0 and used - line <= MEMORY_MOST \
                and found.content_length < 0 and not found.chunked and not found.expect_continue \
                and not found.websocket:
            if remember:
                memory = self.claim(fd, used - line)
            else:
                memory = self.claim_first(data + line, used - line)
            if memory != NULL:
                self.memory = memory
                self.serials += 1
                memory.claimed = self.serials
                memory.used = self.loop.clock.now
                memory.minor = found.minor
                memory.keep_alive = found.keep_alive
                memcpy(memory.bytes, data + line, used - line)
                self.remember_line(memory, data, line, found)
                memory.size = -(used - line)    # until keep_made(): making may fail
        return used

    cdef void remember_line(self, Memory* memory, const char* line, long size, head* found) noexcept:
        memory.serial = memory.line_size = 0
        if size <= LINE_BYTES:
            if memory.fd >= 0:
                self.serials += 1
                self.scanned = memory.serial = self.serials
            memory.line_size = size
            memcpy(memory.line, line, size)
            memcpy(memory.found, found, HEAD_BEFORE_HEADERS)

    cdef Memory* claim(self, int fd, long size) noexcept:
        """Return the descriptor's memory, with room for `size` bytes of fields; NULL if it can have none.

        Called while the bytes of a head are in use: objects that belong to an older memory stay where they
        are, and leave when the application puts others in their place.
        """
        cdef Memory* memory = memory_of(self, fd)
        if memory == NULL:
            if not self.make_way(fd):
                return NULL
            if self.count < self.most:
                memory = <Memory*> PyMem_Malloc(sizeof(Memory))
                if memory == NULL:
                    return NULL
                memset(memory, 0, sizeof(Memory))
                try:
                    if len(self.made) == self.count:
                        self.made.append(None)
                    if len(self.spares) == self.count:
                        self.spares.append(None)
                except MemoryError:
                    PyMem_Free(memory)
                    return NULL
                memory.index = self.count
                self.memories[self.count] = memory
                self.count += 1
            else:
                memory = self.memories[self.hand]
                self.by_fd[memory.fd] = NULL
            memory.fd = fd
            memory.size = memory.line_size = memory.serial = 0
            self.by_fd[fd] = memory
        return memory if has_room(memory, size) else NULL

    cdef Memory* claim_first(self, const char* fields, long size) noexcept:
        """Return the memory of first requests, if the last one had the same fields. They are noted for the
        next."""
        cdef Memory* memory = &self.first
        if memory.size == -size and memcmp(memory.bytes, fields, size) == 0:
            return memory
        memory.size = memory.line_size = memory.claimed = 0
        if has_room(memory, size):
            memcpy(memory.bytes, fields, size)
            memory.size = -size
        return NULL

    cdef bint make_way(self, int fd) noexcept:
        """Return whether there is a place for one memory more: a new one, or that of a connection that has
        been silent for SILENT, at the hand."""
        cdef void* grown
        cdef int _
        if fd >= self.fd_capacity:
            grown = with_place_for(fd, self.by_fd, &self.fd_capacity, sizeof(Memory*))
            if grown == NULL:
                return False
            self.by_fd = <Memory**> grown
        if self.count < self.most:
            return True
        for _ in range(min(LOOKS, self.count)):
            self.hand = (self.hand + 1) % self.count
            if self.loop.clock.now - self.memories[self.hand].used > SILENT:
                return True
        return False

    cdef void forget(self, int fd) noexcept:
        """The connection is closed: drops its memory."""
        cdef Memory* memory = memory_of(self, fd)
        cdef Memory* last
        cdef Py_ssize_t at
        if memory == NULL:
            return
        at = memory.index
        self.count -= 1
        last = self.memories[self.count]
        self.memories[at] = last
        last.index = at
        self.by_fd[fd] = NULL
        PyMem_Free(memory.bytes)
        PyMem_Free(memory)
        made, spare = self.made[at], self.spares[at]    # they go last: that may run a finaliser
        self.made[at] = self.made[self.count]
        self.spares[at] = self.spares[self.count]
        self.made[self.count] = self.spares[self.count] = None
        made = spare = None

    cdef int keep_made(self, int fd, int64_t claimed, object made) except -1:
        """Keep the object that the application has made of the head with that number, if it is still
        there."""
        cdef Memory* memory = &self.first if fd < 0 else memory_of(self, fd)
        if memory != NULL and memory.size < 0 and memory.claimed == claimed:
            memory.size = -memory.size
            if fd < 0:
                self.made_of_first = made
            else:
                self.made[memory.index] = made
        return 0


cdef bint has_room(Memory* memory, long size) noexcept:
    """Return whether there is room now for so many bytes of fields."""
    cdef char* grown
    if memory.room < size:
        grown = <char*> PyMem_Realloc(memory.bytes, size)
        if grown == NULL:
            return False
        memory.bytes = grown
        memory.room = size
    return True
