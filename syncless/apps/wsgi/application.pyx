"""WSGIApplication: from a scanned request head to a WSGIExchange with the environ of PEP 3333.

Takes the bytes and the offsets that head.c found. Knows nothing of sockets or of what the application does
with an environ. Strings are latin-1, as PEP 3333 wants; PATH_INFO is percent-decoded once. REQUEST_URI and
RAW_URI are the path and the query as they came. The fields that head.c drops are left out.

A request whose head is the same to the last byte as the connection's last one gets the same environ once
more, if the application cannot notice: see WSGIExchange.reusable(). That is asked once, when the last
request has ended; nothing can reach the environ after that.

A WSGIExchange calls the application with its environ, and gives the response the head from start_response()
and the data from write() and the returned iterable. exchange.pyx decides what becomes of the request when the
application fails.
"""

import sys

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Copy, PyDict_SetItem, PyDict_Size
from cpython.list cimport PyList_GET_ITEM
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM
cimport cython
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp, memcpy

from syncless._core.cpython.compat cimport dict_version
from syncless.http.exchange cimport Application, Exchange, Upgrade
from syncless.http.listener cimport Listener
from syncless.http.peer cimport Incoming
from syncless.http.request cimport (
    CLIENT, CLIENT_PORT, HOST, IDENT, LOCAL_NAME, LOCAL_PORT, METHOD, PARTS, PATH, QUERY, ROOT_PATH, SCHEME,
    UNREAD_LINE, USER, VERSION, Part, Request,
)
from syncless.http.requestheads cimport Memory, RequestHeads, made_of, memory_of, swapped_spare
from syncless.http.stream cimport TlsLayer
from syncless.http.wire.wire cimport (
    HEAD_DROPPED, HEAD_UNKNOWN, decode_path, head, head_header, head_limits, is_get_request, name_of,
)

from syncless.apps.wsgi.filewrapper import FileWrapper
from syncless.http.content.filepart import FilePart
from syncless.http.trust import FORWARDING, is_forwarding

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)

ctypedef int (*Unchecked)(WSGIExchange exchange) noexcept       # negative: an exception is set
cdef Unchecked unchecked_answer = <Unchecked> WSGIExchange.answer

# the very object that is in the template: found without a comparison
cdef str INPUT = sys.intern("wsgi.input")


# The keys of an environ that are parts of a request, and those that are its known fields.
cdef PyObject* PART_KEYS[PARTS]
cdef dict KEYS_OF_PARTS = {
    <int> METHOD: "REQUEST_METHOD", <int> ROOT_PATH: "SCRIPT_NAME", <int> PATH: "PATH_INFO",
    <int> QUERY: "QUERY_STRING", <int> VERSION: "SERVER_PROTOCOL", <int> SCHEME: "wsgi.url_scheme",
    <int> HOST: "HTTP_HOST", <int> CLIENT: "REMOTE_ADDR", <int> CLIENT_PORT: "REMOTE_PORT",
    <int> LOCAL_NAME: "SERVER_NAME", <int> LOCAL_PORT: "SERVER_PORT", <int> USER: "REMOTE_USER",
    <int> IDENT: "REMOTE_IDENT", <int> UNREAD_LINE: "",
}
cdef int _i
for _i in range(PARTS):
    PART_KEYS[_i] = <PyObject*> KEYS_OF_PARTS[_i]


cdef str key_of(str name):
    """Return the environ key of a header field, whose name is in lower case."""
    key = name.upper().replace("-", "_")
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else "HTTP_" + key


cdef list KEYS_OF_FIELDS = []
cdef PyObject* FIELD_KEYS[256]
_i = 0
while name_of(_i) != NULL:
    KEYS_OF_FIELDS.append(key_of(name_of(_i).decode()))
    FIELD_KEYS[_i] = <PyObject*> KEYS_OF_FIELDS[_i]
    _i += 1


