from libc.stdint cimport int64_t, uint8_t

from syncless._core.loop cimport Loop, Watcher
from syncless.http.deadlines cimport DeadlineNode
from syncless.http.exchange cimport Exchange
from syncless.http.linger cimport Linger
from syncless.http.listener cimport Listener
from syncless.http.phases cimport move_phase
from syncless.http.stream cimport Stream


cdef class Connection(Watcher):     # there may be many idle ones: flags are bytes, sizes 32 bits
    cdef Listener listener
    cdef Exchange exchange          # of the request that is queued or running
    cdef Stream stream              # its bytes
    cdef DeadlineNode deadline      # of the phase; a tasklet that waits has one of its own
    cdef Linger linger
    cdef object remote_addr         # str; "" for a UNIX socket
    cdef int remote_port            # -1: the family has none
    cdef uint8_t phase              # see phases.pxd
    cdef uint8_t trusted            # its forwarded fields count
    cdef uint8_t expects_proxy_header   # it begins with one
    cdef uint8_t counted            # for Limits.client_connections
    cdef uint8_t kept               # it has had a response and was not closed
    cdef uint8_t unread             # a part of a body was neither read by the application nor drained
    cdef uint8_t closing            # to be closed once all is sent

    # its life
    cdef int live(self, Loop loop) except -1
    cdef int greet(self, Loop loop) except -1
    cdef bint read_request(self, Loop loop) except -1
    cdef int run_request(self, Loop loop) except -1
    cdef int wait_for_client(self, Loop loop) except -1
    cdef int flush(self, Loop loop) except -1
    cdef int when_flushed(self, Loop loop, bint late) except -1
    cdef int expired(self, Loop loop, int kind) except -1

    # its end
    cdef int refuse(self, Loop loop, int status, str explanation=*, dict variables=*) except -1
    cdef int refuse_busy(self, Loop loop) except -1
    cdef int close_when_sent(self, Loop loop) except -1
    cdef int linger_or_close(self, Loop loop) except -1
    cdef int read_away(self, Loop loop) except -1
    cdef bint close_idle(self, Loop loop) except -1
    cdef int close(self, Loop loop, bint reset) except -1

    # the parts of that
    cdef inline int move_to(self, uint8_t phase) except -1:
        return move_phase(&self.phase, phase)

    cdef bint admit(self) except -1
    cdef bint accept_proxy_header(self, header) except -1
    cdef int drop_exchange(self, Exchange exchange) except -1
