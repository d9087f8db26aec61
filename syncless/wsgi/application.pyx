"""WSGIApplication: from a scanned request head to a Request with the environ of PEP 3333.

Takes the bytes and the offsets that head.c found. Knows nothing of sockets or of what the application does
with an environ. Strings are latin-1, as PEP 3333 wants; PATH_INFO is percent-decoded once. REQUEST_URI and
RAW_URI, which other servers have, are the path and the query as they came. Fields whose name
has an underscore, and `Proxy`, which would pass for the proxy settings of CGI programs, are left out.

A request whose head is the same to the last byte as the connection's last one gets the same environ once
more, if the application cannot notice: see Request.reusable(). That is asked once, when the last request has
ended; nothing can reach the environ after that.
"""

import sys

from cpython.dict cimport PyDict_Copy, PyDict_GetItem, PyDict_SetItem
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp

from syncless.http.application cimport Application
from syncless.http.exchange cimport Exchange
from syncless.http.listener cimport Listener
from syncless.http.peer cimport Origin
from syncless.http.requestheads cimport Memory, RequestHeads, memory_of
from syncless.http.wire cimport (
    HEAD_DROPPED, HEAD_UNKNOWN, head, head_header, head_limits, is_get_request, name_of,
)
from syncless.http.tls cimport TlsLayer
from syncless.http.upgrade cimport Upgrade
from syncless.wsgi.request cimport Request

cdef extern from "Python.h":
    str PyUnicode_DecodeLatin1(const char* s, Py_ssize_t size, const char* errors)
    int PyUnicode_KIND(object s)
    void* PyUnicode_DATA(object s)
    Py_ssize_t PyUnicode_GET_LENGTH(object s)

cdef dict METHODS = {name: name for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")}
cdef str GET = "GET"
cdef str REQUEST_METHOD = "REQUEST_METHOD"
cdef str PATH_INFO = "PATH_INFO"
cdef str QUERY_STRING = "QUERY_STRING"
cdef str REQUEST_URI = "REQUEST_URI"
cdef str RAW_URI = "RAW_URI"
cdef str SERVER_PORT = "SERVER_PORT"
cdef str SERVER_PROTOCOL = "SERVER_PROTOCOL"
cdef str REMOTE_ADDR = "REMOTE_ADDR"
cdef str REMOTE_PORT = "REMOTE_PORT"
cdef str INPUT = sys.intern("wsgi.input")
cdef str HTTP_1_0 = "HTTP/1.0"
cdef str HTTP_HOST = "HTTP_HOST"

# Never kept for the next request.
SECRET = ("authorization", "cookie", "proxy-authorization", "x-csrf-token")

# A proxy names the client in these fields. They are removed, like all others that begin with X-Forwarded,
# unless the peer is trusted.
FORWARDING = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto",
    "x-real-ip")


cdef class WSGIApplication(Application):
    """WSGIApplication(call, template, most): `template` is the part of the environ that all requests have. It
    has no SERVER_PORT where the socket has none: that is the one of the scheme then, and never empty."""

    def __init__(self, call, dict template not None, int most=0, *, forward=None, websocket=None,
            dict pages=None):
        Application.__init__(self, most)
        self.call = call
        self.portless = SERVER_PORT not in template
        self.environs = EnvironMaker({SERVER_PORT: "80", **template}, self.heads)
        self.forward = forward
        self.websocket = websocket
        self.pages = pages

    cdef Exchange exchange(self, const Origin* origin, const char* data, head* found):
        cdef Memory* memory = memory_of(self.heads, origin.stream.fd)
        cdef Request request = None
        if memory != NULL:
            request = <Request> self.heads.spares[memory.index]
            if request is not None:
                self.heads.spares[memory.index] = None
        if request is None or request.head_serial != self.heads.scanned:
            request = self.fill(request, origin, data, found)
        request.begin(origin, data, found)
        if found.websocket and found.minor and self.websocket is not None:
            request.handler = Upgrade(request)
            self.websocket(request.handler, request.environ)
        return request

    cdef Request fill(self, Request request, const Origin* origin, const char* data, head* found):
        """A Request, this one if there is one, with an environ of its own."""
        cdef int64_t serial = self.heads.scanned
        cdef dict environ = self.environs.make(
            data, found, origin.stream.fd, <object> origin.address, origin.port, origin.trusted)
        if request is None:
            request = self.spare
            self.spare = None
        if request is None:
            request = Request(<Listener> origin.listener, self.call)
        if origin.stream.layer != NULL:
            environ.update((<TlsLayer> origin.stream.layer).variables)
        if origin.trusted:
            self.forward(environ)
        if origin.stream.layer != NULL or origin.trusted:
            environ["wsgi.url_scheme"] = "https" if "HTTPS" in environ else "http"
            if self.portless and "HTTPS" in environ and environ[SERVER_PORT] == "80":
                environ[SERVER_PORT] = "443"
        if self.pages is not None:
            request.call = self.pages.get(environ["PATH_INFO"], self.call)
        request.fill(environ)
        request.head_serial = serial
        return request

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        cdef Request request = <Request> exchange
        cdef Memory* memory
        if fd >= 0 and request.head_serial:
            memory = memory_of(self.heads, fd)
            if memory != NULL and request.head_serial == memory.serial and request.reusable():
                self.heads.spares[memory.index] = request
                return 0
        self.spare = request
        return request.forget()

    def close(self) -> None:
        """Drops the objects kept for later requests."""
        self.spare = None


