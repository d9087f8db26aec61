"""The processor time that each tasklet uses, measured while debug.measure_cpu() is on. Price: one system call
per switch."""

from libc.stdint cimport int64_t
from posix.time cimport clock_gettime, timespec

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet, Observer
from syncless._core.threadloop cimport get_loop

cdef extern from "<time.h>":
    int CLOCK_THREAD_CPUTIME_ID


cdef inline int64_t used() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
    return now.tv_sec * 1000000000 + now.tv_nsec


cdef class CpuTime(Observer):
    """Adds to each tasklet of this thread what it uses."""
    cdef int64_t since
    cdef bint running
    cdef Loop loop

    cdef int begins(self, object tasklet) except -1:
        if not self.running:                # else it gave way, and nobody else was ready
            self.since = used()
            self.running = True
        return 0

    cdef int stops(self, object tasklet) except -1:
        (<BaseTasklet> tasklet).cpu += used() - self.since
        self.running = False
        return 0

    def start(self) -> None:
        """In this thread, from now on."""
        self.loop = get_loop()
        self.since = used()
        self.running = self.loop.current is not None
        self.loop.observe(self)

    def stop(self) -> None:
        if self.loop is not None:
            self.loop.unobserve(self)
            self.loop = None
