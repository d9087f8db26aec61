"""The table of descriptors. See fdtable.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint16_t, uint32_t

from syncless._core.poll.poller cimport Poller
from syncless._core.wait.waitqueue cimport WaitQueue


cdef struct FdEntry:
    uint32_t gen  # grows when the number is forgotten, so that late events of its last owner are told apart
    uint8_t armed                   # the directions that the poller will report
    uint16_t closed                 # how often a function of the patch closed it while a tasklet waited
    WaitQueue readers
    WaitQueue writers
    PyObject* watcher               # borrowed: a Watcher gets all events of the descriptor


cdef class FdTable:
    cdef Poller poller
    cdef FdEntry* entries           # by descriptor
    cdef int capacity

    cdef inline FdEntry* entry(self, int fd) except NULL:
        """The descriptor's place in the table. The pointer is good until the next call of entry()."""
        return &self.entries[fd] if 0 <= fd < self.capacity else self.new_entry(fd)

    cdef FdEntry* new_entry(self, int fd) except NULL
    cdef int arm(self, int fd, int bits) except -1
    cdef int arm_for_wait(self, int fd, int bits) except -1
    cdef int disarm_after_wait(self, int fd) noexcept
    cdef int watch(self, int fd, object watcher) except -1
    cdef int forget(self, int fd) except -1
    cdef int close_under_waiters(self, int fd) except -1
    cdef int arm_all(self) except -1
    cdef int abandon(self) except -1
    cdef bint is_watching(self) noexcept
    cdef list watchers(self)