cdef class EnvironRequest(Request):
    """EnvironRequest(environ=None): as its environ says, which its application may have changed."""

    def __init__(self, dict environ=None):
        self.values = environ
        self.keys = PART_KEYS
        self.field_keys = FIELD_KEYS

    cdef object part(self, Part part):
        return self.variable(<str> <object> PART_KEYS[<int> part])

    cdef int change(self, Part part, object value) except -1:
        if part != SCHEME:
            self.values[<object> PART_KEYS[<int> part]] = value
        elif value == "https":
            self.values["HTTPS"] = "on"
        else:
            self.values.pop("HTTPS", None)
        return 0

    cdef object get(self, str name, int known):
        return self.variable(key_of(name) if known == HEAD_UNKNOWN else <str> <object> FIELD_KEYS[known])

    cdef object variable(self, str name):
        return None if self.values is None else self.values.get(name)

    cpdef dict variables(self):
        return self.values


cdef class StartResponse:
    """Owner of the start_response() callable."""

    @cython.binding(False)      # a plain C function is called without a tuple for its arguments
    def start_response(self, status, headers, exc_info=None):
        """start_response(status, headers, exc_info=None) -> write"""
        if self.exchange is None:
            raise RuntimeError("start_response() was called after the response had ended")
        self.exchange.accept_head(status, headers, exc_info)
        return self.write


cdef class Write:
    """The write() callable: sends a part of the body at once."""

    def __call__(self, data, /):
        if self.exchange is None:
            raise RuntimeError("write() was called after the response had ended")
        self.exchange.put(data, False)


