"""The response of one request: what an application says of it, turned into bytes for the client (PEP 3333,
RFC 9110, RFC 9112).

What frames the body:

    status 1xx, 204, 205, 304, HEAD  no body
    Content-Length, given or known   that many bytes; more are cut off, fewer abort the connection
    HTTP/1.1, length unknown         chunked
    HTTP/1.0, length unknown         the end of the connection

A response whose end is known is put into the connection's buffer and sent at the end of the loop's turn;
parts of one that goes on are sent at once and park the tasklet while the client is slow.
"""

cimport cython

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy

from syncless._core.calls.files cimport is_slow
from syncless._core.tasklet cimport Tasklet
from syncless.http.buffers cimport Buffer
from syncless.http.scanner cimport HEAD_UNKNOWN, is_token, is_value, known_name
from syncless.http.peer cimport Peer
from syncless.http.responseheads cimport ResponseHeads
from syncless.http.listener cimport Listener

cdef extern from "Python.h":
    int PyUnicode_KIND(object s)
    void* PyUnicode_DATA(object s)
    Py_ssize_t PyUnicode_GET_LENGTH(object s)

cdef enum:
    COPIED = 16384          # a body up to this size is copied behind its head and both are one buffer

# How known_name() numbers the fields that the server itself decides on.
cdef int CONTENT_LENGTH = known_name(b"content-length", 14)
cdef int CONNECTION = known_name(b"connection", 10)
cdef int DATE = known_name(b"date", 4)
cdef int SERVER = known_name(b"server", 6)
cdef char hop_by_hop[256]
cdef bytes _name
for _name in (b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"):
    hop_by_hop[known_name(PyBytes_AS_STRING(_name), len(_name))] = 1


cdef int64_t decimal(const char* text, Py_ssize_t size) noexcept:
    """The number that the ASCII digits say; -1 if they are none or too many."""
    cdef int64_t number = 0
    cdef Py_ssize_t i
    if size < 1 or size > 18:
        return -1
    for i in range(size):
        if not c"0" <= text[i] <= c"9":
            return -1
        number = number * 10 + (text[i] - c"0")
    return number


cdef class StartResponse:
    """Owner of the start_response() callable of PEP 3333."""

    @cython.binding(False)      # a plain C function is called without a tuple for its arguments
    def start_response(self, status, headers, exc_info=None):
        """start_response(status, headers, exc_info=None) -> write"""
        if self.response is None:
            raise RuntimeError("start_response() was called after the response had ended")
        self.response.accept_head(status, headers, exc_info)
        return self.write


cdef class Write:
    """The write() callable of PEP 3333: sends a part of the body at once."""

    def __call__(self, data, /):
        if self.response is None:
            raise RuntimeError("write() was called after the response had ended")
        self.response.put(data, False)


cdef class Response(Tasklet):
    """The half of a Request that answers."""

    # -- what the application says -------------------------------------------------------------------------------------------

    cdef int accept_head(self, object status, object headers, object exc_info) except -1:
        """What start_response() was told, checked and written as the response's head, but for what frames the
        body."""
        cdef Listener listener = self.listener
        cdef ResponseHeads heads = listener.response_heads
        cdef bytes block
        cdef const char* name
        cdef const char* value
        cdef char* at
        cdef Py_ssize_t name_size, value_size, i
        cdef int known
        cdef int64_t declared
        cdef bint dated = False, served = False
        if self.upgraded:
            return 0                                # a framework's view has to return something
        if exc_info is not None:
            try:
                if self.committed:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self.status is not None:
            raise AssertionError("start_response() was called a second time without exc_info (PEP 3333)")
        if not isinstance(status, str):
            raise TypeError(f"status must be a str, not {type(status).__name__}")
        if not isinstance(headers, list):
            raise TypeError(f"headers must be a list of (name, value), not {type(headers).__name__}")
        self.status = None
        self.headers = headers if listener.access_log is not None and listener.access_log.wants_headers else None
        self.head.size = 0
        self.recalled = None
        self.length = -1
        self.app_closes = False
        self.code = heads.status_code(status)
        if heads.is_last(status, headers):
            self.recalled = heads.head
            self.length = heads.length
            self.app_closes = heads.closes
            self.status = status
            return 0
        if self.code < 200:
            raise ValueError(f"an application cannot answer with the interim status {status!r}")
        listener.buffers.append(&self.head, PyBytes_AS_STRING(heads.status_line), PyBytes_GET_SIZE(heads.status_line))
        for i in range(PyList_GET_SIZE(headers)):
            item = <object> PyList_GET_ITEM(headers, i)
            if type(item) is not tuple or PyTuple_GET_SIZE(item) != 2:
                raise TypeError(f"each header must be a tuple (name, value), not {item!r}")
            header_name = <object> PyTuple_GET_ITEM(item, 0)
            header_value = <object> PyTuple_GET_ITEM(item, 1)
            if not isinstance(header_name, str) or not isinstance(header_value, str):
                raise TypeError(f"header names and values must be str, not {item!r}")
            name = <const char*> PyUnicode_DATA(header_name)
            name_size = PyUnicode_GET_LENGTH(header_name)
            value = <const char*> PyUnicode_DATA(header_value)
            value_size = PyUnicode_GET_LENGTH(header_value)
            known = known_name(name, name_size) if PyUnicode_KIND(header_name) == 1 else HEAD_UNKNOWN
            if known == HEAD_UNKNOWN and (PyUnicode_KIND(header_name) != 1 or not is_token(name, name_size)):
                raise ValueError(f"not a header name: {header_name!r}")
            if PyUnicode_KIND(header_value) != 1 or not is_value(value, value_size):
                raise ValueError(f"header {header_name} has characters that must not go out: {header_value!r}")
            if known != HEAD_UNKNOWN:
                if known == CONTENT_LENGTH:
                    declared = decimal(value, value_size)
                    if declared < 0 or (self.length >= 0 and self.length != declared):
                        raise ValueError(f"Content-Length must be a number of bytes, given once, not {header_value!r}")
                    if self.length >= 0 or self.code == 205:
                        continue
                    self.length = declared
                    if self.code == 204:
                        continue                    # RFC 9110, 8.6
                elif known == CONNECTION:
                    self.app_closes |= "close" in [option.strip(" \t").lower() for option in header_value.split(",")]
                    continue
                elif known == DATE:
                    dated = True
                elif known == SERVER:
                    served = True
                elif hop_by_hop[known]:
                    continue                        # the server's own (RFC 9110, 7.6.1)
            listener.buffers.reserve(&self.head, name_size + value_size + 4)
            at = self.head.data + self.head.size
            memcpy(at, name, name_size)
            at[name_size] = c":"
            at[name_size + 1] = c" "
            memcpy(at + name_size + 2, value, value_size)
            at[name_size + value_size + 2] = c"\r"
            at[name_size + value_size + 3] = c"\n"
            self.head.size += name_size + value_size + 4
        block = heads.dates()
        if dated or served:
            first, _, second = block.partition(b"\r\n")
            block = (b"" if served else first + b"\r\n") + (b"" if dated else second)
        listener.buffers.append(&self.head, PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block))
        self.status = status
        return heads.remember(status, headers, &self.head, self.length, self.app_closes)

    # -- what goes out -------------------------------------------------------------------------------------------------------

    cdef int commit(self, int64_t known_length) except -1:
        """Puts the head into the connection's buffer. `known_length` is that of the whole body, or -1."""
        cdef Listener listener = self.listener
        cdef Buffer* out = &self.peer.out
        cdef char number[48]
        cdef int i
        if self.status is None:
            raise RuntimeError("the application produced a body before it called start_response()")
        self.bodiless = self.head_only or self.code == 204 or self.code == 205 or self.code == 304
        if self.code == 205:
            known_length = 0                        # RFC 9110, 15.3.6
        if listener.stopping or self.app_closes:
            self.keep_alive = False
        if self.recalled is not None:
            if self.keep_alive and not self.http_1_0 and (self.length >= 0 or self.code == 204 or self.code == 304):
                listener.buffers.append(out, PyBytes_AS_STRING(self.recalled), PyBytes_GET_SIZE(self.recalled))
                self.committed = True
                return 0
            listener.buffers.append(out, PyBytes_AS_STRING(self.recalled), PyBytes_GET_SIZE(self.recalled) - 2)
        else:
            listener.buffers.append(out, self.head.data, self.head.size)
            listener.buffers.release(&self.head)
        if self.length < 0 and self.code != 204 and self.code != 304:
            if known_length >= 0 and not (self.head_only and known_length == 0):
                self.length = known_length
                i = snprintf(number, 48, "Content-Length: %lld\r\n", <long long> known_length)
                listener.buffers.append(out, number, i)
            elif self.head_only:
                pass
            elif self.http_1_0:
                self.keep_alive = False
            else:
                self.chunked = True
                listener.buffers.append(out, b"Transfer-Encoding: chunked\r\n", 28)
        if not self.keep_alive:
            listener.buffers.append(out, b"Connection: close\r\n\r\n", 21)
        elif self.http_1_0:
            listener.buffers.append(out, b"Connection: keep-alive\r\n\r\n", 26)
        else:
            listener.buffers.append(out, b"\r\n", 2)
        self.committed = True
        return 0

    cdef int put(self, object data, bint last) except -1:
        """A part of the body. `last`: the rest follows without the application's having a say, so it need not
        leave at once."""
        cdef Peer peer = self.peer
        cdef const char* bytes_
        cdef Py_ssize_t size, i
        cdef char number[24]
        if not PyBytes_CheckExact(data):
            if not isinstance(data, bytes):
                raise TypeError(f"the body must be bytes, not {type(data).__name__}")
            data = bytes(data)
        size = PyBytes_GET_SIZE(data)
        if self.upgraded:
            return 0
        if not self.committed:
            if size == 0:
                return 0                            # the head waits for the first byte of the body (PEP 3333)
            self.commit(-1)
        if size == 0 or self.bodiless:
            return 0
        if self.length >= 0 and self.sent + size > self.length:
            if self.sent < self.length or not self.complete:
                self.listener.error_log.warning(
                    f"{self.name}: the body is longer than its Content-Length of {self.length}; cut off", self)
            size = <Py_ssize_t> (self.length - self.sent)
            self.keep_alive = False
            if size == 0:
                self.complete = True
                return 0
            data = data[:size]
        self.sent += size
        if self.length >= 0 and self.sent == self.length:
            self.complete = last = True
        bytes_ = PyBytes_AS_STRING(data)
        if self.chunked:
            i = snprintf(number, 24, "%zx\r\n", size)
            self.listener.buffers.append(&peer.out, number, i)
        if size <= COPIED:
            self.listener.buffers.append(&peer.out, bytes_, size)
        elif self.complete and peer.out_body is None:
            peer.out_body = data
        else:
            peer.send_all(bytes_, size)
        if self.chunked:
            self.listener.buffers.append(&peer.out, b"\r\n", 2)
        if not last or peer.out.size > 65536:
            peer.send_all(NULL, 0)
        return 0

    cdef int end(self) except -1:
        """The application has given all of the body."""
        if self.upgraded:
            return 0
        if not self.committed:
            self.commit(0)
        if self.chunked:
            self.listener.buffers.append(&self.peer.out, b"0\r\n\r\n", 5)
        elif self.length > self.sent and not self.bodiless:
            raise RuntimeError(f"the body has {self.sent} bytes where its Content-Length says {self.length}")
        self.complete = True
        return 0

    cdef int send_wrapped_file(self, object wrapper) except -1:
        """The body is a file: by sendfile, if it is one that has a descriptor. Returns whether it was
        sent."""
        cdef int64_t count
        found = wrapper.region()
        if found is None:
            return 0
        fd, offset, size = found
        if not self.committed:
            self.commit(size)
        if self.bodiless:
            return 1
        count = size if self.length < 0 or self.length > size else self.length
        if self.chunked:
            raise RuntimeError("a file's length is known")      # commit() took it
        self.peer.send_file(fd, offset, count, is_slow(fd))
        self.sent += count
        return 1
