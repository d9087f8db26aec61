"""RequestStream: a request that a connection of HTTP/2 carries, from its head to the end of its response.

Takes the fields that came and the bytes of the body; gives the request to the listener's Application, and the
library the response. The application knows nothing of frames: it has a Peer, whose bytes are those of the
body and of the response.

A request is written as a head of HTTP/1.1 and read by the scanner that reads those, so what is malformed or
too large is the same in both. In the same way a body without a Content-Length is written in chunks, and the
head of a response is the text that HTTP/1.1 sends, whose lines become fields here. Price: a copy of some
hundred bytes.

A stream that asks for a WebSocket (RFC 8441) is written as the handshake of HTTP/1.1, with a key of ours. The
101 that answers it becomes a 200 here. An ordinary 200 would say the same to the client, so it is replaced.

A stream's window opens as its body is read. Data that arrives after the response is dropped, within the
limits of a lingering connection. Fact: RST_STREAM (NO_ERROR; RFC 9113, 8.1) would spare the client the rest.
Danger: one that sends all of its body before it reads, as httpx does, waits for its window for ever, or
fails. Guarded by tests/http2/test_linger.py. Next to read: session.pyx.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy, memset

from syncless._core.clock cimport monotonic_ns
from syncless._core.linked cimport remove
from syncless._core.loop cimport Loop
from syncless._core.poll.poller cimport WRITE
from syncless._core.scheduler cimport TIMED_OUT, Scheduler
from syncless._core.wait.waitqueue cimport someone_waits, wake_all
from syncless.http.connection cimport Connection, may_linger, refused_head, write_refusal
from syncless.http.exchange cimport Application, Exchange, Session, give_back
from syncless.http.http2.nghttp2 cimport *
from syncless.http.listener cimport (
    AT_STREAMS, DRAIN_DEADLINE, NO_DEADLINE, NOT_RUN, QUEUE_DEADLINE, WRITE_DEADLINE, Listener,
)
from syncless.http.peer cimport Carried, Incoming, Peer
from syncless.http.request cimport HeadRequest
from syncless.http.stream cimport Buffer, Buffers, Stream, drop_unsent, free_stream
from syncless.http.wire.wire cimport (
    HTTP_2, NO_BODY, OUT_HIGH, R_FAILED, R_MALFORMED, R_PROTOCOL, R_TOO_MANY, data_rate_check,
    data_rate_is_too_slow, data_rate_may_wait, head, is_hop_by_hop, known_name,
)

import re

from syncless.http.errors import ConnectionLost
from syncless.http.wire.wire import is_field

cdef enum:
    RESPONSE = 20           # frames that a response allows
    MOVED = 256             # bytes that allow one
    WINDOWS = 2             # frames that open windows again after a message of a WebSocket
    LARGEST_HEAD = 65536    # bytes of fields that the library sends; it leaves out what is larger
    UNREAD = 1048576        # bytes of all bodies of a connection that may lie here unread
    LITTLE_ROOM = 8192      # bytes of a response that wait here while there is too much in all buffers


# The fields of HTTP/1.1's handshake that RFC 8441 leaves out.
cdef bytes HANDSHAKE = (
    b"upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-key: c3luY2xlc3Mgb3ZlciBoMg==\r\n")

STATUS_LINE = re.compile(rb"HTTP/1\.1 [1-9][0-9][0-9]( |$)")

cdef extern from "<string.h>":
    void* memmem(const void* text, size_t size, const void* part, size_t part_size) nogil


cdef class Frames(Session):
    cdef int soon(self) except -1:
        """There may be frames to send."""
        if self.library == NULL or self.connection.stream.fd < 0:
            return 0
        return self.listener.flusher.add(self.connection)

    cdef void open_window(self) noexcept:
        """An application reads: the client may send more of all bodies, if not too much lies here."""
        cdef int32_t room
        if self.library == NULL:
            return
        room = nghttp2_session_get_local_window_size(self.library)
        if room <= ROOM // 2 and self.unread + ROOM <= UNREAD:
            nghttp2_submit_window_update(self.library, NGHTTP2_FLAG_NONE, 0, ROOM - room)
        self.soon()

    cdef void allow(self, int64_t frames) noexcept:
        """Something has moved: the client may send so many more."""
        self.credit = min(<int64_t> CREDIT, self.credit + frames)


cdef void submit_trailers(nghttp2_session* library, RequestStream stream) noexcept:
    cdef Py_ssize_t count
    try:
        count = find_fields(PyBytes_AS_STRING(stream.trailers), PyBytes_GET_SIZE(stream.trailers), False)
        nghttp2_submit_trailer(library, stream.id, fields_found, count)
    except Exception:
        nghttp2_submit_rst_stream(library, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_INTERNAL_ERROR)


cdef ssize_t take_response(
    nghttp2_session* library, int32_t id, uint8_t* into, size_t room, uint32_t* flags,
    nghttp2_data_source* source, void* owner,
) noexcept:
    """Return bytes of a response for a DATA frame."""
    cdef Frames session = <Frames> owner
    cdef RequestStream stream = <RequestStream> source.ptr
    cdef Stream* of = &stream.bytes
    cdef size_t taken = 0, part
    if of.out_sent < of.out.size:
        taken = min(room, of.out.size - of.out_sent)
        memcpy(into, of.out.data + of.out_sent, taken)
        of.out_sent += taken
    if of.out_body != NULL and of.out_sent >= of.out.size:
        part = of.out_sent - of.out.size
        part = min(room - taken, PyBytes_GET_SIZE(<object> of.out_body) - part)
        memcpy(into + taken, PyBytes_AS_STRING(<object> of.out_body) + (of.out_sent - of.out.size), part)
        of.out_sent += part
        taken += part
    stream.taken += taken
    session.allow(<int64_t> taken // MOVED + (WINDOWS if stream.tunnels else 0))
    if stream.left() == 0:
        drop_unsent(of, session.listener.buffers)
        if stream.finished:
            flags[0] |= NGHTTP2_DATA_FLAG_EOF
            if stream.trailers is not None:
                flags[0] |= NGHTTP2_DATA_FLAG_NO_END_STREAM
                submit_trailers(library, stream)
        elif taken == 0:
            stream.deferred = True
            return NGHTTP2_ERR_DEFERRED
        try:
            wake_all(&stream.writers)
        except MemoryError:
            return NGHTTP2_ERR_CALLBACK_FAILURE
    return taken


# -- from the text of a head to fields -----------------------------------------------------------------------

cdef bint is_named(const char* name, size_t size, bytes other) noexcept:
    return <Py_ssize_t> size == PyBytes_GET_SIZE(other) and memcmp(name, PyBytes_AS_STRING(other), size) == 0


# Nothing switches tasklets while they are in use.
cdef nghttp2_nv* fields_found = NULL
cdef size_t fields_room = 0
cdef char* fields_end = NULL        # behind the empty line


cdef enum:
    REMEMBERED = 2048       # bytes of a response's head

# The last head of a response, as it was and with its names in lower case, where `fields_found` points.
cdef char last_head[REMEMBERED]
cdef char last_head_lower[REMEMBERED]
cdef Py_ssize_t last_head_size = 0
cdef Py_ssize_t last_head_count


cdef Py_ssize_t find_fields(char* text, Py_ssize_t size, bint has_status) except -1:
    """Return the fields of a head or of trailers, up to the empty line, in `fields_found`; how many. Their
    names are made lower case in place. Fields of the connection are left out: HTTP/2 has none."""
    global fields_found, fields_room, fields_end, last_head_size
    cdef Py_ssize_t count = 0
    cdef char* end = text + size
    cdef char* line_end
    cdef char* colon
    cdef char* at
    cdef nghttp2_nv* field
    cdef void* grown
    last_head_size = 0
    while text < end:
        line_end = <char*> memchr(text, c"\r", end - text)
        if line_end == NULL or line_end == text:
            break
        if <size_t> count == fields_room:
            grown = PyMem_Realloc(fields_found, (fields_room + 64) * sizeof(nghttp2_nv))
            if grown == NULL:
                raise MemoryError
            fields_found = <nghttp2_nv*> grown
            fields_room += 64
        field = &fields_found[count]
        field.flags = NGHTTP2_NV_FLAG_NONE
        if has_status:                              # "HTTP/1.1 200 OK"
            has_status = False
            field.name, field.namelen = <uint8_t*> b":status", 7
            field.value, field.valuelen = <uint8_t*> text + 9, 3
            count += 1
        else:
            colon = <char*> memchr(text, c":", line_end - text)
            if colon == NULL:
                raise ValueError(f"not a header field: {text[:line_end - text]!r}")
            at = text
            while at < colon:
                if c"A" <= at[0] <= c"Z":
                    at[0] += 32
                at += 1
            if not (is_hop_by_hop(known_name(text, colon - text))
                    or is_named(text, colon - text, b"sec-websocket-accept")):
                field.name, field.namelen = <uint8_t*> text, colon - text
                at = colon + 1
                while at < line_end and (at[0] == c" " or at[0] == c"\t"):
                    at += 1
                field.value, field.valuelen = <uint8_t*> at, line_end - at
                count += 1
        text = line_end + 2
    fields_end = text + 2
    return count


cdef Py_ssize_t find_head_fields(char* text, Py_ssize_t size) except -1:
    """As find_fields() for a head. That of the last response often comes again, within a second."""
    global last_head_size, last_head_count, fields_end
    cdef char* end
    if last_head_size == 0 or last_head_size > size or memcmp(text, last_head, last_head_size):
        end = <char*> memmem(text, size, b"\r\n\r\n", 4)
        if end == NULL or end + 4 - text > REMEMBERED:
            return find_fields(text, size, True)
        size = end + 4 - text
        memcpy(last_head, text, size)
        memcpy(last_head_lower, text, size)
        last_head_count = find_fields(last_head_lower, size, True)
        last_head_size = size
    fields_end = text + last_head_size
    return last_head_count


cdef bint takes_fields(nghttp2_session* library, Py_ssize_t count) noexcept:
    """Return whether the client takes so many of `fields_found`, by SETTINGS_MAX_HEADER_LIST_SIZE."""
    cdef size_t size = 0
    cdef Py_ssize_t i
    for i in range(count):
        size += fields_found[i].namelen + fields_found[i].valuelen + 32     # RFC 9113, 6.5.2
    return size <= min(
        LARGEST_HEAD, nghttp2_session_get_remote_settings(library, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE))


# -- a stream ------------------------------------------------------------------------------------------------


@cython.final
@cython.no_gc       # made in a callback; its cycles with a Session and an Exchange end with the request
cdef class RequestStream(Carried):
    def __dealloc__(self):
        cdef Buffers buffers
        if self.session is not None:
            remove(&self.session.all_streams, &self.place)
            self.session.unread -= self.unread
            buffers = self.session.listener.buffers
            free_stream(&self.bytes, buffers)
            buffers.release(&self.fields)

    cdef size_t left(self) noexcept:
        """Return bytes of the response that have not gone to frames yet."""
        cdef size_t body = 0
        if self.bytes.out_body != NULL:
            body = PyBytes_GET_SIZE(<object> self.bytes.out_body)
        return self.bytes.out.size + body - self.bytes.out_sent

    # -- its life --------------------------------------------------------------------------------------------

    cdef int begin(self, Loop loop) except -1:
        """Its head has come: the request gets its turn, waits for it or is refused."""
        cdef Frames session = self.session
        cdef Listener listener = session.listener
        cdef Connection connection = session.connection
        cdef Application application = <Application> listener.application
        cdef head found
        cdef Incoming incoming = Incoming(
            <PyObject*> listener, <PyObject*> self, &self.bytes, <PyObject*> connection.remote_addr,
            connection.remote_port, connection.trusted, NULL, &found, connection.stream.fd)
        cdef Buffer text
        cdef long used = -500
        if session.running >= session.most_streams:         # for streams that the client has reset, too
            listener.reached.note(AT_STREAMS, True)
            return self.reset(NGHTTP2_REFUSED_STREAM)
        if connection.stream.layer != NULL:                 # for those who ask about the connection
            Py_INCREF(<object> connection.stream.layer)
            self.bytes.layer = connection.stream.layer
        memset(&text, 0, sizeof(Buffer))
        try:
            self.write_head(&text)
            incoming.data = text.data
            used = application.heads.scan(                  # one that asks again is likely to go on
                text.data, text.size, &listener.limits.head, connection.stream.fd, self.id > 1, False, &found)
            if self.tunnels and used > 0 and found.content_length >= 0:
                self.refusal = R_MALFORMED                           # RFC 9110, 9.3.6
            if self.refusal:
                used = -self.refusal
            if used <= 0:
                return self.refuse(-used if used else R_MALFORMED, text.data[:text.size])
            found.minor = HTTP_2
            found.websocket = self.tunnels
            found.keep_alive = True
            found.chunked = self.has_body and not self.as_it_comes
            application.heads.scanned = 0                   # several may be answered at once
            self.exchange = application.exchange(&incoming)
        except MemoryError:
            raise
        except Exception as error:
            loop.report("a request of HTTP/2", error)
            return self.refuse(R_FAILED, text.data[:text.size])
        finally:
            listener.buffers.release(&text)
        if self.exchange is None:                           # native handlers
            return self.reset(NGHTTP2_HTTP_1_1_REQUIRED)
        session.running += 1
        listener.http2_streams += 1
        listener.requests += 1
        if listener.quota is not None:
            listener.quota.take()
        if listener.admission.begin(self.exchange.rank):
            return loop.push(self)
        if not listener.admission.queue(&self.deadline, self, self.exchange.rank):
            return self.refuse_busy()
        return 0

    cdef int write_head(self, Buffer* text) except -1:
        """Write the request as HTTP/1.1 does. The library has checked the names and the values."""
        cdef Buffers buffers = self.session.listener.buffers
        cdef const char* at = self.fields.data
        cdef const char* end = at + self.fields.size
        cdef const char* method = b""
        cdef const char* path = b""
        cdef const char* authority = b""
        cdef uint32_t sizes[2]
        cdef uint32_t method_size = 0, path_size = 0, authority_size = 0
        cdef const char* value
        cdef bint cookies = False
        while at < end:
            memcpy(sizes, at, 8)
            at += 8
            value = at + sizes[0]
            if at[0] == c":":
                if at[1] == c"m":
                    method, method_size = value, sizes[1]
                elif at[1] == c"p" and sizes[0] == 5:
                    path, path_size = value, sizes[1]
                elif at[1] == c"p" and (sizes[1] != 9 or memcmp(value, b"websocket", 9)):
                    self.refusal = R_PROTOCOL
                elif at[1] == c"a":
                    authority, authority_size = value, sizes[1]
            at = value + sizes[1]
        if path_size == 0:                                  # CONNECT has none
            path, path_size = authority, authority_size
        if self.tunnels:
            method, method_size = b"GET", 3
        if not (is_visible(method, method_size) and is_visible(path, path_size)):
            self.refusal = R_MALFORMED
        elif path[0] != c"/" and not is_named(method, method_size, b"CONNECT") and not (
                path_size == 1 and path[0] == c"*" and is_named(method, method_size, b"OPTIONS")):
            self.refusal = R_MALFORMED                      # RFC 9113, 8.3.1: the host is in :authority
        buffers.append(text, method, method_size)
        buffers.append(text, b" ", 1)
        buffers.append(text, path, path_size)
        buffers.append(text, b" HTTP/1.1\r\n", 11)
        if authority_size:
            put_field(buffers, text, b"host", 4, authority, authority_size)
        at = self.fields.data
        while at < end:
            memcpy(sizes, at, 8)
            at += 8
            value = at + sizes[0]
            if sizes[0] == 6 and memcmp(at, b"cookie", 6) == 0:
                cookies = True
            elif sizes[0] == 4 and authority_size and memcmp(at, b"host", 4) == 0:
                if sizes[1] != authority_size or memcmp(value, authority, authority_size):
                    self.refusal = R_MALFORMED                       # RFC 9113, 8.3.1
            elif at[0] != c":" and not (self.tunnels and is_named(at, sizes[0], b"sec-websocket-key")):
                put_field(buffers, text, at, sizes[0], value, sizes[1])
            at = value + sizes[1]
        if cookies:
            self.write_cookies(text)
        if self.tunnels:
            buffers.append(text, PyBytes_AS_STRING(HANDSHAKE), PyBytes_GET_SIZE(HANDSHAKE))
        buffers.append(text, b"\r\n", 2)
        buffers.release(&self.fields)
        return 0

    cdef int write_cookies(self, Buffer* text) except -1:
        """All in one field (RFC 9113, 8.2.3)."""
        cdef Buffers buffers = self.session.listener.buffers
        cdef const char* at = self.fields.data
        cdef const char* end = at + self.fields.size
        cdef uint32_t sizes[2]
        cdef const char* before = b"cookie: "
        while at < end:
            memcpy(sizes, at, 8)
            if sizes[0] == 6 and memcmp(at + 8, b"cookie", 6) == 0:
                buffers.append(text, before, 8 if before[0] == c"c" else 2)
                buffers.append(text, at + 8 + 6, sizes[1])
                before = b"; "
            at += 8 + sizes[0] + sizes[1]
        return buffers.append(text, b"\r\n", 2)

    cdef int turn(self, Scheduler loop) except -1:
        """Its request runs, to its end."""
        cdef Listener listener = self.session.listener
        cdef Exchange exchange = self.exchange
        cdef int64_t started = NOT_RUN
        if not self.bytes.gone:                             # else the client has reset it meanwhile
            exchange.started = (<Loop> loop).clock.now
            (<Loop> loop).adopt(exchange)
            exchange.run_inline(loop)                       # may park; others run meanwhile
            started = exchange.started
            listener.http2_requests += 1
            exchange.count()
        listener.admission.end(exchange.rank, started)
        exchange = None                                     # finish() can use it again
        return self.finish()

    cdef int finish(self) except -1:
        """The request has ended, or will never run."""
        cdef Frames session = self.session
        cdef Exchange exchange = self.exchange
        self.exchange = None
        session.running -= 1
        session.listener.http2_streams -= 1
        wake_all(&self.readers)
        if someone_waits(&self.writers):
            self.bytes.torn |= not exchange.upgraded        # in the middle of a response
            wake_all(&self.writers)
        exchange.end()
        give_back(<Application> session.listener.application, exchange, -1)
        if self.bytes.torn or not self.answered:
            return self.reset(NGHTTP2_INTERNAL_ERROR)
        return self.end_response()

    cdef int end_response(self) except -1:
        """All of it is here."""
        self.session.allow(RESPONSE)
        self.finished = True
        session_consume(self)
        if self.open and not self.sent:
            self.state.since = self.state.progress = self.session.listener.loop.clock.now
            self.session.listener.deadlines.start(&self.deadline, WRITE_DEADLINE, self)
        self.linger_on()
        return self.resume()

    cdef int linger_on(self) except -1:
        """Both its application and its response have ended, but perhaps not its request."""
        cdef Listener listener = self.session.listener
        if not (self.finished and self.sent and self.open) or self.ended:
            return 0
        if self.tunnels:
            nghttp2_submit_rst_stream(self.session.library, NGHTTP2_FLAG_NONE, self.id, NGHTTP2_NO_ERROR)
            return 0
        self.linger.progressed = True
        return listener.deadlines.start(&self.deadline, DRAIN_DEADLINE, self)

    cdef void drop(self, size_t size) noexcept:
        """Bytes of the body have come that nobody reads any more."""
        cdef nghttp2_session* library = self.session.library
        cdef int64_t left = self.session.listener.limits.linger_bytes - self.linger.bytes
        nghttp2_session_consume_stream(library, self.id, size)
        if not self.finished or self.bytes.gone:
            return
        self.linger.progressed = True
        if <int64_t> size <= left:
            self.linger.bytes += size
            return
        self.bytes.gone = True
        nghttp2_submit_rst_stream(
            library, NGHTTP2_FLAG_NONE, self.id, NGHTTP2_NO_ERROR if self.sent else NGHTTP2_INTERNAL_ERROR)

    cdef int reset(self, uint32_t error) except -1:
        self.finished = True
        session_consume(self)
        if self.open and self.session.library != NULL:
            nghttp2_submit_rst_stream(self.session.library, NGHTTP2_FLAG_NONE, self.id, error)
        return self.session.soon()                  # also if it is closed: its connection may be idle now

    cdef int refuse(self, int reason, bytes text) except -1:
        """Answer a request that no application gets."""
        cdef Frames session = self.session
        cdef Connection connection = session.connection
        cdef HeadRequest request = refused_head(
            session.listener, &self.bytes, connection.remote_addr, connection.remote_port, text)
        request.found.minor = HTTP_2
        write_refusal(
            session.listener, &self.bytes, connection.remote_addr, connection.remote_port, reason,
            request)
        self.send_head()
        return self.end_response()

    cdef int refuse_busy(self) except -1:
        """The client is told to come back later."""
        cdef Frames session = self.session
        cdef Exchange exchange = self.exchange
        write_refusal(
            session.listener, &self.bytes, session.connection.remote_addr, session.connection.remote_port,
            R_TOO_MANY, exchange.request)
        self.exchange = None
        session.running -= 1
        session.listener.http2_streams -= 1
        self.send_head()
        self.end_response()
        exchange.end()
        return give_back(<Application> session.listener.application, exchange, -1)

    cdef int expired(self, Loop loop, int kind) except -1:
        cdef Listener listener = self.session.listener
        if kind == QUEUE_DEADLINE:
            listener.admission.expire()
            return self.refuse_busy()
        if kind == WRITE_DEADLINE:
            if self.may_wait():
                return listener.deadlines.start(&self.deadline, WRITE_DEADLINE, self)
            return self.reset(NGHTTP2_INTERNAL_ERROR)
        if may_linger(&self.linger, listener):
            return listener.deadlines.start(&self.deadline, DRAIN_DEADLINE, self)
        return self.reset(NGHTTP2_NO_ERROR)

    cdef int closed(self, Loop loop) except -1:
        """The client has reset it, has left, or has had all of the response."""
        cdef Exchange exchange = self.exchange      # kept: it may end meanwhile
        wake_all(&self.readers)
        wake_all(&self.writers)
        if exchange is None:
            self.session.listener.deadlines.stop(&self.deadline)
            return 0
        if self.deadline.kind != NO_DEADLINE:
            self.session.listener.admission.leave(&self.deadline)
            self.answered = False
            return self.finish()
        return exchange.interrupt(loop)

    # -- for the Peer of its request -------------------------------------------------------------------------

    cdef int send_head(self) except -1:
        """Heads of interim responses, then that of the final one; what lies behind that is its body."""
        cdef nghttp2_session* library = self.session.library
        cdef Stream* of = &self.bytes
        cdef nghttp2_data_provider body
        cdef char* text
        cdef Py_ssize_t count
        cdef bint whole, switched = self.exchange is not None and self.exchange.upgraded
        if library == NULL or not self.open:
            return 0
        while not self.answered and of.out_sent < of.out.size:
            text = of.out.data + of.out_sent
            if switched:
                if not is_whole_head(text, of.out.size - of.out_sent):
                    return 0                        # a library of the application's sends it in parts
                self.check_handshake(text, of.out.size - of.out_sent)
                library = self.session.library      # it has run Python code
                if library == NULL or not self.open or of.out_sent >= of.out.size:
                    return 0
                text = of.out.data + of.out_sent
                if memcmp(text + 9, b"101", 3) == 0:
                    memcpy(text + 9, b"200", 3)
            elif self.tunnels and text[9] == c"2":
                return self.replace_response(b"501 Not Implemented")
            count = find_head_fields(text, of.out.size - of.out_sent)
            if self.exchange is not None and not takes_fields(library, count):
                if text[9] != c"1":
                    self.session.listener.error_log.error(
                        "The header fields of a response were larger than its client accepts; it got a 500.",
                        None, self.exchange)
                    return self.replace_response(b"500 Internal Server Error")      # it looks again
            elif text[9] == c"1":
                nghttp2_submit_headers(library, NGHTTP2_FLAG_NONE, self.id, NULL, fields_found, count, NULL)
            else:
                self.answered = True
                whole = self.exchange is not None and not switched and (
                    self.exchange.response.framing == NO_BODY or self.exchange.response.length == 0)
                body.source.ptr = <void*> self
                body.read_callback = take_response
                nghttp2_submit_response(library, self.id, fields_found, count, NULL if whole else &body)
            of.out_sent = fields_end - of.out.data
        if self.left() == 0:
            drop_unsent(of, self.session.listener.buffers)
        return self.session.soon()

    cdef int check_handshake(self, const char* text, size_t size) except -1:
        """Raise ValueError if the head that a library of the application's has written would be no head."""
        cdef const char* end = <const char*> memmem(text, size, b"\r\n\r\n", 4)
        if end == NULL:
            return 0
        status, *lines = text[:end - text].split(b"\r\n")
        wrong = None if STATUS_LINE.match(status) else status
        for line in lines:
            name, colon, value = line.partition(b":")
            if not (colon and is_field(name, value.strip(b" \t"))):
                wrong = line
        if wrong is not None:
            drop_unsent(&self.bytes, self.session.listener.buffers)     # the next try begins anew
            raise ValueError(f"not a line of a WebSocket handshake: {wrong!r}")
        return 0

    cdef int replace_response(self, bytes line) except -1:
        """By one that has only this status, unless the client has left."""
        cdef Exchange exchange = self.exchange
        cdef nghttp2_nv status = nghttp2_nv(
            <uint8_t*> b":status", <uint8_t*> PyBytes_AS_STRING(line), 7, 3, NGHTTP2_NV_FLAG_NONE)
        if exchange is not None:                # it may have ended while the log was written
            exchange.response.status, exchange.response.code = line.decode(), int(line[:3])
        drop_unsent(&self.bytes, self.session.listener.buffers)
        self.answered = self.bytes.gone = True
        if self.open and self.session.library != NULL:
            nghttp2_submit_response(self.session.library, self.id, &status, 1, NULL)
        return self.session.soon()

    cdef int set_trailers(self, bytes trailers) except -1:
        cdef Py_ssize_t count
        self.trailers = b"%b" % trailers            # whose names may be made lower case
        count = find_fields(PyBytes_AS_STRING(self.trailers), PyBytes_GET_SIZE(self.trailers), False)
        if self.session.library != NULL and not takes_fields(self.session.library, count):
            self.session.listener.error_log.error(
                "The trailers of a response were larger than its client accepts; its stream was reset.", None,
                self.exchange)
            self.bytes.torn = True
        return 0

    cdef int send_soon(self) except -1:
        if not self.answered:
            self.send_head()
        return self.resume()

    cdef int send_all(self, Peer peer, const char* data, Py_ssize_t size) except -1:
        cdef Py_ssize_t part
        cdef Listener listener = self.session.listener
        cdef size_t high = OUT_HIGH if listener.all_held() <= listener.buffers.budget else LITTLE_ROOM
        self.check_open(peer)
        while size:
            if self.bytes.out.size >= high or self.bytes.out_body != NULL:
                self.resume()
                peer.wait_writable()
                self.check_open(peer)
                continue
            part = min(size, <Py_ssize_t> (high - self.bytes.out.size))
            peer.append(data, part)
            data += part
            size -= part
        self.send_soon()
        while self.left() >= high:
            peer.wait_writable()
            self.check_open(peer)
        return 0

    cdef int check_open(self, Peer peer) except -1:
        """ConnectionLost if nothing more can be sent to the client of this request."""
        if peer.open_stream() != &self.bytes:
            raise ConnectionLost("the request has ended")
        return 0

    cdef int resume(self) except -1:
        """There are bytes of the response for the library."""
        if self.deferred and self.open and self.session.library != NULL:
            self.deferred = False
            nghttp2_session_resume_data(self.session.library, self.id)
        return self.session.soon()

    cdef bint may_wait(self) noexcept:
        """Return whether the server waits on for a client that is checked now. One that keeps the whole
        connection waiting is checked by that."""
        cdef int64_t now = monotonic_ns()
        if self.session.connection.stream.stalled:
            self.state.since = self.state.progress = now
            return True
        self.state.given = self.taken
        data_rate_check(&self.state, 0, now)
        return data_rate_may_wait(&self.state, &self.session.listener.limits, now)

    cdef int wait_writable(self, Peer peer) except -1:
        cdef Listener listener = self.session.listener
        cdef int64_t every = listener.deadlines.lists[WRITE_DEADLINE].length
        cdef bint may_wait
        cdef int outcome
        self.state.since = self.state.progress = monotonic_ns()
        while True:                                 # the client is checked each time
            outcome = peer.wait(WRITE, "client to read", every)
            if peer.stream != &self.bytes or self.bytes.gone:
                return 0
            may_wait = self.may_wait()
            if outcome != TIMED_OUT or not may_wait:
                break
        self.state.waited += monotonic_ns() - self.state.since
        self.state.since = 0
        if outcome == TIMED_OUT or data_rate_is_too_slow(&self.state, &listener.limits, monotonic_ns()):
            self.bytes.gone = self.bytes.torn = True
        return 0

    cdef void consumed(self) noexcept:
        """The windows open by what has been read: the inbox has chunk lines, too."""
        cdef Frames session = self.session
        cdef int64_t still = self.bytes.inbox.size - self.bytes.inbox_start
        if still < self.unread:
            if self.open and session.library != NULL:
                nghttp2_session_consume_stream(session.library, self.id, self.unread - still)
            session.unread -= self.unread - still
            self.unread = still
        session.open_window()


cdef void session_consume(RequestStream stream) noexcept:
    """Drop the rest of the body, which is not read any more."""
    cdef Buffers buffers = stream.session.listener.buffers
    buffers.release(&stream.bytes.inbox)
    stream.bytes.inbox_start = 0
    if stream.unread and stream.open and stream.session.library != NULL:
        nghttp2_session_consume_stream(stream.session.library, stream.id, stream.unread)
    stream.session.unread -= stream.unread
    stream.unread = 0


cdef bint is_whole_head(const char* text, size_t size) noexcept:
    return memmem(text, size, b"\r\n\r\n", 4) != NULL and size > 16 and memcmp(text, b"HTTP/1.1 ", 9) == 0


cdef bint is_visible(const char* text, uint32_t size) noexcept:
    """Return whether it is one word of a request line."""
    cdef uint32_t i
    for i in range(size):
        if <uint8_t> text[i] <= 32 or text[i] == 127:
            return False
    return size > 0


cdef int put_field(
    Buffers buffers, Buffer* text, const char* name, size_t name_size, const char* value, size_t size,
) except -1:
    buffers.append(text, name, name_size)
    buffers.append(text, b": ", 2)
    buffers.append(text, value, size)
    return buffers.append(text, b"\r\n", 2)