@cython.final
cdef class WSGIExchange(Exchange):
    """WSGIExchange(listener, call): `call` is the application."""

    def __init__(self, Listener listener not None, call):
        Exchange.__init__(self, listener, EnvironRequest())
        self.call = call
        if listener.request_slots is not None:
            self.locals.slots = <PyObject*> listener.request_slots      # which its context has, too
        self.renew_input()
        self.renew_start()

    cdef int renew_start(self) except -1:
        self.start = StartResponse()
        self.start.write = Write()
        self.start_response = self.start.start_response
        return 0

    cdef int renew_input(self) except -1:
        self.input = Input(self.new_body())
        return 0

    # -- its parts -------------------------------------------------------------------------------------------

    cdef int fill(self, dict environ) except -1:
        """The application gets this environ, and objects that belong to no other request."""
        self.request.values = None
        if Py_REFCNT(<PyObject*> self.input) > 1:
            self.renew_input()
        environ[INPUT] = self.input
        self.request.values = environ
        self.environ_version = dict_version(environ)
        return 0

    cdef bint reusable(self) noexcept:
        """Return whether the environ is as the application got it, and nothing refers to it or its input any
        more: the same request could have it again."""
        return (
            Py_REFCNT(<PyObject*> self.request.values) == 1
            and dict_version(self.request.values) == self.environ_version
            and Py_REFCNT(<PyObject*> self.input) == 2)

    cdef int forget(self) except -1:
        self.request.values = None
        return 0

    cdef int tell_ids(self, str request_id, str traceparent) except -1:
        self.request.values |= {"syncless.request_id": request_id, "syncless.traceparent": traceparent}
        return 0

    cdef int tell_trace(self, str traceparent) except -1:
        self.request.values["HTTP_TRACEPARENT"] = traceparent
        return 0

    cdef bint ends_with_client(self) except? -1:
        on_hangup = self.listener.on_hangup
        return on_hangup == "stop-all" or on_hangup == "stop" and self.request.part(METHOD) in ("GET", "HEAD")

    cdef str label(self):
        if self.request.values is None:
            return "request"
        return self.name_of(self.request.part(METHOD), self.request.part(PATH))

    # -- its life --------------------------------------------------------------------------------------------

    cdef int respond(self) noexcept:
        cdef int outcome = unchecked_answer(self)
        self.start.exchange = self.start.write.exchange = None
        return outcome

    cdef int answer(self) except -1:
        """Call the application and send what it returns."""
        if Py_REFCNT(<PyObject*> self.start_response) > 1 or Py_REFCNT(<PyObject*> self.start.write) > 1:
            self.renew_start()                      # the application has kept the last request's
        self.start.exchange = self.start.write.exchange = self
        result = self.call(self.request.values, self.start_response)
        if ((type(result) is list or type(result) is tuple) and self.response.status is not None
                and not self.upgraded):
            # no close(), and the length is known without a question
            if not self.body.framing.ended and (
                    self.body.is_read() or not self.body.drainable(self.listener.limits.drain_bytes)):
                self.response.keep_alive = False    # the head says so
            if len(result) == 1:
                only = <object> (PyList_GET_ITEM(result, 0) if type(result) is list
                    else PyTuple_GET_ITEM(result, 0))
                if PyBytes_CheckExact(only):
                    if not self.response.committed:
                        self.response.commit(PyBytes_GET_SIZE(only))
                    if self.response.put(only, True):
                        self.tell_cut()
                    return self.response.end()
            return self.answer_parts(result)
        return self.answer_in_turn(result)

    cdef int answer_in_turn(self, object result) except -1:
        """Send what an iterable gives, as it comes; or a file."""
        try:
            if self.upgraded:
                return 0
            if result is None:
                raise TypeError("the application returned None; PEP 3333 requires an iterable of bytes")
            if (type(result) is FileWrapper or type(result) is FilePart) and self.send_wrapped_file(result):
                return self.response.end()
            for part in result:
                self.put(part, False)
            if not self.upgraded:
                self.end_response()
        finally:
            close = getattr(result, "close", None)
            if close is not None:
                close()
        return 0

    cdef int answer_parts(self, object parts) except -1:
        """Send a list or a tuple."""
        cdef Py_ssize_t total = 0
        for part in parts:
            if not isinstance(part, bytes):
                raise TypeError(f"the body must be bytes, not {type(part).__name__}")
            total += PyBytes_GET_SIZE(part)
        if not self.response.committed:
            self.response.commit(total)
        for part in parts:
            self.put(part, True)
        return self.response.end()

    # -- calls of the application ----------------------------------------------------------------------------

    cdef int accept_head(self, object status, object headers, object exc_info) except -1:
        """The arguments of start_response()."""
        if self.upgraded:
            return 0                                # a framework's view has to return something
        if exc_info is not None:
            if self.response.committed:
                raise exc_info[1].with_traceback(exc_info[2])
        elif self.response.status is not None:
            raise AssertionError("start_response() was called a second time without exc_info (PEP 3333)")
        if not isinstance(status, str):
            raise TypeError(f"status must be a str, not {type(status).__name__}")
        if not isinstance(headers, list):
            raise TypeError(f"headers must be a list of (name, value), not {type(headers).__name__}")
        return self.response.set_head(status, <list> headers)

    cdef int put(self, object data, bint last) except -1:
        """A part of the body."""
        if not self.upgraded and self.response.put(data, last):
            self.tell_cut()
        return 0

    cdef int tell_cut(self) except -1:
        length = self.response.length
        self.listener.error_log.warning(
            f"{self.name}: the body is longer than its Content-Length of {length}; rest dropped", self)
        return 0

    cdef bint send_wrapped_file(self, object wrapper) except -1:
        """The body is a file: by sendfile, if it is one that has a descriptor. Return whether it was
        sent."""
        if self.response.status is None or self.response.committed:
            return False
        found = wrapper.region()
        if found is None:
            return False
        fd, offset, size = found
        self.response.put_file(fd, offset, size)
        return True


cdef extern from "Python.h":
    str PyUnicode_DecodeLatin1(const char* s, Py_ssize_t size, const char* errors)
    int PyUnicode_KIND(object s)
    void* PyUnicode_DATA(object s)
    Py_ssize_t PyUnicode_GET_LENGTH(object s)
    str PyUnicode_New(Py_ssize_t size, Py_UCS4 maxchar)
    PyObject* PyDict_SetDefault(object p, object key, object value) except NULL

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
cdef str HTTP_1_0 = "HTTP/1.0"
cdef str HTTP_2_0 = "HTTP/2.0"
cdef str HTTP_HOST = "HTTP_HOST"

