"""What a tasklet has waited for. See recorder.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from syncless._core.scheduler cimport BaseTasklet, Recorder

cdef enum:
    WORDS = 56          # bytes


cdef struct KeptWait:
    const char* why         # as park() was given it
    int64_t since           # ns
    int64_t ns              # until it was woken
    PyObject* code          # owned: the program's innermost function; NULL: nobody has looked
    int at                  # the instruction there; before Python 3.11, the line
    PyObject* query         # owned: the text of a database's query; NULL: there is none, or nobody has looked
    char[WORDS] on          # the peer of a socket, or what park() was given; may be empty


cdef class WaitRecorder(Recorder):
    cdef KeptWait* waits
    cdef int count              # of those that are kept
    cdef int room
    cdef int most
    cdef readonly long long number      # of all waits
    cdef int64_t waited_ns      # in all of them
    cdef int64_t shortest       # ns: of those that are kept, once there are `most`
    cdef int forget(self) noexcept
    cdef KeptWait* place(self, int64_t ns) noexcept

    cdef inline void begin(self) noexcept:
        """Another tasklet's waits follow."""
        self.queued_ns = self.waited_ns = self.number = 0
        if self.count:
            self.forget()


cdef int woken_by_holder(BaseTasklet waiter) except -1
cdef str time_went(BaseTasklet tasklet, int64_t since)
