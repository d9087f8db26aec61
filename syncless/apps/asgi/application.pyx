"""ASGIApplication: from a scanned request head to a ASGIExchange with the scope of ASGI's HTTP and WebSocket
protocols.

Takes the bytes and the offsets that head.c found. Knows nothing of sockets or of what the application does
with it. The fields that head.c drops are left out, as they are for WSGI.

A request whose head is the same to the last byte as the connection's last one gets the same scope once more,
if the application cannot notice: KeptScope.is_untouched(). That is asked once, when the last request has
ended; nothing can reach the scope after that.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Copy
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
cimport cython
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp

from syncless._core.cpython.compat cimport dict_version
from syncless.apps.asgi.exchange cimport ASGIExchange, ScopeRequest, WebSocketExchange
from syncless.http.exchange cimport Application, Exchange, Upgrade
from syncless.http.listener cimport Listener
from syncless.http.peer cimport Incoming
from syncless.http.requestheads cimport Memory, RequestHeads, made_of, memory_of, swapped_spare
from syncless.http.stream cimport TlsLayer
from syncless.http.wire.wire cimport (
    HEAD_DROPPED, HEAD_UNKNOWN, decode_path, head, head_header, is_get_request, name_of,
)

from syncless.apps.asgi.extensions import tls_extension
from syncless.http.trust import FORWARDING as FORWARDING_TEXT
from syncless.http.trust import is_forwarding
from syncless.http.websocket.websocket import has_library, tell_missing

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)

cdef dict METHODS = {
    name: name.decode() for name in (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH")}
cdef bytes SLASH = b"/"
cdef bytes FORWARDING = FORWARDING_TEXT.encode()


cdef class ScopeMaker:
    """make() gives a fresh scope: a copy of the template with what one request adds."""

    def __init__(self, dict template not None, RequestHeads heads not None, forward=None):
        cdef int i = 0
        self.heads = heads
        self.forward = forward
        self.template = {
            **template, "type": "http", "http_version": "1.1", "method": "GET", "path": "/", "raw_path": b"/",
            "query_string": b"", "headers": None, "client": None}
        self.extensions = self.template["extensions"]
        self.names = []
        while name_of(i) != NULL:
            name = <bytes> name_of(i)
            self.names.append(name)
            if is_forwarding(name.decode()):
                self.forwarding[i] = 1 if forward is not None and forward.keeps(name.decode()) else 2
            i += 1
        self.last_raw_path, self.last_path = b"/", "/"

    cdef dict make(self, const Incoming* incoming):
        """Return the scope of a head that RequestHeads.scan() found just now: no allocation may come between,
        because it may run a finaliser that switches to another connection."""
        cdef const char* data = incoming.data
        cdef const head* found = incoming.found
        cdef Memory* memory = self.heads.memory
        cdef int64_t claimed = memory.claimed if memory != NULL and memory.size < 0 else 0
        cdef int fd = memory.fd if memory != NULL else -1
        cdef dict scope
        if found.header_count < 0:
            scope = PyDict_Copy(<dict> made_of(self.heads, memory))
            scope["headers"] = (<list> scope["headers"])[:]
        else:
            scope = PyDict_Copy(self.template)
            scope["headers"] = self.fields(data, found, incoming.trusted)
        if found.header_count >= 0 or fd < 0:
            scope["client"] = (<object> incoming.address, incoming.port) if incoming.port >= 0 else None
            if claimed:
                self.heads.keep_made(fd, claimed, {**scope, "headers": scope["headers"][:]})
        scope["extensions"] = PyDict_Copy(self.extensions)
        if not is_get_request(data, found):
            method = PyBytes_FromStringAndSize(data + found.method, found.method_size)
            scope["method"] = METHODS.get(method) or method.decode("latin-1")
        if found.path_size != 1 or data[found.path] != c"/":
            self.set_path(scope, data, found)
        if found.query_size:
            scope["query_string"] = PyBytes_FromStringAndSize(data + found.query, found.query_size)
        if found.minor != 1:
            scope["http_version"] = "1.0" if found.minor == 0 else "2"
        if found.authority_size:
            host = PyBytes_FromStringAndSize(data + found.authority, found.authority_size)
            scope["headers"] = [(b"host", host), *(one for one in scope["headers"] if one[0] != b"host")]
        if incoming.stream.layer != NULL:
            layer = <TlsLayer> incoming.stream.layer
            scope["scheme"] = "https"
            scope["extensions"]["tls"] = PyDict_Copy(<dict> layer.described_by(tls_extension))
        if incoming.trusted:
            self.forward(ScopeRequest(scope))
        return scope

    cdef int set_path(self, dict scope, const char* data, const head* found) except -1:
        """Decoded once; bytes that are no UTF-8 are replaced; raw_path has them."""
        cdef bytes raw
        if (
            PyBytes_GET_SIZE(self.last_raw_path) == found.path_size
            and memcmp(PyBytes_AS_STRING(self.last_raw_path), data + found.path, found.path_size) == 0
        ):
            scope["raw_path"], scope["path"] = self.last_raw_path, self.last_path
            return 0
        raw = PyBytes_FromStringAndSize(data + found.path, found.path_size) if found.path_size else SLASH
        path = (decode_path(raw, PyBytes_GET_SIZE(raw)) if found.escaped else raw).decode("utf-8", "replace")
        if PyBytes_GET_SIZE(raw) < 256:
            self.last_raw_path, self.last_path = raw, path
        scope["raw_path"], scope["path"] = raw, path
        return 0

    cdef list fields(self, const char* data, const head* found, bint trusted):
        """Return the header fields, names in lower case; those in which a proxy speaks of its client only if
        the peer is trusted."""
        cdef list fields = []
        cdef const head_header* header
        cdef int i, known
        for i in range(found.header_count):
            header = &found.headers[i]
            known = header.known
            if known == HEAD_DROPPED or (known != HEAD_UNKNOWN and self.forwarding[known] > trusted):
                continue
            if known != HEAD_UNKNOWN:
                name = self.names[known]
            else:
                name = PyBytes_FromStringAndSize(data + header.name, header.name_size).lower()
                if name.startswith(FORWARDING) and not (trusted and self.forward.keeps(name.decode())):
                    continue
            fields.append((name, PyBytes_FromStringAndSize(data + header.value, header.value_size)))
        return fields


cdef inline uint64_t version_of(dict part) noexcept:
    return 0 if part is None else dict_version(part)


@cython.final
cdef class KeptScope:
    cdef int fill(self, dict scope, list before, int64_t serial) except -1:
        """An application is to get the scope. `before`: a copy of its header fields."""
        self.scope = scope
        self.fields, self.before = scope["headers"], before
        self.extensions, self.state = scope["extensions"], scope.get("state")
        self.tls = self.extensions.get("tls")
        self.serial = serial
        self.scope_version, self.parts_version = dict_version(scope), self.version_of_parts()
        return 0

    cdef uint64_t version_of_parts(self) noexcept:
        return dict_version(self.extensions) + version_of(self.state) + version_of(self.tls)

    cdef bint is_untouched(self) noexcept:
        """Return whether the scope is as the application got it, and nothing else refers to it or its parts
        any more: the same request could have it again."""
        cdef Py_ssize_t i
        if (
            Py_REFCNT(<PyObject*> self.scope) != 1 or Py_REFCNT(<PyObject*> self.fields) != 2
            or Py_REFCNT(<PyObject*> self.extensions) != 2
            or self.state is not None and Py_REFCNT(<PyObject*> self.state) != 2
            or self.tls is not None and Py_REFCNT(<PyObject*> self.tls) != 2
            or dict_version(self.scope) != self.scope_version or self.version_of_parts() != self.parts_version
            or PyList_GET_SIZE(self.fields) != PyList_GET_SIZE(self.before)
        ):
            return False
        for i in range(PyList_GET_SIZE(self.before)):
            if PyList_GET_ITEM(self.fields, i) != PyList_GET_ITEM(self.before, i):
                return False
        return True


cdef class ASGIApplication(Application):
    """ASGIApplication(call, template, most): `template` is the part of the scope that all requests have."""

    def __init__(
        self, call, dict template not None, int most=0, *, tasks, loop, limits, dict state=None, forward=None,
    ):
        Application.__init__(self, most)
        self.stays = True                           # on the event loop of the application
        self.call = call
        self.tasks = tasks
        self.loop = loop
        self.state = state
        self.limits = limits
        self.scopes = ScopeMaker(template, self.heads, forward)
        self.websockets = has_library()

    cdef Exchange exchange(self, const Incoming* incoming):
        cdef Memory* memory = memory_of(self.heads, incoming.stream.fd)
        cdef int64_t serial = self.heads.scanned
        cdef KeptScope kept = None
        cdef ASGIExchange exchange
        cdef dict scope
        if memory != NULL:
            kept = <KeptScope> swapped_spare(self.heads, memory, None)
        if kept is not None and kept.serial == serial and (
                self.state is None or kept.source_version == dict_version(self.state)):
            scope = kept.scope
        else:
            scope, kept = self.scopes.make(incoming), None
            if self.state is not None:
                scope["state"] = PyDict_Copy(self.state)
            if serial:
                kept = self.kept(scope, incoming.stream.fd, serial)
        if (incoming.found.websocket and incoming.found.minor
                and is_get_request(incoming.data, incoming.found)):
            if self.websockets:
                return self.websocket(scope, incoming)
            tell_missing((<Listener> incoming.listener).error_log)
        exchange = <ASGIExchange> self.take_spare()
        if exchange is None:
            exchange = ASGIExchange(<Listener> incoming.listener, self.call, self.tasks, self.loop)
        exchange.fill(scope)
        exchange.kept = kept
        exchange.begin(incoming)
        return exchange

    cdef KeptScope kept(self, dict scope, int fd, int64_t serial):
        """Note what the scope of the head with this number is like, if that is still there."""
        cdef Memory* memory = memory_of(self.heads, fd)
        cdef KeptScope kept
        if memory == NULL or memory.serial != serial:
            return None
        kept = KeptScope.__new__(KeptScope)
        kept.fill(scope, (<dict> self.heads.made[memory.index])["headers"], serial)
        if self.state is not None:
            kept.source_version = dict_version(self.state)
        return kept

    cdef Exchange websocket(self, dict scope, const Incoming* incoming):
        """The client asks for a WebSocket."""
        cdef WebSocketExchange exchange = WebSocketExchange(
            <Listener> incoming.listener, self.call, self.tasks, self.loop)
        exchange.fill(scope)
        exchange.begin(incoming)
        exchange.handler = Upgrade(exchange)
        exchange.offer(self.limits)
        return exchange

    cdef int take_back(self, Exchange ended, int fd) except -1:
        cdef ASGIExchange exchange = <ASGIExchange> ended
        cdef KeptScope kept = exchange.kept
        cdef Memory* memory
        exchange.kept = None                    # while `kept` has it
        self.keep_spare(exchange)
        if kept is not None and fd >= 0 and kept.is_untouched():
            memory = memory_of(self.heads, fd)
            if memory != NULL and memory.serial == kept.serial:
                swapped_spare(self.heads, memory, kept)
        return 0