cdef bytes FORWARDING_KEY = f"HTTP_{FORWARDING.upper().replace('-', '_')}".encode()

# Never kept for the next request.
SECRET = ("authorization", "cookie", "proxy-authorization", "x-csrf-token")


def _tls_variables(connection) -> dict:
    """Return the variables of a connection whose handshake is over, as mod_ssl names them."""
    cipher = connection.cipher()
    variables = {
        "HTTPS": "on", "SSL_PROTOCOL": connection.version() or "", "SSL_CIPHER": cipher[0] if cipher else ""}
    certificate = connection.getpeercert(True)
    if certificate is not None:
        from ssl import DER_cert_to_PEM_cert

        verified = connection.getpeercert()
        variables["SSL_CLIENT_CERT"] = DER_cert_to_PEM_cert(certificate)
        variables["SSL_CLIENT_VERIFY"] = "SUCCESS" if verified else "GENEROUS"
        variables["SSL_CLIENT_S_DN"] = ",".join(
            f"{key}={value}" for names in (verified or {}).get("subject", ()) for key, value in names)
    return variables


cdef class WSGIApplication(Application):
    """WSGIApplication(call, template, most): `template` is the part of the environ that all requests have. It
    has no SERVER_PORT where the socket has none: that is the one of the scheme then, and never empty. All
    paths begin with the `prefix`, which is SCRIPT_NAME's already, and not a part of PATH_INFO."""

    def __init__(self, call, dict template not None, int most=0, *, forward=None, websocket=None,
            dict pages=None, str prefix=""):
        Application.__init__(self, most)
        self.call = call
        self.portless = SERVER_PORT not in template
        self.environs = EnvironMaker({SERVER_PORT: "80", **template}, self.heads, forward)
        self.environs.prefix_size = PyUnicode_GET_LENGTH(prefix)
        self.forward = forward
        self.websocket = websocket
        self.pages = pages

    cdef Exchange exchange(self, const Incoming* incoming):
        cdef Memory* memory = memory_of(self.heads, incoming.stream.fd)
        cdef WSGIExchange exchange = None
        if memory != NULL:
            exchange = <WSGIExchange> swapped_spare(self.heads, memory, None)
        if exchange is None or exchange.head_serial != self.heads.scanned:
            exchange = self.fill(exchange, incoming)
        exchange.begin(incoming)
        if incoming.found.websocket and incoming.found.minor and self.websocket is not None:
            exchange.handler = Upgrade(exchange)
            self.websocket(exchange.handler, exchange.request.values)
        return exchange

    cdef WSGIExchange fill(self, WSGIExchange exchange, const Incoming* incoming):
        """Return an exchange, this one if there is one, with an environ of its own."""
        cdef int64_t serial = self.heads.scanned
        cdef dict environ = self.environs.make(incoming)
        if exchange is None:
            exchange = <WSGIExchange> self.take_spare()
        if exchange is None:
            exchange = WSGIExchange(<Listener> incoming.listener, self.call)
        if incoming.stream.layer != NULL:
            layer = <TlsLayer> incoming.stream.layer
            environ.update(layer.described_by(_tls_variables))
        if incoming.trusted:
            self.forward(EnvironRequest(environ))
        if incoming.stream.layer != NULL or incoming.trusted:
            environ["wsgi.url_scheme"] = "https" if "HTTPS" in environ else "http"
            if self.portless and "HTTPS" in environ and environ[SERVER_PORT] == "80":
                environ[SERVER_PORT] = "443"
        if self.pages is not None:
            exchange.call = self.pages.get(environ["PATH_INFO"], self.call)
        exchange.fill(environ)
        exchange.head_serial = serial
        return exchange

    cdef int take_back(self, Exchange ended, int fd) except -1:
        cdef WSGIExchange exchange = <WSGIExchange> ended
        cdef Memory* memory
        if fd >= 0 and exchange.head_serial:
            memory = memory_of(self.heads, fd)
            if memory != NULL and exchange.head_serial == memory.serial and exchange.reusable():
                swapped_spare(self.heads, memory, exchange)
                return 0
        return self.keep_spare(exchange)


