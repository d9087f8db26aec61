"""A request that a connection of HTTP/2 carries. See stream.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from syncless._core.linked cimport LinkedList, Node
from syncless._core.loop cimport Loop
from syncless.http.connection cimport Connection, Linger
from syncless.http.exchange cimport Exchange, Session
from syncless.http.http2.nghttp2 cimport nghttp2_session
from syncless.http.listener cimport DeadlineNode, Listener
from syncless.http.peer cimport Carried, Peer
from syncless.http.stream cimport Buffer, Stream
from syncless.http.wire.wire cimport data_rate


cdef enum:
    CREDIT = 1000           # frames that a client may send which move nothing: see session.pyx
    ROOM = 65535            # bytes of bodies that it may send ahead, as the RFC begins (RFC 9113, 6.9.2)


cdef class Frames(Session):     # the part of an HTTP2Session that its streams know
    cdef Listener listener
    cdef int most_streams           # requests that may run or wait at a time
    cdef Connection connection
    cdef nghttp2_session* library
    cdef LinkedList all_streams     # borrowed: those that are open, or whose application runs
    cdef PyObject* first_new        # streams whose head has come, in this order
    cdef PyObject* last_new
    cdef PyObject* first_closed     # those that have ended
    cdef int open_streams           # that the library has
    cdef int running                # whose application runs or waits for its turn
    cdef int64_t credit             # frames that the client may send without moving anything
    cdef int64_t credited           # ns: when it was last given some for the time that had passed
    cdef PyObject* in_head          # borrowed: the stream whose fields have begun and not ended, or NULL
    cdef int32_t last               # the highest stream that the client has begun
    cdef int32_t skipped            # the highest one that it never began, below that
    cdef int32_t spared             # the highest one that the server ended first: trailers may be on the way
    cdef int32_t spared_before
    cdef int64_t unread             # bytes of all bodies that lie here
    cdef int64_t listed             # bytes of the list of fields that comes, or has come last
    cdef int64_t untold             # DATA frames that have come and that callbacks have not been told of
    cdef uint32_t frame_left        # bytes of the frame that comes
    cdef uint8_t frame_head[9]      # of the next one, as far as it has come
    cdef uint8_t frame_got
    cdef bint ignored               # the library has dropped bytes that are for no stream
    cdef uint32_t fault             # for which the connection ends, or 0
    cdef bint begun                 # a request has come
    cdef bint noticed               # the client has been told that the server stops
    cdef bint last_told             # and which request was the last
    cdef bint interrupted           # the requests that run have been, because it stops at last

    cdef int soon(self) except -1
    cdef void open_window(self) noexcept
    cdef void allow(self, int64_t frames) noexcept


cdef class RequestStream(Carried):
    cdef Frames session
    cdef Exchange exchange          # of its request, while it is queued or running
    cdef Stream bytes               # of the body and of the response, without frames; see http/stream.pxd
    cdef Buffer fields              # those of the request, as they come: sizes, name, value
    # of its time in the queue, until a look at how the client takes the end of the response, or to go on
    # sending after that
    cdef DeadlineNode deadline
    cdef Linger linger
    cdef data_rate state            # how fast the client takes the response
    cdef int64_t taken              # bytes of the response that have gone to frames
    cdef int64_t unread             # bytes of the body for which the window is to be opened again
    cdef Node place                 # among those of its session
    cdef PyObject* after            # the next one that is to be begun
    cdef PyObject* after_closed     # the next one that has been closed
    cdef bytes trailers             # lines of fields that follow the response, or None
    cdef int refusal                # why its head is to be refused, or 0
    cdef bint open                  # the library knows it
    cdef bint has_body              # DATA frames follow the head
    cdef bint as_it_comes           # the body is not chunked: it has a Content-Length, or it tunnels
    cdef bint tunnels               # it asks for a WebSocket (RFC 8441): its body is the other protocol's
    cdef bint ended                 # the client has sent all of its body
    cdef bint silent                # that, or it has reset it: no frame may come any more
    cdef bint answered              # the head of the response is on its way
    cdef bint finished              # all of the response is here
    cdef bint sent                  # and has gone to the client
    cdef bint deferred              # the library waits for more of it

    cdef int begin(self, Loop loop) except -1
    cdef int write_head(self, Buffer* text) except -1
    cdef int write_cookies(self, Buffer* text) except -1
    cdef int finish(self) except -1
    cdef int end_response(self) except -1
    cdef bint may_wait(self) noexcept
    cdef int linger_on(self) except -1
    cdef void drop(self, size_t size) noexcept
    cdef int reset(self, uint32_t error) except -1
    cdef int refuse(self, int reason, bytes text) except -1
    cdef int refuse_busy(self) except -1
    cdef int closed(self, Loop loop) except -1
    cdef int check_handshake(self, const char* text, size_t size) except -1
    cdef int replace_response(self, bytes status) except -1
    cdef int check_open(self, Peer peer) except -1
    cdef int resume(self) except -1
    cdef size_t left(self) noexcept
