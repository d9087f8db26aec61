from libc.stdint cimport int64_t, uint8_t, uint32_t

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet
from syncless.wsgi._service cimport Buffer, Link, Service


cdef class Peer(Link):
    cdef Service service
    cdef int fd                     # -1 once closed
    cdef uint32_t out_sent            # of the bytes in out
    cdef Buffer out                 # bytes to be sent
    cdef bytes out_body             # sent after them, straight from the application's object
    cdef Py_ssize_t body_sent       # of it
    cdef BaseTasklet writer         # parked until more can be sent
    cdef uint8_t sending               # the client is slow; more is sent when it is ready
    cdef uint8_t busy                  # a request is running, whose tasklet has deadlines of its own
    cdef uint8_t gone                  # nothing more can be sent
    cdef uint8_t timed_out             # the deadline of the present wait has passed

    cdef int send_all(self, const char* data, Py_ssize_t size) except -1
    cdef int send_file(self, int fd, int64_t offset, int64_t count) except -1
    cdef int abort(self) except -1
    cdef int sent(self, Loop loop, bint late) except -1
    cdef int wait_writable(self, Loop loop) except -1
    cdef int arm(self, Loop loop, int bits) except -1
    cdef int close(self, Loop loop, bint reset) except -1
