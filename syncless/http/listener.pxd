from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport Runnable
from syncless.http.admission cimport Admission
from syncless.http.buffers cimport Buffers
from syncless.http.counters cimport Counters
from syncless.http.deadlines cimport Deadlines
from syncless.http.flusher cimport Flusher
from syncless.http.loglines cimport AccessLog
from syncless.http.pace cimport Paces
from syncless.http.quota cimport Quota
from syncless.http.requestheads cimport RequestHeads
from syncless.http.responseheads cimport ResponseHeads
from syncless.http.wire cimport limits


cdef class Listener:
    # the instructions for its connections
    cdef readonly object application    # an Application
    cdef limits limits
    cdef object certificates            # None, or a callable that gives the SSLContext for a new connection
    cdef bint plain_http                # HTTP on a TLS port, told by its first byte
    cdef object trusted                 # None, or called with an address: its PROXY header and fields count
    cdef bint proxy_protocol            # trusted peers begin with a PROXY header
    cdef AccessLog access_log           # or None
    cdef public Counters counters       # or None
    cdef public Quota quota             # or None
    cdef readonly object error_log      # an ErrorLog
    cdef readonly bint stopping         # every response closes its connection
    # what they share
    cdef Loop loop
    cdef Deadlines deadlines
    cdef Buffers buffers                # for received bytes and bytes to send
    cdef Flusher flusher                # those that have something to send
    cdef Admission admission            # requests that run and those that wait
    cdef object clients                 # Clients; None if nothing bounds their connections
    cdef RequestHeads heads             # the application's
    cdef ResponseHeads response_heads   # the parts that they share
    cdef Paces paces                    # of clients that are slow to take a response
    # how many there are
    cdef readonly Py_ssize_t connections
    cdef readonly long long requests    # since the start
    cdef readonly long long accepted    # connections since the start
    cdef Py_ssize_t lingering           # connections
    # room for more of them
    cdef Runnable acceptor              # while connections are accepted
    cdef bint starved                   # a connection waits in the backlog because there are too many

    cdef int offer_room(self) except -1
    cdef int let_go(self, int fd, str client) except -1
