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
else resets would start tasklets without bound. A client that sends frames and moves nothing spends credit: a
response, and bytes of a body in either direction, give it more, as does each second: a browser pings a
connection that it keeps for a WebSocket, and cancels requests while somebody types. Without credit it is
disconnected with ENHANCE_YOUR_CALM, and the error log says so.

Fields beyond the limit of a head get the response 431. Fact: the library checks each byte of each field, and
a field that the client has named before takes one byte to name again. Danger: a frame of 16 kB took 40 ms.
Decision: a list that is FAR beyond is not looked at any more, and costs credit; so does one that unpacks to
much more than its bytes. Guarded by tests/http2/test_hostile.py and `python -m benchmark.hostile`.

The client may send ROOM bytes of bodies ahead. That is opened again as applications read, or wait for more,
until UNREAD bytes lie here. So a connection whose applications do not read takes ROOM bytes. Beyond
Limits.buffered_bytes, a stream that brings more and that nobody reads is reset.

Fact: the library ends the connection of a client that opens more streams than it may, as RFC 9113, 5.1.2,
allows. Danger: all of its other requests are lost. Decision: the library is told of no limit; the client is
told of ours, in the frame that the library has made, and streams beyond are refused (open, on_begin_headers).
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from syncless._core.linked cimport Node, append
from syncless._core.loop cimport Loop
from syncless._core.poll.poller cimport READ
from syncless._core.wait.waitqueue cimport someone_waits, wake_all
from syncless.http.connection cimport Connection, shed_slow_heads
from syncless.http.exchange cimport Exchange, Session, Sessions
from syncless.http.http2.nghttp2 cimport *
from syncless.http.http2.stream cimport CREDIT, ROOM, Frames, RequestStream
from syncless.http.listener cimport (
    AT_BUFFERED_BYTES, AT_STREAMS, HEAD_DEADLINE, HTTP2_GOAWAYS, HTTP2_RESETS, IDLE_DEADLINE, NO_DEADLINE,
    Counters, Listener,
)
from syncless.http.peer cimport Incoming
from syncless.http.stream cimport (
    Buffer, Buffers, Input, Stream, TlsLayer, borrow_input, compact, has_input, return_input,
)
from syncless.http.wire.wire cimport (
    JUST_COME_NS, OUT_HIGH, R_HEAD_TOO_LARGE, REPLY_CHUNK, REPLY_LAST_CHUNK, put_chunk_line,
)

from syncless._core.exits import TaskletExit
from syncless.http.errors import HTTP2_ERRORS

cdef enum:
    NO_RFC7540_PRIORITIES = 9   # RFC 9218, 2.1
    RESET = 5               # frames that a reset counts for
    CUT_OFF = 100           # that a list of fields which is far too large counts for
    REFILL = 500            # that a second allows
    TABLE = 4096            # bytes of fields that a client has named before, at most: see price_list()
    GAIN = 8                # bytes that a byte of others unpacks to
    FAR = 65536             # bytes of fields beyond a limit that are still looked at, for a 431
    FIELD = 32              # bytes that a field counts for, besides its name and value (RFC 9113, 6.5.2)
    MOVED = 256             # bytes that allow one
    SMALL = 64              # bytes of a DATA frame that does not count as moving
    SECOND = 1000000000     # ns
    MOMENT = 10000000       # ns after which credit is given for the time
    UNLIMITED = 0x7fffffff  # streams
    FRAME_HEAD = 9          # bytes
    PREFACE = 24            # bytes
    RECEIVES = 4            # receive calls after which others get a turn

# -- callbacks of the library --------------------------------------------------------------------------------


cdef RequestStream stream_of(nghttp2_session* library, int32_t id):
    cdef PyObject* stream = <PyObject*> nghttp2_session_get_stream_user_data(library, id)
    return None if stream == NULL else <RequestStream> stream


cdef int on_begin_frame(nghttp2_session* library, const nghttp2_frame_hd* frame, void* owner) noexcept:
    cdef HTTP2Session session = <HTTP2Session> owner
    if frame.type == NGHTTP2_DATA:
        session.untold -= 1
    elif frame.type == NGHTTP2_HEADERS and frame.stream_id & 1:
        session.note_head(frame.stream_id)
    return 0


