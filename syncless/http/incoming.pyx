"""The next request of a stream: receives until a head is whole, and asks the Application for its exchange.

Takes an Origin, which says what is known of the client. Heads are read where they lie: in the receive buffer
that all connections share, if they come in one piece, else in the stream's inbox, where the rest of what has
come is kept.
"""

from syncless.http.application cimport Application
from syncless.http.buffers cimport SCRATCH
from syncless.http.exchange cimport Exchange
from syncless.http.listener cimport Listener
from syncless.http.peer cimport Origin
from syncless.http.scanner cimport head
from syncless.http.stream cimport Stream, consume_inbox, is_receivable, receive, receive_little, receive_more


cdef Exchange next_request(const Origin* origin, bint remember, int* outcome):
    """None, with the reason in *outcome, when the client has to send more first or is refused. The stream may
    have been closed meanwhile. `remember`: the head is remembered, because the connection is likely to be
    kept."""
    cdef Listener listener = <Listener> origin.listener
    cdef Application application = <Application> listener.application
    cdef Stream* stream = origin.stream
    cdef head found
    cdef Exchange request
    cdef char* data
    cdef Py_ssize_t got
    cdef long used
    while True:
        if stream.inbox.size:                   # a part of a head, or requests behind the last one
            data = stream.inbox.data + stream.inbox_start
            used = listener.heads.scan(
                data, stream.inbox.size - stream.inbox_start, &listener.head_limits, stream.fd, remember,
                &found)
            if used > 0:
                request = application.exchange(origin, data, &found)
                consume_inbox(stream, listener.buffers, used)
                return request
            if used < 0:
                outcome[0] = -used
                return None
            got = receive_little(stream, listener.buffers)
        elif not is_receivable(stream):
            got = -1
        elif listener.buffers.scratch == NULL:  # a finaliser switched while another connection had it
            got = receive_more(stream, listener.buffers)
        else:
            data = listener.buffers.scratch
            listener.buffers.scratch = NULL
            try:
                got = receive(stream, listener.buffers, data, SCRATCH)
                if got > 0:
                    used = listener.heads.scan(
                        data, got, &listener.head_limits, stream.fd, remember, &found)
                    if used > 0:
                        request = application.exchange(origin, data, &found)
                        if got > used:
                            listener.buffers.hold(&stream.inbox, data + used, got - used)
                        return request
                    # scanned again where it is kept: refused there, or completed
                    listener.buffers.hold(&stream.inbox, data, got)
            finally:
                listener.buffers.scratch = data
        if got <= 0:
            outcome[0] = NOT_YET if got < 0 else NEVER
            return None
