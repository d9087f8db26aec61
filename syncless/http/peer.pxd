from libc.stdint cimport int64_t, uint8_t, uint32_t

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet
from syncless.http.buffers cimport Buffer
from syncless.http.listener cimport Link, Listener
from syncless.http.tls cimport TlsLayer


cdef class Peer(Link):
    cdef Listener listener
    cdef TlsLayer layer             # None: plain
    cdef object remote_addr         # str; "" for a UNIX socket
    cdef int remote_port            # -1: the family has none
    cdef int fd                     # -1 once closed
    cdef uint32_t inbox_start       # of the inbox, used up
    cdef uint32_t lingered          # bytes thrown away
    cdef Buffer inbox               # received and not used yet
    cdef Buffer out                 # bytes to be sent
    cdef bytes out_body             # sent after them, straight from the application's object
    cdef size_t out_sent            # of both
    cdef BaseTasklet writer         # parked until more can be sent
    cdef uint8_t readable           # recv() may have something
    cdef uint8_t peer_shutdown  # the client sends no more; recv() is worth trying until it says so
    cdef uint8_t ended              # recv() has said so
    cdef uint8_t sending            # the client is slow; more is sent when it is ready
    cdef uint8_t busy               # a request is running, whose tasklet has deadlines of its own
    cdef uint8_t gone               # nothing more can be sent
    cdef uint8_t timed_out          # the deadline of the present wait has passed
    cdef uint8_t trusted            # its forwarded fields count
    cdef uint8_t expects_proxy_header          # it begins with a PROXY header
    cdef uint8_t heard              # bytes came since the last look at a lingering client
    cdef uint8_t checks             # how often it was looked at
    cdef uint8_t phase              # see connection.pxd
    cdef uint8_t closing        # to be closed once all is sent
    cdef uint8_t kept           # it has had an answer and was not closed
    cdef uint8_t unread         # a part of a body was neither read by the application nor drained

    cdef Py_ssize_t receive(self, char* into, size_t room) except -2
    cdef Py_ssize_t receive_raw(self, char* into, size_t room) except -2
    cdef bint has_bytes(self) noexcept
    cdef bytes first_bytes(self, Py_ssize_t most)
    cdef Py_ssize_t receive_more(self) except -2
    cdef Py_ssize_t receive_little(self) except -2
    cdef int compact(self) except -1
    cdef ssize_t transmit(self, const char* a, size_t na, const char* b, size_t nb) except -2

    cdef int send_all(self, const char* data, Py_ssize_t size) except -1
    cdef int send_file(self, int fd, int64_t offset, int64_t count, bint slow) except -1
    cdef int abort(self) except -1
    cdef int sent(self, Loop loop, bint late) except -1
    cdef int reading_kind(self) noexcept
    cdef int wait_writable(self, Loop loop) except -1
    cdef bint is_counted(self) noexcept
    cdef bint admit(self) except -1
    cdef int arm(self, Loop loop, int bits) except -1
    cdef int close(self, Loop loop, bint reset) except -1