cdef enum:
    DIGITS = 10             # of a port at most


cdef inline bint same(object text, const char* data, Py_ssize_t size) noexcept:
    """Return whether the str is these latin-1 bytes."""
    return (PyUnicode_GET_LENGTH(text) == size and PyUnicode_KIND(text) == 1
        and memcmp(PyUnicode_DATA(text), data, size) == 0)


cdef inline bint begins(str text, bytes start) noexcept:
    """Return whether the ASCII str begins with these bytes."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(start)
    return (PyUnicode_GET_LENGTH(text) >= size
        and memcmp(PyUnicode_DATA(text), PyBytes_AS_STRING(start), size) == 0)


cdef str environ_key(const char* name, Py_ssize_t size):
    """Return the key for the field with this name, which is ASCII."""
    cdef str key = PyUnicode_New(5 + size, 127)
    cdef char* into = <char*> PyUnicode_DATA(key)
    cdef Py_ssize_t i
    cdef char byte
    memcpy(into, b"HTTP_", 5)
    for i in range(size):
        byte = name[i]
        if c"a" <= byte <= c"z":
            byte -= 32
        into[5 + i] = c"_" if byte == c"-" else byte
    return key


cdef str port_text(int port):
    """Return a port in decimal digits; -1, of a UNIX socket: an empty string."""
    cdef char digits[DIGITS]
    cdef int i = DIGITS
    while port > 0:
        i -= 1
        digits[i] = c"0" + port % 10
        port //= 10
    if port == 0 and i == DIGITS:
        return "0"
    return PyUnicode_DecodeLatin1(digits + i, DIGITS - i, NULL)


cdef class EnvironMaker:
    """make() gives a fresh environ: a copy of the template with what one request adds."""

    def __init__(self, dict template not None, RequestHeads heads not None, forward=None):
        cdef int i = 0
        self.heads = heads
        self.forward = forward
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
        self.last = []
        for i in range(len(KEYS_OF_FIELDS)):
            name = name_of(i).decode()
            self.last.append(None if name in SECRET else "")
            if is_forwarding(name):
                self.forwarding[i] = 1 if forward is not None and forward.keeps(name) else 2
        self.last_path_raw = self.last_path = "/"
        self.last_query = self.last_uri = ""

    cdef str path(self, const char* raw, Py_ssize_t size, bint escaped):
        if same(self.last_path_raw, raw, size):
            return self.last_path
        if not escaped:
            path = PyUnicode_DecodeLatin1(raw, size, NULL) if size else "/"
        else:
            path = decode_path(raw, size).decode("latin-1")
        if size < 256:
            self.last_path_raw = PyUnicode_DecodeLatin1(raw, size, NULL)
            self.last_path = path
        return path

    cdef str uri(self, const char* data, const head* found):
        """Return the path and the query as they came; of an absolute target, too, whose path may be
        missing."""
        cdef const char* raw = data + found.path
        cdef Py_ssize_t size = found.target + found.target_size - found.path
        if not same(self.last_uri, raw, size):
            self.last_uri = PyUnicode_DecodeLatin1(raw, size, NULL)
        return self.last_uri if found.path_size else "/" + self.last_uri

    cdef dict make(self, const Incoming* incoming):
        """Return the environ, without its wsgi.input, of a head that RequestHeads.scan() found just now: no
        allocation may come between, because it may run a finaliser that switches to another connection."""
        cdef const char* data = incoming.data
        cdef const head* found = incoming.found
        cdef Memory* memory = self.heads.memory
        cdef int64_t claimed = memory.claimed if memory != NULL and memory.size < 0 else 0
        cdef int fd = memory.fd if memory != NULL else -1
        cdef dict environ
        if found.header_count < 0:
            environ = PyDict_Copy(<dict> made_of(self.heads, memory))
        else:
            environ = self.fields(data, found, incoming.trusted)
        if found.header_count >= 0 or fd < 0:
            environ[REMOTE_ADDR] = <object> incoming.address
            environ[REMOTE_PORT] = port_text(incoming.port)
            if claimed:
                self.heads.keep_made(fd, claimed, PyDict_Copy(environ))
        if not is_get_request(data, found):
            method = PyUnicode_DecodeLatin1(data + found.method, found.method_size, NULL)
            environ[REQUEST_METHOD] = METHODS.get(method, method)
        if found.path_size != 1 or data[found.path] != c"/":
            environ[PATH_INFO] = self.path(data + found.path, found.path_size, found.escaped)
        if self.prefix_size:
            environ[PATH_INFO] = environ[PATH_INFO][self.prefix_size:]
        if found.query_size:
            if not same(self.last_query, data + found.query, found.query_size):
                self.last_query = PyUnicode_DecodeLatin1(data + found.query, found.query_size, NULL)
            environ[QUERY_STRING] = self.last_query
        if found.target_size != 1 or data[found.target] != c"/":
            environ[REQUEST_URI] = environ[RAW_URI] = self.uri(data, found)
        if found.minor != 1:
            environ[SERVER_PROTOCOL] = HTTP_1_0 if found.minor == 0 else HTTP_2_0
        if found.authority_size:
            environ[HTTP_HOST] = PyUnicode_DecodeLatin1(data + found.authority, found.authority_size, NULL)
        return environ

    cdef dict fields(self, const char* data, const head* found, bint trusted):
        """Return a copy of the template with the header fields; those in which a proxy speaks of its client
        only if the peer is trusted."""
        cdef dict environ = PyDict_Copy(self.template)
        cdef uint64_t seen[2]
        cdef const head_header* header
        cdef const char* value
        cdef int i, known
        cdef Py_ssize_t size
        cdef PyObject* before
        seen[0] = seen[1] = 0
        for i in range(found.header_count):
            header = &found.headers[i]
            known = header.known
            value = data + header.value
            if known == HEAD_DROPPED or (known != HEAD_UNKNOWN and self.forwarding[known] > trusted):
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
                PyDict_SetItem(environ, <object> FIELD_KEYS[known], text)
                continue
            text = PyUnicode_DecodeLatin1(value, header.value_size, NULL)
            if known != HEAD_UNKNOWN:
                key = <object> FIELD_KEYS[known]
            else:
                key = environ_key(data + header.name, header.name_size)
                if begins(key, FORWARDING_KEY) and not (
                        trusted and self.forward.keeps(key[5:].lower().replace("_", "-"))):
                    continue
            size = PyDict_Size(environ)
            before = PyDict_SetDefault(environ, key, text)
            if PyDict_Size(environ) == size:
                joint = "; " if key == "HTTP_COOKIE" else ","
                PyDict_SetItem(environ, key, f"{<object> before}{joint}{text}")
        return environ


def environ_of(dict template not None, bytes request not None) -> dict:
    """Return the environ of a request head, for tests."""
    cdef RequestHeads heads = RequestHeads()
    cdef str address = "127.0.0.1"
    cdef head found
    cdef Incoming incoming = Incoming(NULL, NULL, NULL, <PyObject*> address, 1, False, request, &found, -1)
    cdef head_limits limits
    limits.line = 8190
    limits.headers = 100
    limits.total = 32768
    if heads.scan(request, len(request), &limits, 0, False, False, &found) <= 0:
        raise ValueError("no complete request head")
    return EnvironMaker(template, heads).make(&incoming)
