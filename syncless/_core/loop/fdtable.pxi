"""FdTable: who waits for which descriptor.

It has two wait queues for each, one per direction, and a watcher; it keeps no readiness, docs/design.md says
why. It must not know how a tasklet waits (current.pyx).
"""


@cython.final
cdef class FdTable:
    def __dealloc__(self):
        PyMem_Free(self.entries)

    cdef FdEntry* new_entry(self, int fd) except NULL:
        """The table grows."""
        cdef void* grown
        if fd < 0:
            raise OSError(9, "Bad file descriptor")
        grown = with_place_for(fd, self.entries, &self.capacity, sizeof(FdEntry))
        if grown == NULL:
            raise MemoryError
        self.entries = <FdEntry*> grown
        return &self.entries[fd]

    # -- descriptors of ours ---------------------------------------------------------------------------------

    cdef int arm(self, int fd, int bits) except -1:
        """Sees to it that the poller will report the descriptor, until forget()."""
        cdef FdEntry* entry = self.entry(fd)
        if bits & ~entry.armed:
            entry.armed |= self.poller.arm(fd, entry.gen, bits)
        return 0

    cdef int watch(self, int fd, object watcher) except -1:
        """All later events of the descriptor go to the Watcher (borrowed: it calls forget() before it
        ends)."""
        self.entry(fd).watcher = <PyObject*> watcher
        return self.arm(fd, READ)

    cdef int forget(self, int fd) except -1:
        """To be called before a descriptor is closed: late events are ignored, and a tasklet that waits for
        it goes on and meets the error."""
        cdef FdEntry* entry
        if fd < 0 or fd >= self.capacity:
            return 0
        entry = &self.entries[fd]
        if entry.armed:
            self.poller.forget(fd)
        entry.armed = 0
        entry.gen += 1
        entry.watcher = NULL
        wake_all(&entry.readers)
        wake_all(&entry.writers)
        return 0

    # -- descriptors of others -------------------------------------------------------------------------------

    cdef int arm_for_wait(self, int fd, int bits) except -1:
        """Arm a descriptor that others may close or change, whatever the table says of the number.

        After the wait disarm_after_wait() takes it back.
        """
        cdef FdEntry* entry = self.entry(fd)
        entry.armed |= self.poller.arm(fd, entry.gen, bits)
        return 0

    cdef int disarm_after_wait(self, int fd) noexcept:
        """The other half of arm_for_wait(): nothing is left of it once nobody waits for the descriptor."""
        cdef FdEntry* entry
        if fd >= self.capacity:
            return 0
        entry = &self.entries[fd]
        if (
            entry.armed and entry.readers.first == NULL and entry.writers.first == NULL
            and entry.watcher == NULL
        ):
            self.poller.disarm(fd)
            entry.armed = 0
            entry.gen += 1
        return 0

    cdef int close_under_waiters(self, int fd) except -1:
        """To be called before code that knows no table closes a descriptor: tasklets that wait for it go on,
        and learn that it is closed, even if its number is in use again."""
        cdef FdEntry* entry
        if fd < 0 or fd >= self.capacity:
            return 0
        entry = &self.entries[fd]
        if entry.readers.first == NULL and entry.writers.first == NULL:
            return 0
        entry.closed += 1
        if entry.watcher == NULL:
            return self.forget(fd)
        wake_all(&entry.readers)
        wake_all(&entry.writers)
        return 0

    # -- all of them -----------------------------------------------------------------------------------------

    cdef bint is_watching(self) noexcept:
        """Return whether there is a watcher, such as a server that listens."""
        cdef int fd
        for fd in range(self.capacity):
            if self.entries[fd].watcher != NULL:
                return True
        return False

    cdef list watchers(self):
        cdef int fd
        return [
            <object> self.entries[fd].watcher for fd in range(self.capacity)
            if self.entries[fd].watcher != NULL
        ]

    cdef int arm_all(self) except -1:
        """The poller has been opened again. A waiter whose descriptor cannot be armed goes on and meets the
        error."""
        cdef int fd
        cdef FdEntry* entry
        for fd in range(self.capacity):
            entry = &self.entries[fd]
            entry.armed = 0
            if entry.readers.first == NULL and entry.writers.first == NULL and entry.watcher == NULL:
                continue
            try:
                entry.armed = self.poller.arm(fd, entry.gen, READ | WRITE)
            except OSError:
                wake_all(&entry.readers)
                wake_all(&entry.writers)
        return 0

    cdef int abandon(self, bint waking) except -1:
        """In a child after a fork: all waiters and watchers are the parent's. `waking`: waiters are told, and
        look again."""
        cdef int fd
        for fd in range(self.capacity):
            if waking:
                wake_all(&self.entries[fd].readers)
                wake_all(&self.entries[fd].writers)
            self.entries[fd].gen += 1
            self.entries[fd].armed = 0
            self.entries[fd].readers.first = self.entries[fd].readers.last = NULL
            self.entries[fd].writers.first = self.entries[fd].writers.last = NULL
            self.entries[fd].watcher = NULL
        return 0
