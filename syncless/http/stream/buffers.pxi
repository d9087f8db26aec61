"""Buffers: memory for the bytes of connections.

A Buffer is a struct in its owner, too, which calls release() before it ends. Most need one block; those come
from a pool. One that grows beyond has memory of its own. `held` counts all of it, so that the owners can be
held to `budget`. The receive buffer `scratch` is borrowed by taking it out of its place: a finaliser that
switches tasklets while it is in use must not lend it twice. Tested by tests/http/units/test_buffers.py.
"""

cdef enum:
    POOL = 64                   # free blocks kept
    MOST = 1 << 30              # bytes in one buffer


@cython.final
cdef class Buffers:
    def __cinit__(self, budget):
        self.budget = budget
        self.scratch = <char*> PyMem_Malloc(RECEIVE)
        self.pool = <char**> PyMem_Malloc(POOL * sizeof(char*))
        if self.scratch == NULL or self.pool == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.free_blocks):
            PyMem_Free(self.pool[i])
        PyMem_Free(self.pool)
        PyMem_Free(self.scratch)

    cdef int reserve(self, Buffer* buffer, size_t size) except -1:
        """Make room for `size` more bytes. MemoryError leaves the buffer as it was."""
        if buffer.room - buffer.size >= size:
            return 0
        if size > MOST - buffer.size:
            raise MemoryError("more than a gigabyte in a buffer")
        if buffer.data == NULL and size <= BUFFER:
            buffer.data = self.take_block()
            buffer.room = BUFFER
            self.lent += 1
            self.held += BUFFER
            return 0
        return self.grow(buffer, max(<size_t> buffer.room * 2, buffer.size + size))

    cdef int grow(self, Buffer* buffer, size_t room) except -1:
        """Memory of its own for the buffer, of that many bytes."""
        cdef bint pooled = buffer.room == BUFFER
        cdef char* grown = <char*> PyMem_Realloc(NULL if pooled else buffer.data, room)
        if grown == NULL:
            raise MemoryError
        if pooled:
            memcpy(grown, buffer.data, buffer.size)
            self.give_block(buffer.data)
        elif buffer.data == NULL:
            self.lent += 1
        self.held += <Py_ssize_t> room - buffer.room
        buffer.data = grown
        buffer.room = <uint32_t> room
        return 0

    cdef int hold(self, Buffer* buffer, const char* data, size_t size) except -1:
        """As append(), with no more room than that takes where it is little: there may be many half-sent
        heads."""
        if buffer.data == NULL and size <= LITTLE:
            self.grow(buffer, size)
        return self.append(buffer, data, size)

    cdef void release(self, Buffer* buffer) noexcept:
        """Give the memory back; the buffer is empty then, and can be used again."""
        if buffer.data != NULL:
            self.lent -= 1
            self.held -= buffer.room
            if buffer.room == BUFFER:
                self.give_block(buffer.data)
            else:
                PyMem_Free(buffer.data)
        buffer.data = NULL
        buffer.size = buffer.room = 0

    cdef char* take_block(self) except NULL:
        """Return a block of BUFFER bytes."""
        cdef char* block
        if self.free_blocks:
            self.free_blocks -= 1
            return self.pool[self.free_blocks]
        block = <char*> PyMem_Malloc(BUFFER)
        if block == NULL:
            raise MemoryError
        return block

    cdef void give_block(self, char* block) noexcept:
        if self.free_blocks < POOL:
            self.pool[self.free_blocks] = block
            self.free_blocks += 1
        else:
            PyMem_Free(block)