cdef int on_begin_headers(nghttp2_session* library, const nghttp2_frame* frame, void* owner) noexcept:
    cdef HTTP2Session session = <HTTP2Session> owner
    cdef RequestStream stream
    session.listed = 0
    if frame.headers.cat != NGHTTP2_HCAT_REQUEST:
        return 0                                    # trailers, which are dropped as those of HTTP/1.1 are
    if session.open_streams >= session.most_streams:
        session.credit -= 1
        session.listener.reached.note(AT_STREAMS, True)
        return refuse_stream(library, frame.hd.stream_id, NGHTTP2_REFUSED_STREAM)
    if session.credit < 0:                          # the connection is ended when all that has come is read
        return refuse_stream(library, frame.hd.stream_id, NGHTTP2_ENHANCE_YOUR_CALM)
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
    syncless_take_turns(library, stream.id)         # unless the request has a field `priority`
    Py_INCREF(stream)                               # given back when it is closed
    return 0


cdef int refuse_stream(nghttp2_session* library, int32_t id, uint32_t error) noexcept:
    """What a callback returns to reset the stream of a head with this error: the library, which knows the
    error that comes first, does not look at the rest of the head."""
    nghttp2_submit_rst_stream(library, NGHTTP2_FLAG_NONE, id, error)
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE


