"""HTTP2Session: a connection of HTTP/2. live() tells its life.

Takes the Connection and the bytes that come on it, which libnghttp2 makes frames and fields of; gives them to
the streams that they are for (stream.pyx), and sends what those answer.

The library's callbacks run inside its functions. They run no Python code and note what has come; act() does
something about it afterwards. So no other tasklet can find the library at work.

It has no tasklet: its connection calls it when bytes have come (live). Frames are sent as all responses are,
at the end of the loop's turn, by the connection's flush(), which asks fill() for more. Streams run as the
loop's Runnables, one after another, as connections do. A client that does not read is not read from: what it
asks for would need memory.

A place among `most_streams` is free when the application has ended, not when the client has reset its stream:
else resets would start tasklets without bound. A client that sends frames and moves nothing spends credit:
a response, and bytes of a body in either direction, give it more, and so does each second: a browser pings a
connection that it keeps for a WebSocket. Without credit it is sent away with ENHANCE_YOUR_CALM.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from syncless._core.linked cimport Node, append
from syncless._core.loop cimport Loop
from syncless._core.poll.poller cimport READ
from syncless._core.wait.waitqueue cimport wake_all
from syncless.http.connection cimport Connection
from syncless.http.exchange cimport Session, Sessions
from syncless.http.listener cimport HEAD_DEADLINE, IDLE_DEADLINE, NO_DEADLINE, Listener
from syncless.http.peer cimport Incoming
from syncless.http.stream cimport (
    Buffers, Input, Stream, TlsLayer, borrow_input, compact, has_input, return_input,
)
from syncless.http.wire cimport OUT_HIGH, REPLY_CHUNK, REPLY_LAST_CHUNK, put_chunk_line
from syncless.http2.nghttp2 cimport *
from syncless.http2.stream cimport CREDIT, Frames, RequestStream

from syncless._core.exits import TaskletExit

cdef enum:
    WINDOW = 1048576        # bytes of all bodies of a connection that may lie here unread
    RESET = 10              # frames that a reset counts for
    MOVED = 256             # bytes that allow one
    SMALL = 64              # bytes of a DATA frame that does not count as moving
    SECOND = 1000000000     # ns
    FRAME_HEAD = 9          # bytes
    PREFACE = 24            # bytes
    ROUNDS = 4              # receive calls after which others get a turn

# -- callbacks of the library --------------------------------------------------------------------------------


cdef RequestStream stream_of(nghttp2_session* library, int32_t id):
    cdef PyObject* stream = <PyObject*> nghttp2_session_get_stream_user_data(library, id)
    return None if stream == NULL else <RequestStream> stream


cdef int on_begin_frame(nghttp2_session* library, const nghttp2_frame_hd* frame, void* owner) noexcept:
    cdef HTTP2Session session = <HTTP2Session> owner
    if frame.type != NGHTTP2_HEADERS and (frame.type != NGHTTP2_DATA or frame.length < SMALL):
        session.credit -= 1
    session.untold -= FRAME_HEAD + <int64_t> frame.length
    session.padded = frame.type == NGHTTP2_DATA and frame.flags & NGHTTP2_FLAG_PADDED
    if frame.type == NGHTTP2_HEADERS and frame.stream_id & 1:
        session.note_head(frame.stream_id)
    return 0


cdef int on_begin_headers(nghttp2_session* library, const nghttp2_frame* frame, void* owner) noexcept:
    cdef HTTP2Session session = <HTTP2Session> owner
    cdef RequestStream stream
    if frame.headers.cat != NGHTTP2_HCAT_REQUEST:
        return 0                                    # trailers, which are dropped as those of HTTP/1.1 are
    try:
        stream = RequestStream.__new__(RequestStream)
    except MemoryError:
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
    session.spared = session.spared_before
    stream.session = session
    stream.id = frame.hd.stream_id
    stream.bytes.fd = -1
    stream.bytes.carried = True
    stream.open = True
    append(&session.all_streams, &stream.place, <PyObject*> stream)
    session.open_streams += 1
    session.in_head = <PyObject*> stream
    nghttp2_session_set_stream_user_data(library, stream.id, <void*> stream)
    Py_INCREF(stream)                               # given back when it is closed
    return 0


cdef int on_header(
    nghttp2_session* library, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
    const uint8_t* value, size_t value_size, uint8_t flags, void* owner,
) noexcept:
    cdef HTTP2Session session = <HTTP2Session> owner
    cdef RequestStream stream
    cdef Buffers buffers = session.listener.buffers
    cdef uint32_t both[2]
    if frame.headers.cat != NGHTTP2_HCAT_REQUEST or session.in_head == NULL:
        return 0
    stream = <RequestStream> session.in_head
    if stream.status:
        return 0
    if stream.fields.size + name_size + value_size + 8 > session.listener.limits.head.total:
        stream.status = 431
        return 0
    both[0] = <uint32_t> name_size
    both[1] = <uint32_t> value_size
    try:
        buffers.append(&stream.fields, <char*> both, 8)
        buffers.append(&stream.fields, <const char*> name, name_size)
        buffers.append(&stream.fields, <const char*> value, value_size)
    except MemoryError:
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
    if name_size == 14 and memcmp(name, b"content-length", 14) == 0:
        stream.as_it_comes = True
    elif name_size == 9 and memcmp(name, b":protocol", 9) == 0:
        stream.as_it_comes = stream.tunnels = True
    return 0


cdef int on_invalid_header(
    nghttp2_session* library, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
    const uint8_t* value, size_t value_size, uint8_t flags, void* owner,
) noexcept:
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE    # the library would leave it out


cdef int on_frame_recv(nghttp2_session* library, const nghttp2_frame* frame, void* owner) noexcept:
    cdef HTTP2Session session = <HTTP2Session> owner
    cdef RequestStream stream
    cdef bint begins = frame.hd.type == NGHTTP2_HEADERS and frame.headers.cat == NGHTTP2_HCAT_REQUEST
    cdef bint ends = frame.hd.flags & NGHTTP2_FLAG_END_STREAM
    if frame.hd.type == NGHTTP2_RST_STREAM:
        session.credit -= RESET
        stream = stream_of(library, frame.hd.stream_id)
        if stream is not None:
            stream.silent = True
    if frame.hd.type != NGHTTP2_HEADERS and frame.hd.type != NGHTTP2_DATA:
        return 0
    if session.padded:
        session.padded = False
        session.seen += frame.data.padlen
    stream = stream_of(library, frame.hd.stream_id)
    if stream is None:
        return 0
    if begins:
        session.in_head = NULL
        stream.has_body = not ends
        Py_INCREF(stream)                           # given back by act()
        if session.last_new == NULL:
            session.first_new = <PyObject*> stream
        else:
            (<RequestStream> session.last_new).after = <PyObject*> stream
        session.last_new = <PyObject*> stream
    elif stream.tunnels and frame.hd.type == NGHTTP2_HEADERS:
        nghttp2_submit_rst_stream(library, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_PROTOCOL_ERROR)
    if ends:
        stream.silent = stream.ended = stream.bytes.ended = stream.bytes.peer_shutdown = True
        try:
            if not (begins or stream.as_it_comes):
                session.listener.buffers.append(&stream.bytes.inbox, REPLY_LAST_CHUNK, 5)
            wake_all(&stream.readers)
        except MemoryError:
            return NGHTTP2_ERR_CALLBACK_FAILURE
    return 0


cdef int on_invalid_frame(
    nghttp2_session* library, const nghttp2_frame* frame, int error, void* owner,
) noexcept:
    (<HTTP2Session> owner).credit -= RESET
    return 0


cdef int on_data(
    nghttp2_session* library, uint8_t flags, int32_t id, const uint8_t* data, size_t size, void* owner,
) noexcept:
    """Bytes of a body go to the inbox of its stream, until its application has ended."""
    cdef HTTP2Session session = <HTTP2Session> owner
    cdef RequestStream stream = stream_of(library, id)
    cdef Buffers buffers = session.listener.buffers
    cdef char line[REPLY_CHUNK]
    session.seen += size
    session.allow(<int64_t> size // MOVED)
    if stream is None:
        nghttp2_session_consume(library, id, size)
        return 0
    if stream.bytes.gone or stream.finished:
        stream.drop(size)
        return 0
    if stream.tunnels:
        session.allow(1)                            # a small message is no idle frame
    stream.unread += size
    if stream.exchange is not None:
        stream.exchange.peer.received += size
    try:
        if stream.bytes.inbox_start > stream.bytes.inbox.size // 2:
            compact(&stream.bytes, buffers)
        if not stream.as_it_comes:
            buffers.append(&stream.bytes.inbox, line, put_chunk_line(line, size))
        buffers.append(&stream.bytes.inbox, <const char*> data, size)
        if not stream.as_it_comes:
            buffers.append(&stream.bytes.inbox, b"\r\n", 2)
        wake_all(&stream.readers)
    except MemoryError:
        return NGHTTP2_ERR_CALLBACK_FAILURE
    return 0


cdef int on_stream_close(nghttp2_session* library, int32_t id, uint32_t error, void* owner) noexcept:
    cdef HTTP2Session session = <HTTP2Session> owner
    cdef RequestStream stream = stream_of(library, id)
    if stream is not None:
        stream.open = False
        stream.bytes.gone = stream.bytes.ended = stream.bytes.peer_shutdown = True
        if not stream.silent and id > session.spared:
            session.spared = id
        session.open_streams -= 1
        if session.in_head == <PyObject*> stream:
            session.in_head = NULL
        stream.after_closed = session.first_closed
        session.first_closed = <PyObject*> stream
    return 0


cdef int on_frame_send(nghttp2_session* library, const nghttp2_frame* frame, void* owner) noexcept:
    """A response may have ended before its request."""
    cdef RequestStream stream
    if frame.hd.flags & NGHTTP2_FLAG_END_STREAM and (
            frame.hd.type == NGHTTP2_DATA or frame.hd.type == NGHTTP2_HEADERS):
        stream = stream_of(library, frame.hd.stream_id)
        if stream is not None:
            stream.sent = True
            try:
                stream.linger_on()
            except MemoryError:
                return NGHTTP2_ERR_CALLBACK_FAILURE
    return 0


cdef nghttp2_session_callbacks* callbacks = NULL
cdef nghttp2_option* options = NULL
if nghttp2_session_callbacks_new(&callbacks) or nghttp2_option_new(&options):
    raise MemoryError
nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame)
nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers)
nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header)
nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header)
nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv)
nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame)
nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data)
nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close)
nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send)
nghttp2_option_set_no_auto_window_update(options, 1)
nghttp2_option_set_no_closed_streams(options, 1)    # which it keeps for their priorities otherwise


# -- a connection --------------------------------------------------------------------------------------------


@cython.final
cdef class HTTP2Session(Frames):
    def __dealloc__(self):
        if self.library != NULL:
            nghttp2_session_del(self.library)

    cdef int live(self, Loop loop) except -1:
        """Reads frames and begins the requests that they bring, until nothing more has come."""
        cdef Connection connection = self.connection
        cdef int _
        if self.library == NULL:
            self.open()
        for _ in range(ROUNDS):
            if self.over or connection.stream.out.size >= OUT_HIGH:
                return 0                            # sent_all() goes on
            if not self.take_frames(loop):
                return connection.listen(loop, READ)
        return loop.push(connection)

    cdef int open(self) except -1:
        cdef nghttp2_settings_entry settings[3]
        if nghttp2_session_server_new2(&self.library, callbacks, <void*> self, options):
            raise MemoryError
        self.listener.http2_connections += 1
        settings[0].settings_id = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS
        settings[0].value = self.most_streams
        settings[1].settings_id = NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE
        settings[1].value = self.listener.limits.head.total
        settings[2].settings_id = NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL
        settings[2].value = True
        nghttp2_submit_settings(self.library, NGHTTP2_FLAG_NONE, settings, 3)
        nghttp2_session_set_local_window_size(self.library, NGHTTP2_FLAG_NONE, 0, WINDOW)
        self.last = -1
        self.untold = -PREFACE
        self.credit = CREDIT
        self.credited = self.listener.loop.clock.now
        return self.soon()

    cdef bint take_frames(self, Loop loop) except -1:
        """Whether something has come. The client has left: `over`."""
        cdef Connection connection = self.connection
        cdef Buffers buffers = self.listener.buffers
        cdef Input input
        cdef ssize_t used
        cdef int64_t counted
        input.size = 0
        used = borrow_input(&connection.stream, buffers, &input)
        if used <= 0:
            self.over = used == 0
            self.keep_time()
            return used == 0
        if loop.clock.now - self.credited >= SECOND:
            self.allow((loop.clock.now - self.credited) // SECOND)
            self.credited = loop.clock.now
        counted = nghttp2_session_get_effective_recv_data_length(self.library)
        self.seen = 0
        used = nghttp2_session_mem_recv(self.library, <const uint8_t*> input.data, input.size)
        self.note_untold(input.size, nghttp2_session_get_effective_recv_data_length(self.library) - counted)
        return_input(&connection.stream, buffers, &input, input.size)
        self.act(loop)
        if used < 0:                                # its own GOAWAY is on its way, where it could make one
            self.over = True
        if self.library != NULL and (self.fault or self.credit < 0):
            nghttp2_session_terminate_session(self.library, self.fault or NGHTTP2_ENHANCE_YOUR_CALM)
        return True

    cdef void note_head(self, int32_t id) noexcept:
        """The library ignores a head for a stream that is over, because it remembers none (RFC 9113, 5.1)."""
        if id > self.last:
            if id > self.last + 2:
                self.skipped = id - 2
            self.last = id
            self.spared_before, self.spared = self.spared, id       # until it is open
        elif id > self.spared and nghttp2_session_get_stream_user_data(self.library, id) == NULL:
            self.fault = NGHTTP2_PROTOCOL_ERROR if id <= self.skipped else NGHTTP2_STREAM_CLOSED

    cdef void note_untold(self, int64_t size, int64_t counted) noexcept:
        """The library drops frames that it does not know, and DATA frames for a stream that is over. Of so
        many bytes that have come, so many are of DATA frames: the connection's window counts those, too."""
        cdef int64_t dropped = counted - self.seen
        self.untold += size
        if counted < 0:                             # it has been opened meanwhile
            self.untold = min(<int64_t> 0, self.untold)
            return
        self.untold -= dropped
        if self.untold >= FRAME_HEAD:
            self.credit -= self.untold // FRAME_HEAD
            self.untold %= FRAME_HEAD
        if dropped > 0 and not self.padded:
            self.ignored = True
            self.allow(dropped // SMALL)

    cdef bint finds_stray_data(self) noexcept:
        """They are the client's fault unless the server has ended a stream first, or takes no more."""
        cdef bint stray = self.ignored and self.spared == 0
        self.ignored = False
        return stray and nghttp2_session_terminate_session(self.library, NGHTTP2_STREAM_CLOSED) == 0

    cdef int act(self, Loop loop) except -1:
        """What the callbacks have noted."""
        cdef RequestStream stream
        while self.first_new != NULL:
            stream = <RequestStream> self.first_new
            self.first_new = stream.after
            if self.first_new == NULL:
                self.last_new = NULL
            Py_DECREF(stream)
            self.begun = True
            if stream.open and self.connection.stream.fd >= 0:
                stream.begin(loop)
        while self.first_closed != NULL:
            stream = <RequestStream> self.first_closed
            self.first_closed = stream.after_closed
            Py_DECREF(stream)
            stream.closed(loop)
        return self.soon()

    cdef int keep_time(self) except -1:
        """The deadline that fits: of the first request, of a head that has begun, or of a client that asks
        for nothing."""
        cdef Connection connection = self.connection
        cdef Listener listener = self.listener
        cdef int kind = NO_DEADLINE
        if connection.stream.stalled or connection.stream.fd < 0:
            return 0
        if self.in_head != NULL or not self.begun:
            kind = HEAD_DEADLINE
        elif self.open_streams == 0 and self.running == 0:
            kind = IDLE_DEADLINE
        if kind == NO_DEADLINE:
            listener.deadlines.stop(&connection.deadline)
        elif connection.deadline.kind != kind:
            listener.deadlines.start(&connection.deadline, kind, connection)
        return 0

    cdef list streams(self):
        """Those that are open, or whose application runs."""
        cdef list found = []
        cdef Node* node = self.all_streams.first
        while node != NULL:
            found.append(<object> node.owner)
            node = node.after
        return found

    cdef int send_goaway(self, uint32_t error) except -1:
        cdef int32_t last
        if self.library == NULL:
            return 0
        last = nghttp2_session_get_last_proc_stream_id(self.library)
        nghttp2_submit_goaway(self.library, NGHTTP2_FLAG_NONE, last, error, NULL, 0)
        return self.soon()

    # -- told by its connection ------------------------------------------------------------------------------

    cdef int fill(self, Loop loop) except -1:
        cdef Stream* stream = &self.connection.stream
        cdef const uint8_t* data = NULL
        cdef ssize_t size
        if self.library == NULL or stream.fd < 0:
            return 0
        while stream.out.size < OUT_HIGH:
            size = nghttp2_session_mem_send(self.library, &data)
            if size > 0:
                self.listener.buffers.append(&stream.out, <const char*> data, size)
            elif not self.finds_stray_data():
                break
        if self.first_closed != NULL:
            self.act(loop)
        self.keep_time()
        if not self.over and self.library != NULL and ((self.interrupted and self.running == 0) or not (
                nghttp2_session_want_read(self.library) or nghttp2_session_want_write(self.library))):
            self.over = True
            return loop.push(self.connection)       # turn() ends it
        return 0

    cdef int sent_all(self, Loop loop) except -1:
        self.keep_time()
        if self.library != NULL and (
                nghttp2_session_want_write(self.library) or has_input(&self.connection.stream)):
            return loop.push(self.connection)       # turn() sends and reads more
        return 0

    cdef int expired(self, Loop loop) except -1:
        nghttp2_session_terminate_session(self.library, NGHTTP2_NO_ERROR)
        return self.soon()

    cdef int lost(self, Loop loop) except -1:
        """Nothing more can be sent: requests that still run meet a client that has left."""
        cdef RequestStream stream
        self.over = True
        if self.library == NULL:
            return 0
        nghttp2_session_del(self.library)
        self.library = NULL
        self.listener.http2_connections -= 1
        for stream in self.streams():
            if stream.open:
                stream.open = False
                Py_DECREF(stream)
            stream.bytes.gone = stream.bytes.ended = stream.bytes.peer_shutdown = True
            stream.closed(loop)
        return 0

    cdef int interrupt(self, Loop loop) except -1:
        """The connection goes on until they have ended."""
        cdef RequestStream stream
        self.interrupted = True
        for stream in self.streams():
            if stream.exchange is not None and stream.deadline.kind == NO_DEADLINE:
                loop.throw(stream.exchange, TaskletExit())
        return self.send_goaway(NGHTTP2_NO_ERROR)

    cdef int tell_stop(self, bint at_last) except -1:
        """The first time that it stops; the second time that it does."""
        cdef RequestStream stream
        if self.library == NULL:
            return 0
        if not self.noticed:
            self.noticed = True
            nghttp2_submit_shutdown_notice(self.library)
        else:
            self.send_goaway(NGHTTP2_NO_ERROR)
        for stream in self.streams():
            if stream.exchange is not None:
                stream.exchange.tell_stop(at_last)
        return self.soon()


cdef class HTTP2(Sessions):
    """HTTP2(streams, cleartext): makes the session of a connection that begins with the preface."""
    cdef bint cleartext             # a connection without TLS may begin with the preface
    cdef int streams                # that a connection has at most

    def __init__(self, int streams, bint cleartext):
        self.streams = streams
        self.cleartext = cleartext

    cdef Session begin(self, const Incoming* incoming):
        cdef HTTP2Session session
        if incoming.stream.layer == NULL:
            if not self.cleartext:
                return None
        elif (<TlsLayer> incoming.stream.layer).described_by(_protocol) != "h2":
            return None
        session = HTTP2Session.__new__(HTTP2Session)
        session.listener = <Listener> incoming.listener
        session.most_streams = self.streams
        session.connection = <Connection> incoming.connection
        return session


def _protocol(connection) -> str:
    return connection.selected_alpn_protocol() or ""
