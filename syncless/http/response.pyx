"""The response to one request: a head and the parts of a body, framed for the client (RFC 9110, RFC 9112).

    begin_response()    a request is to be answered
    set_head()          checks status and headers; a later call replaces an earlier one until commit()
    commit()            decides on the framing and writes the head. With a length, fewer bytes abort the
                        connection, and more are cut off
    put()               a part of the body
    end()               the body is complete
    forget()            the request has ended

Writes to the Peer of its request. A response whose end is known is put into the connection's buffer and
sent at the end of the loop's turn; parts of one that goes on are sent at once, and park the tasklet while the
client is slow. Knows nothing of the application that answers.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from syncless._core.calls.files cimport is_slow
from syncless.http.listener cimport Listener, ResponseHeads
from syncless.http.wire.wire cimport (
    BY_CLOSE, BY_LENGTH, CHUNKED, COPIED, HEAD_UNKNOWN, HTTP_2, K_CONNECTION, K_CONTENT_LENGTH,
    K_DATE, K_SERVER, K_UPGRADE, NO_BODY, OUT_HIGH, REPLY_CHUNK, REPLY_FRAMING, REPLY_LAST_CHUNK,
    is_hop_by_hop, is_token, is_value, known_name, put_chunk_line, put_framing, reply, reply_frame,
)

cdef extern from "Python.h":
    int PyUnicode_KIND(object s)
    void* PyUnicode_DATA(object s)
    Py_ssize_t PyUnicode_GET_LENGTH(object s)

cdef int64_t decimal(const char* text, Py_ssize_t size) noexcept:
    """Return the number that the ASCII digits say; -1 if they are none or too many."""
    cdef int64_t number = 0
    cdef Py_ssize_t i
    if size < 1 or size > 18:
        return -1
    for i in range(size):
        if not c"0" <= text[i] <= c"9":
            return -1
        number = number * 10 + (text[i] - c"0")
    return number


cdef list as_pairs(object fields):
    """Return the headers as a list of tuples of bytes."""
    cdef list pairs = []
    for field in fields:
        name, value = field
        if not PyBytes_CheckExact(name) or not PyBytes_CheckExact(value):
            if not isinstance(name, bytes) or not isinstance(value, bytes):
                raise TypeError(f"header names and values must be bytes, not {field!r}")
            name, value = bytes(name), bytes(value)     # of subclasses
        pairs.append((name, value))
    return pairs


cdef class Response:
    """Answers one request after the other, for an Exchange."""

    def __init__(self, Listener listener not None):
        self.listener = listener

    # -- the head --------------------------------------------------------------------------------------------

    cdef int set_head(self, object status, list headers) except -1:
        """`headers`: pairs of str. Raise ValueError, TypeError: they cannot be sent."""
        cdef ResponseHeads heads = self.listener.response_heads
        self.status = None
        if self.listener.access_log is not None:
            self.headers = headers if self.listener.access_log.wants_headers else None
        self.code = heads.status_code(status)
        if not heads.is_last(status, headers):
            return self.write_head(status, headers)
        self.last_head = heads.head
        self.length = heads.length
        self.closes = heads.closes
        self.status = status
        return 0

    cdef int write_head(self, object status, list headers) except -1:
        cdef ResponseHeads heads = self.listener.response_heads
        cdef Py_ssize_t i
        self.begin_head(status)
        for i in range(PyList_GET_SIZE(headers)):
            item = <object> PyList_GET_ITEM(headers, i)
            if type(item) is not tuple or PyTuple_GET_SIZE(item) != 2:
                raise TypeError(f"a header must be a tuple (name, value), not {item!r}")
            name = <object> PyTuple_GET_ITEM(item, 0)
            value = <object> PyTuple_GET_ITEM(item, 1)
            if not isinstance(name, str) or not isinstance(value, str):
                raise TypeError(f"header names and values must be str, not {item!r}")
            self.add_header(name, value)
        self.add_dates()
        self.status = status
        return heads.remember(status, headers, &self.head, self.length, self.closes)

    cdef int begin_head(self, object status) except -1:
        """Write the status line."""
        cdef ResponseHeads heads = self.listener.response_heads
        self.head.size = 0
        self.last_head = None
        self.length = -1
        self.closes = False
        if self.code < 200:
            raise ValueError(f"an application cannot send the interim status {status!r} as its response")
        self.has_date = self.has_server = False
        return self.listener.buffers.append(
            &self.head, PyBytes_AS_STRING(heads.status_line), PyBytes_GET_SIZE(heads.status_line))

    cdef int set_fields(self, int status, object fields) except -1:
        """As set_head(), with the status as a number and the headers as pairs of bytes."""
        cdef ResponseHeads heads = self.listener.response_heads
        cdef list pairs
        self.status = None
        if heads.is_same(status, fields):
            self.last_head = heads.head
            self.length = heads.length
            self.closes = heads.closes
            self.fields = heads.headers
            self.code = heads.status_code(status)
        else:
            self.fields = pairs = as_pairs(fields)
            self.code = heads.status_code(status)
            self.begin_head(status)
            for name, value in pairs:
                self.add_field(
                    name, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name),
                    value, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
            self.add_dates()
            heads.remember(status, pairs, &self.head, self.length, self.closes)
        if self.listener.access_log is not None and self.listener.access_log.wants_headers:
            self.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self.fields]
        self.status = str(status) if self.listener.access_log is not None else status
        return 0

    cdef int add_header(self, object header_name, object header_value) except -1:
        if PyUnicode_KIND(header_name) != 1:
            raise ValueError(f"not a header name: {header_name!r}")
        if PyUnicode_KIND(header_value) != 1:
            raise ValueError(f"header {header_name} has forbidden characters: {header_value!r}")
        return self.add_field(
            header_name, <const char*> PyUnicode_DATA(header_name), PyUnicode_GET_LENGTH(header_name),
            header_value, <const char*> PyUnicode_DATA(header_value), PyUnicode_GET_LENGTH(header_value))

    cdef int add_field(
        self, object header_name, const char* name, Py_ssize_t name_size,
        object header_value, const char* value, Py_ssize_t value_size,
    ) except -1:
        """A field whose name and value are these latin-1 bytes; the objects are for messages."""
        cdef int known = known_name(name, name_size)
        cdef char* at
        if known == HEAD_UNKNOWN and not is_token(name, name_size):
            raise ValueError(f"not a header name: {header_name!r}")
        if not is_value(value, value_size):
            raise ValueError(f"header {header_name} has forbidden characters: {header_value!r}")
        if known != HEAD_UNKNOWN and self.take_part_in_framing(known, value, value_size):
            return 0
        self.listener.buffers.reserve(&self.head, name_size + value_size + 4)
        at = self.head.data + self.head.size
        memcpy(at, name, name_size)
        at[name_size] = c":"
        at[name_size + 1] = c" "
        memcpy(at + name_size + 2, value, value_size)
        at[name_size + value_size + 2] = c"\r"
        at[name_size + value_size + 3] = c"\n"
        self.head.size += name_size + value_size + 4
        return 0

    cdef bint take_part_in_framing(self, int known, const char* value, Py_ssize_t size) except -1:
        """A header that says how the message is framed, or one that the server itself would add. Whether it
        must not be sent as it is."""
        cdef int64_t declared
        if known == K_CONTENT_LENGTH:
            declared = decimal(value, size)
            if declared < 0 or (self.length >= 0 and self.length != declared):
                text = value[:size].decode("latin-1")
                raise ValueError(f"Content-Length must be a number of bytes, given once, not {text!r}")
            if self.length >= 0 or self.code == 205:
                return True
            self.length = declared
            return self.code == 204                 # RFC 9110, 8.6
        if known == K_CONNECTION:
            options = value[:size].lower().split(b",")
            self.closes |= b"close" in [option.strip(b" \t") for option in options]
            return True
        if known == K_DATE:
            self.has_date = True
        elif known == K_SERVER:
            self.has_server = True
        elif known == K_UPGRADE and self.code == 426:     # RFC 9110, 15.5.22 and 7.8
            return self.listener.buffers.append(&self.head, b"Connection: Upgrade\r\n", 21)
        return is_hop_by_hop(known)

    cdef int add_dates(self) except -1:
        cdef bytes block = self.listener.response_heads.dates()
        if self.has_date or self.has_server:
            server, _, date = block.partition(b"\r\n")
            block = (b"" if self.has_server else server + b"\r\n") + (b"" if self.has_date else date)
        return self.listener.buffers.append(&self.head, PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block))

    # -- sending ---------------------------------------------------------------------------------------------

    cdef int commit(self, int64_t known_length) except -1:
        """Put the head into the connection's buffer. `known_length` is that of the whole body, or -1."""
        self.peer.answered = True
        if (
            self.last_head is not None and self.length >= 0 and self.code == 200 and self.keep_alive
            and self.minor == 1 and not (self.head_only or self.closes or self.listener.stopping)
        ):
            self.framing = BY_LENGTH                    # as usual: the head of the last response, as it is
            self.committed = True
            return self.peer.append(PyBytes_AS_STRING(self.last_head), PyBytes_GET_SIZE(self.last_head))
        return self.frame(known_length)

    cdef int frame(self, int64_t known_length) except -1:
        """Decide on the framing and complete the head with the fields that say so."""
        cdef bint declared = self.length >= 0
        cdef bint without_length = self.code == 204 or self.code == 304
        cdef reply decided
        cdef char fields[REPLY_FRAMING]
        if self.status is None:
            raise RuntimeError("the application produced a body before a status and headers")
        decided = reply_frame(
            self.code, self.minor == 1, self.head_only, self.length if declared else known_length, declared)
        self.framing = decided.framing
        if not declared:
            self.length = decided.length
        if self.minor != HTTP_2 and (self.listener.stopping or self.closes or self.framing == BY_CLOSE):
            self.keep_alive = False
        self.committed = True
        if self.last_head is not None:
            if self.keep_alive and self.minor == 1 and (declared or without_length):
                return self.peer.append(PyBytes_AS_STRING(self.last_head), PyBytes_GET_SIZE(self.last_head))
            self.peer.append(PyBytes_AS_STRING(self.last_head), PyBytes_GET_SIZE(self.last_head) - 2)
        else:
            self.peer.append(self.head.data, self.head.size)
            self.listener.buffers.release(&self.head)
        self.peer.append(fields, put_framing(
            fields, -1 if declared else self.length, self.framing == CHUNKED, self.minor != 0,
            not self.keep_alive))
        return self.peer.send_head() if self.minor == HTTP_2 else 0

    cdef int put(self, object data, bint last) except -1:
        """A part of the body. `last`: the rest follows without the application's having a say, so it need not
        leave at once. Return 1 the first time that a body is longer than its Content-Length, else 0."""
        cdef const char* bytes_
        cdef Py_ssize_t size
        cdef char line[REPLY_CHUNK]
        cdef int cut = 0
        if not PyBytes_CheckExact(data):
            if not isinstance(data, bytes):
                raise TypeError(f"the body must be bytes, not {type(data).__name__}")
            data = bytes(data)
        size = PyBytes_GET_SIZE(data)
        if not self.committed:
            if size == 0:
                return 0                            # the head waits for the first byte of the body
            self.commit(-1)
        if size == 0 or self.framing == NO_BODY:
            return 0
        if self.framing == BY_LENGTH:
            if self.body_sent + size > self.length:
                cut = self.body_sent < self.length or not self.complete
                size = <Py_ssize_t> (self.length - self.body_sent)
                self.keep_alive = False
                if size == 0:
                    self.complete = True
                    return cut
                data = data[:size]
            if self.body_sent + size == self.length:
                self.complete = last = True
        self.body_sent += size
        bytes_ = PyBytes_AS_STRING(data)
        if self.framing == CHUNKED:
            self.peer.append(line, put_chunk_line(line, size))
        if size <= COPIED:
            self.peer.append(bytes_, size)
        elif self.complete and not self.peer.has_body():
            self.peer.set_body(data)
        else:
            self.peer.send_all(bytes_, size)
        if self.framing == CHUNKED:
            self.peer.append(b"\r\n", 2)
        if not last or self.peer.pending() > OUT_HIGH:
            self.peer.send_all(NULL, 0)
        return cut

    cdef int put_file(self, int fd, int64_t offset, int64_t size) except -1:
        """The body is a part of a file, from `offset` on: sent by sendfile()."""
        if not self.committed:
            self.commit(size)
        if self.framing == BY_LENGTH:
            size = min(size, self.length)
            self.peer.send_file(fd, offset, size, is_slow(fd))
            self.body_sent += size
        return 0

    cdef bint takes_trailers(self) noexcept:
        """Return whether its framing has a place for them."""
        return self.framing == CHUNKED or (self.minor == HTTP_2 and self.framing == BY_CLOSE)

    cdef int end_with(self, bytes trailers) except -1:
        """As end(), with the lines of fields that follow the body."""
        if self.framing == CHUNKED:
            trailers = b"0\r\n" + trailers + b"\r\n"
            self.peer.append(PyBytes_AS_STRING(trailers), PyBytes_GET_SIZE(trailers))
        else:
            self.peer.set_trailers(trailers)
        self.complete = True
        return 0

    cdef int end(self) except -1:
        """Raise RuntimeError if the body is shorter than its Content-Length."""
        if not self.committed:
            self.commit(0)
        if self.framing == CHUNKED:
            self.peer.append(REPLY_LAST_CHUNK, 5)
        elif self.framing == BY_LENGTH and self.length > self.body_sent:
            raise RuntimeError(
                f"the body has {self.body_sent} bytes, but its Content-Length is {self.length}")
        self.complete = True
        return 0