cdef inline bint same(object text, const char* data, Py_ssize_t size) noexcept:
    """Whether the str is these latin-1 bytes."""
    return (PyUnicode_GET_LENGTH(text) == size and PyUnicode_KIND(text) == 1
        and memcmp(PyUnicode_DATA(text), data, size) == 0)


cdef inline int hex_digit(char c) noexcept:
    if c'0' <= c <= c'9':
        return c - c'0'
    c |= 0x20
    if c'a' <= c <= c'f':
        return c - c'a' + 10
    return -1


cdef class EnvironMaker:
    """make() gives a fresh environ: a copy of the template with what one request adds."""

    def __init__(self, dict template not None, RequestHeads heads not None):
        cdef int i = 0
        self.heads = heads
        self.template = dict(template)
        self.template[REQUEST_METHOD] = GET
        self.template[PATH_INFO] = "/"
        self.template[QUERY_STRING] = ""
        self.template[REQUEST_URI] = self.template[RAW_URI] = "/"
        self.template[SERVER_PROTOCOL] = "HTTP/1.1"
        self.template[REMOTE_ADDR] = self.template[REMOTE_PORT] = self.template[INPUT] = None
        # A dict keeps the size of its table when it is copied. With 22 keys and more it has room for 42:
        # headers are added without a resize.
        for i in range(22 - len(self.template)):
            self.template[i] = None
        for key in [key for key in self.template if isinstance(key, int)]:
            del self.template[key]
        i = 0
        self.keys = []
        self.last = []
        while name_of(i) != NULL:
            name = name_of(i).decode()
            if name in ("content-length", "content-type"):
                key = name.upper().replace("-", "_")
            else:
                key = "HTTP_" + name.upper().replace("-", "_")
            self.keys.append(key)
            self.last.append(None if name in SECRET else "")
            self.forwarding[i] = name in FORWARDING
            i += 1
        self.last_path_raw = self.last_path = "/"
        self.last_query = self.last_uri = ""

    cdef str path(self, const char* raw, Py_ssize_t size, bint escaped):
        cdef char* decoded
        cdef Py_ssize_t i = 0, n = 0
        cdef int high, low
        if same(self.last_path_raw, raw, size):
            return self.last_path
        if not escaped:
            path = PyUnicode_DecodeLatin1(raw, size, NULL) if size else "/"
        else:
            decoded = <char*> PyMem_Malloc(size)
            if decoded == NULL:
                raise MemoryError
            while i < size:
                if raw[i] == c'%' and i + 2 < size:
                    high = hex_digit(raw[i + 1])
                    low = hex_digit(raw[i + 2])
                    if high >= 0 and low >= 0:
                        decoded[n] = <char> (high * 16 + low)
                        n += 1
                        i += 3
                        continue
                decoded[n] = raw[i]
                n += 1
                i += 1
            path = PyUnicode_DecodeLatin1(decoded, n, NULL)
            PyMem_Free(decoded)
        if size < 256:
            self.last_path_raw = PyUnicode_DecodeLatin1(raw, size, NULL)
            self.last_path = path
        return path

    cdef str uri(self, const char* data, head* found):
        """The path and the query as they came; of an absolute target, too, whose path may be missing."""
        cdef const char* raw = data + found.path
        cdef Py_ssize_t size = found.target + found.target_size - found.path
        if not same(self.last_uri, raw, size):
            self.last_uri = PyUnicode_DecodeLatin1(raw, size, NULL)
        return self.last_uri if found.path_size else "/" + self.last_uri

    cdef dict make(self, const char* data, head* found, int fd, object remote_addr, int remote_port,
            bint trusted):
        """The environ, without its wsgi.input, of a head that RequestHeads.scan() found just now: no
        allocation may come between, because it may run a finaliser that switches to another connection."""
        cdef Memory* memory = memory_of(self.heads, fd)
        cdef int64_t claimed = memory.claimed if memory != NULL and memory.size < 0 else 0
        cdef dict environ
        if found.header_count < 0:
            environ = PyDict_Copy(<dict> self.heads.made[memory.index])
        else:
            environ = self.fields(data, found, trusted)
            environ[REMOTE_ADDR] = remote_addr
            environ[REMOTE_PORT] = str(remote_port) if remote_port >= 0 else ""
            if claimed:
                self.heads.keep_made(fd, claimed, PyDict_Copy(environ))
        if not is_get_request(data, found):
            method = PyUnicode_DecodeLatin1(data + found.method, found.method_size, NULL)
            environ[REQUEST_METHOD] = METHODS.get(method, method)
        if found.path_size != 1 or data[found.path] != c"/":
            environ[PATH_INFO] = self.path(data + found.path, found.path_size, found.escaped)
        if found.query_size:
            if not same(self.last_query, data + found.query, found.query_size):
                self.last_query = PyUnicode_DecodeLatin1(data + found.query, found.query_size, NULL)
            environ[QUERY_STRING] = self.last_query
        if found.target_size != 1 or data[found.target] != c"/":
            environ[REQUEST_URI] = environ[RAW_URI] = self.uri(data, found)
        if found.minor == 0:
            environ[SERVER_PROTOCOL] = HTTP_1_0
        if found.authority_size:
            environ[HTTP_HOST] = PyUnicode_DecodeLatin1(data + found.authority, found.authority_size, NULL)
        return environ

    cdef dict fields(self, const char* data, head* found, bint trusted):
        """A copy of the template with the header fields; those in which a proxy speaks of its client only if
        the peer is trusted."""
        cdef dict environ = PyDict_Copy(self.template)
        cdef uint64_t seen[2]
        cdef head_header* header
        cdef const char* value
        cdef int i, known
        cdef PyObject* before
        seen[0] = seen[1] = 0
        for i in range(found.header_count):
            header = &found.headers[i]
            known = header.known
            value = data + header.value
            if known == HEAD_DROPPED or (not trusted and known != HEAD_UNKNOWN and self.forwarding[known]):
                continue
            if known != HEAD_UNKNOWN and not (seen[known >> 6] >> (known & 63)) & 1:
                seen[known >> 6] |= <uint64_t> 1 << (known & 63)
                last = self.last[known]
                if last is None or header.value_size > 512:
                    text = PyUnicode_DecodeLatin1(value, header.value_size, NULL)
                elif same(last, value, header.value_size):
                    text = last
                else:
                    text = PyUnicode_DecodeLatin1(value, header.value_size, NULL)
                    self.last[known] = text
                PyDict_SetItem(environ, self.keys[known], text)
                continue
            text = PyUnicode_DecodeLatin1(value, header.value_size, NULL)
            if known != HEAD_UNKNOWN:
                key = self.keys[known]
            else:
                key = "HTTP_" + PyUnicode_DecodeLatin1(data + header.name, header.name_size,
                    NULL).upper().replace("-", "_")
                if key == "HTTP_PROXY" or (not trusted and key.startswith("HTTP_X_FORWARDED")):
                    continue
            before = PyDict_GetItem(environ, key)
            if before != NULL:
                text = f"{<object> before}{'; ' if key == 'HTTP_COOKIE' else ','}{text}"
            PyDict_SetItem(environ, key, text)
        return environ


def environ_of(dict template not None, bytes request not None) -> dict:
    """The environ of a request head, for tests."""
    cdef RequestHeads heads = RequestHeads()
    cdef head found
    cdef head_limits limits
    cdef long n
    limits.line = 8190
    limits.headers = 100
    limits.total = 32768
    n = heads.scan(request, len(request), &limits, 0, False, &found)
    if n <= 0:
        raise ValueError(f"no complete request head: {n}")
    return EnvironMaker(template, heads).make(request, &found, 0, "127.0.0.1", 1, False)
