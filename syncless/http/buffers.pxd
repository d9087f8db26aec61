from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy

cdef enum:
    BUFFER = 8192       # bytes of a pooled block

cdef struct Buffer:     # all zero: empty, and without memory
    char* data          # a pooled block where room is BUFFER
    uint32_t size       # bytes used
    uint32_t room

cdef class Buffers:
    cdef char* scratch          # RECEIVE bytes; NULL while one borrows it
    cdef char** pool            # blocks that are free
    cdef Py_ssize_t free_blocks
    cdef Py_ssize_t lent        # buffers that have memory
    cdef int64_t held           # bytes of memory they have
    cdef int64_t budget         # bytes that they should have at most
    cdef int64_t received, sent     # bytes that have passed, of all connections, without TLS
    cdef int reserve(self, Buffer* buffer, size_t size) except -1
    cdef int hold(self, Buffer* buffer, const char* data, size_t size) except -1
    cdef void release(self, Buffer* buffer) noexcept
    cdef int grow(self, Buffer* buffer, size_t room) except -1
    cdef char* take_block(self) except NULL
    cdef void give_block(self, char* block) noexcept

    cdef inline int append(self, Buffer* buffer, const char* data, size_t size) except -1:
        if buffer.room - buffer.size < size:
            self.reserve(buffer, size)
        memcpy(buffer.data + buffer.size, data, size)
        buffer.size += <uint32_t> size
        return 0