cdef int on_header(
    nghttp2_session* library, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
    const uint8_t* value, size_t value_size, uint8_t flags, void* owner,
) noexcept:
    cdef HTTP2Session session = <HTTP2Session> owner
    cdef RequestStream stream
    cdef Listener listener = session.listener
    cdef Buffers buffers = listener.buffers
    cdef uint32_t both[2]
    cdef bint trails = frame.headers.cat != NGHTTP2_HCAT_REQUEST
    session.listed += name_size + value_size + FIELD
    if session.listed > FAR + (
            listener.limits.trailer_bytes if trails else <int64_t> listener.limits.head.total):
        session.credit -= CUT_OFF
        return refuse_stream(library, frame.hd.stream_id, NGHTTP2_ENHANCE_YOUR_CALM)
    if trails or session.in_head == NULL:
        return 0
    stream = <RequestStream> session.in_head
    if stream.refusal:
        return 0
    if stream.fields.size + name_size + value_size + 8 > listener.limits.head.total:
        stream.refusal = R_HEAD_TOO_LARGE
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
        stream = stream_of(library, frame.hd.stream_id)
        if stream is not None:                      # else it has had its answer
            session.credit -= RESET
            stream.silent = True
    if frame.hd.type == NGHTTP2_HEADERS:
        session.price_list(frame.hd.length)
    elif frame.hd.type != NGHTTP2_DATA:
        return 0
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
    session.allow(<int64_t> size // MOVED)
    if stream is None:
        nghttp2_session_consume_stream(library, id, size)
        return 0
    if stream.bytes.gone or stream.finished:
        stream.drop(size)
        return 0
    if stream.tunnels:
        session.allow(1)                            # a small message is no idle frame
    if session.listener.all_held() > buffers.budget and not someone_waits(&stream.readers):
        session.listener.reached.note(AT_BUFFERED_BYTES, True)
        stream.bytes.gone = True
        nghttp2_submit_rst_stream(library, NGHTTP2_FLAG_NONE, id, NGHTTP2_ENHANCE_YOUR_CALM)
        return 0
    stream.unread += size
    session.unread += size
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
    """A response may have ended before its request. Streams that the server ends are counted."""
    cdef HTTP2Session session = <HTTP2Session> owner
    cdef RequestStream stream
    cdef Counters counters = session.listener.counters
    if frame.hd.type == NGHTTP2_RST_STREAM:
        if counters is not None:
            counters.count_http2(HTTP2_RESETS, frame.rst_stream.error_code)
    elif frame.hd.type == NGHTTP2_GOAWAY:
        if frame.goaway.error_code != NGHTTP2_NO_ERROR and session.fault == NGHTTP2_NO_ERROR:
            session.fault = frame.goaway.error_code
    elif frame.hd.flags & NGHTTP2_FLAG_END_STREAM and (
            frame.hd.type == NGHTTP2_DATA or frame.hd.type == NGHTTP2_HEADERS):
        stream = stream_of(library, frame.hd.stream_id)
        if stream is not None:
            stream.sent = True
            try:
                stream.linger_on()
            except MemoryError:
                return NGHTTP2_ERR_CALLBACK_FAILURE
    return 0


FOLLOWS_RFC_9218 = bool(RFC9218)
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

# What the library limits by itself. Left as it is: 32 entries of SETTINGS, which cost credit by the frame;
# 1,000 acknowledgements that the client does not read, which cost as many; 4 kB of table for the fields that
# are sent; 64 kB of fields in a response (LARGEST_HEAD); the checks of messages (RFC 9113, 8). Push is for
# clients.
nghttp2_option_set_no_auto_window_update(options, 1)    # see open_window()
nghttp2_option_set_no_closed_streams(options, 1)    # which it keeps for their priorities otherwise
syncless_leave_to_credit(options)                   # resets, and frames that continue a head: see above


cdef struct Settings:
    nghttp2_settings_entry entries[8]
    size_t count


cdef inline void put_setting(Settings* settings, int32_t id, uint32_t value) noexcept:
    settings.entries[settings.count].settings_id = id
    settings.entries[settings.count].value = value
    settings.count += 1


# -- a connection --------------------------------------------------------------------------------------------


@cython.final
cdef class HTTP2Session(Frames):
    def __dealloc__(self):
        if self.library != NULL:
            nghttp2_session_del(self.library)

    cdef int live(self, Loop loop) except -1:
        """Read frames and begin the requests that they bring, until nothing more has come."""
        cdef Connection connection = self.connection
        cdef int _
        if self.library == NULL and not self.over:
            self.open()
        for _ in range(RECEIVES):
            if self.over or connection.stream.out.size >= OUT_HIGH:
                return 0                            # sent_all() goes on
            if not self.take_frames(loop):
                return connection.listen(loop, READ)
        return loop.push(connection)

    cdef int open(self) except -1:
        cdef Settings ours
        cdef Buffer* out = &self.connection.stream.out
        cdef const uint8_t* frame = NULL
        cdef ssize_t size
        cdef int i
        if nghttp2_session_server_new2(&self.library, callbacks, <void*> self, options):
            raise MemoryError
        self.listener.http2_connections += 1
        ours.count = 0
        put_setting(&ours, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, UNLIMITED)      # the first, see below
        put_setting(&ours, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, self.listener.limits.head.total)
        put_setting(&ours, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, True)
        if RFC9218:
            put_setting(&ours, NO_RFC7540_PRIORITIES, True)
        nghttp2_submit_settings(self.library, NGHTTP2_FLAG_NONE, ours.entries, ours.count)
        size = nghttp2_session_mem_send(self.library, &frame)
        if size < FRAME_HEAD + 6:
            raise MemoryError
        self.listener.buffers.append(out, <const char*> frame, size)
        for i in range(4):                          # the value of the first setting, in network order
            out.data[out.size - size + FRAME_HEAD + 2 + i] = <char> (self.most_streams >> 24 - 8 * i & 255)
        if self.listener.stopping:
            self.stop(False)
        self.last = -1
        self.frame_left = PREFACE
        self.credit = CREDIT
        self.credited = self.listener.loop.clock.now
        return self.soon()

    cdef bint take_frames(self, Loop loop) except -1:
        """Return whether something has come. The client has left: `over`."""
        cdef Connection connection = self.connection
        cdef Buffers buffers = self.listener.buffers
        cdef Input input
        cdef ssize_t used
        input.size = 0
        used = borrow_input(&connection.stream, buffers, &input)
        if self.library == NULL:                    # ended while TLS ran Python code
            if used > 0:
                return_input(&connection.stream, buffers, &input, input.size)
            return False
        if used <= 0:
            self.over = used == 0
            self.keep_time()
            return used == 0
        if loop.clock.now - self.credited >= MOMENT:
            self.allow(min(<int64_t> CREDIT, (loop.clock.now - self.credited) // MOMENT * REFILL // 100))
            self.credited = loop.clock.now
        self.count_frames(<const uint8_t*> input.data, input.size)
        used = nghttp2_session_mem_recv(self.library, <const uint8_t*> input.data, input.size)
        if self.untold:
            self.credit -= self.untold
            self.ignored = True
            self.untold = 0
        return_input(&connection.stream, buffers, &input, input.size)
        self.act(loop)
        if used < 0:                                # its own GOAWAY is on its way, where it could make one
            self.over = True
            if self.fault == NGHTTP2_NO_ERROR:
                self.fault = (
                    NGHTTP2_ENHANCE_YOUR_CALM if used == NGHTTP2_ERR_FLOODED
                    else NGHTTP2_PROTOCOL_ERROR if used == NGHTTP2_ERR_BAD_CLIENT_MAGIC
                    else NGHTTP2_INTERNAL_ERROR)
        if self.credit < 0 and self.fault == NGHTTP2_NO_ERROR:
            self.fault = NGHTTP2_ENHANCE_YOUR_CALM
        if self.library != NULL:
            if self.fault != NGHTTP2_NO_ERROR:
                nghttp2_session_terminate_session(self.library, self.fault)
            if self.unread <= ROOM // 2:            # else applications have to read first
                self.open_window()
        if self.in_head != NULL and self.listener.all_held() > buffers.budget:
            shed_slow_heads(self.listener)
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

    cdef void price_list(self, size_t size) noexcept:
        """A list of fields has come in so many bytes: what they unpack to costs credit, beyond that which the
        table holds and a good code gains."""
        cdef int64_t more = self.listed - TABLE - GAIN * <int64_t> size
        if more > 0:
            self.credit -= more // MOVED

    cdef void count_frames(self, const uint8_t* at, size_t size) noexcept:
        """Frames cost credit unless they move something. The library tells neither of those that it does not
        know nor of DATA frames for a stream that is over: the latter are `untold` when it has read them."""
        cdef const uint8_t* end = at + size
        cdef uint8_t* head = self.frame_head
        cdef size_t part
        while at < end:
            if self.frame_left == 0:
                part = min(<size_t> (FRAME_HEAD - self.frame_got), <size_t> (end - at))
                memcpy(head + self.frame_got, at, part)
                self.frame_got += <uint8_t> part
                at += part
                if self.frame_got < FRAME_HEAD:
                    return
                self.frame_got = 0
                self.frame_left = head[0] << 16 | head[1] << 8 | head[2]
                if head[3] == NGHTTP2_DATA:
                    self.untold += 1
                    self.credit -= self.frame_left < SMALL
                elif head[3] != NGHTTP2_HEADERS:
                    self.credit -= 1
            part = min(<size_t> self.frame_left, <size_t> (end - at))
            self.frame_left -= <uint32_t> part
            at += part

    cdef bint finds_stray_data(self) noexcept:
        """They are the client's fault unless the server has ended a stream first, or takes no more."""
        cdef bint stray = self.ignored and self.spared == 0
        self.ignored = False
        return stray and nghttp2_session_terminate_session(self.library, NGHTTP2_STREAM_CLOSED) == 0

    cdef int act(self, Loop loop) except -1:
        """Act on the notes of the callbacks."""
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

    cdef bint has_an_end(self) except -1:
        cdef RequestStream stream
        streams = self.streams()
        for stream in streams:
            if stream.exchange is None and stream.deadline.kind == NO_DEADLINE and stream.open:
                return False
        return len(streams) > 0

    cdef list streams(self):
        """Those that are open, or whose application runs."""
        cdef list found = []
        cdef Node* node = self.all_streams.first
        while node != NULL:
            found.append(<object> node.owner)
            node = node.after
        return found

    cdef int send_goaway(self) except -1:
        """No more requests, because the server stops."""
        cdef int32_t last
        if self.library == NULL:
            return 0
        last = nghttp2_session_get_last_proc_stream_id(self.library)
        nghttp2_submit_goaway(self.library, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0)
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
        self.quiet = True
        if self.library != NULL:                    # else it is being closed
            nghttp2_session_terminate_session(self.library, NGHTTP2_NO_ERROR)
        return self.soon()

    cdef int lost(self, Loop loop) except -1:
        """Nothing more can be sent: requests that still run meet a client that has left."""
        cdef RequestStream stream
        cdef Counters counters = self.listener.counters
        self.over = True
        if self.library == NULL:
            return 0
        nghttp2_session_del(self.library)
        self.library = NULL
        self.listener.http2_connections -= 1
        streams = self.streams()
        for stream in streams:                      # all of them, before one lets others run
            stream.bytes.gone = stream.bytes.ended = stream.bytes.peer_shutdown = True
            if stream.open:
                stream.open = False
                Py_DECREF(stream)
        for stream in streams:
            stream.closed(loop)
        if self.fault != NGHTTP2_NO_ERROR:
            if counters is not None:
                counters.count_http2(HTTP2_GOAWAYS, self.fault)
            self.listener.error_log.warning(disconnection(
                self.connection.remote_addr, self.fault, self.credit < 0))
        return 0

    cdef int interrupt(self, Loop loop) except -1:
        """The connection goes on until they have ended."""
        cdef RequestStream stream
        self.interrupted = True
        for stream in self.streams():
            if stream.exchange is not None and stream.deadline.kind == NO_DEADLINE:
                loop.throw(stream.exchange, TaskletExit())
        return self.send_goaway()

    cdef int stop(self, bint at_last) except -1:
        """First that there will be a last request, then that there has been (RFC 9113, 6.8)."""
        if self.library == NULL:
            return 0
        if not self.noticed:
            self.noticed = True
            nghttp2_submit_shutdown_notice(self.library)
            return self.soon()
        if not at_last:
            return 0
        if self.running == 0 and self.open_streams == (self.in_head != NULL):
            self.quiet = self.listener.loop.clock.now - self.credited >= JUST_COME_NS
            nghttp2_session_terminate_session(self.library, NGHTTP2_NO_ERROR)
            return self.soon()
        if self.last_told:
            return 0
        self.last_told = True
        return self.send_goaway()

    cdef int tell_stop(self, bint at_last) except -1:
        cdef RequestStream stream
        cdef Exchange exchange
        self.stop(True)
        for stream in self.streams():
            exchange = stream.exchange              # kept: it may end meanwhile
            if exchange is not None:
                exchange.tell_stop(at_last)
        return 0


cdef class HTTP2(Sessions):
    """HTTP2(streams, cleartext): makes the session of a connection that begins with the preface."""
    cdef bint cleartext             # a connection without TLS may begin with the preface
    cdef int streams                # that a connection has at most

    def __init__(self, int streams, bint cleartext):
        self.streams = streams
        self.cleartext = cleartext

    cdef Session begin(self, const Incoming* incoming):
        cdef HTTP2Session session
        cdef TlsLayer layer
        if incoming.stream.layer == NULL:
            if not self.cleartext:
                return None
        else:
            layer = <TlsLayer> incoming.stream.layer
            if layer.described_by(_protocol) != "h2":
                return None
        session = HTTP2Session.__new__(HTTP2Session)
        session.listener = <Listener> incoming.listener
        session.most_streams = self.streams
        session.connection = <Connection> incoming.connection
        return session


def _protocol(connection) -> str:
    return connection.selected_alpn_protocol() or ""


def disconnection(str address, uint32_t error, bint idle) -> str:
    """Return the line of the error log for a connection that the server has ended."""
    name = HTTP2_ERRORS[min(error, <uint32_t> len(HTTP2_ERRORS) - 1)].upper()
    why = ", because it sent too many frames without data" if idle else ""
    return f"The HTTP/2 connection of {address or 'a client'} was closed with {name}{why}."
