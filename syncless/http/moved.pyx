"""Movable: an application whose requests may be another process's; and adopt(), for those that come from one.

A connection of plain HTTP/1 is a descriptor and the bytes that have been read of it. So it moves as these,
with the request whose head has come: what is missing of its body is still in the socket. The keys of TLS and
the frames of HTTP/2 cannot move, so such a request is relayed: the other process gets one end of a pair of
sockets, which is a connection of plain HTTP/1 to it, and a Relayed answers here with what comes back. A
request that has come from another process is answered here, whosever it is.

Next to read: server/affinity.py, which decides, sends and receives; server/relay.py, which speaks on the
pair; native/threads.pyx, by whose way connections leave for another thread.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF
from cpython.object cimport PyObject
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint32_t
from posix.unistd cimport close as close_fd

from syncless._core.calls.portable cimport MSG_NOSIGNAL
from syncless._core.loop cimport FdEntry, Loop
from syncless._core.scheduler cimport Scheduler
from syncless.http.acceptor cimport prepare
from syncless.http.connection cimport ALL_REQUESTS, NEXT_REQUEST, READING, Connection
from syncless.http.exchange cimport Application, Exchange, Upgrade
from syncless.http.listener cimport ALWAYS, HEAD_DEADLINE, Admission, Listener
from syncless.http.peer cimport Incoming
from syncless.http.request cimport METHOD, PATH, HeadRequest
from syncless.http.stream cimport Stream, TlsLayer, first_bytes
from syncless.http.wire.wire cimport HTTP_2, head

from syncless.http.errors import BodyTooLarge

cdef extern from "<sys/socket.h>":
    int MSG_DONTWAIT
    ssize_t recv(int fd, void* data, size_t size, int flags) nogil
    ssize_t send(int fd, const void* data, size_t size, int flags) nogil

cdef enum:
    PIECE = 65536               # bytes of a body that are read at once


cdef class Movable(Application):
    """Movable(application, field, routes)

    Before each request it calls routes.choose(value, address, trusted), with the request's field of that
    name, in lower case, or None. If that returns a number but 0, it then calls send(number, fd, data,
    address, port, trusted), which has the descriptor from then on; or, if the connection cannot move,
    relay(number, fd, connection, address, port, trusted) with the SSLObject or None. That returns the relay
    of a Relayed; None: the request is answered here. let_go(fd) follows when a connection of which it was
    called is over. The application must remember no heads.
    """
    cdef Application inner
    cdef bytes field
    cdef object routes
    cdef set relaying           # descriptors of connections of which a request was relayed
    cdef int chosen

    def __init__(self, Application inner not None, bytes field not None, routes):
        self.inner, self.field, self.routes = inner, field, routes
        self.heads = inner.heads
        self.stays = inner.stays
        self.relaying = set()

    cdef Exchange exchange(self, const Incoming* incoming):
        cdef Stream* stream = incoming.stream
        cdef Exchange relayed = None
        cdef bint movable = not stream.carried and stream.layer == NULL
        cdef int chosen
        if not stream.carried and is_settled(<Connection> incoming.connection):
            return self.inner.exchange(incoming)
        chosen = self.routes.choose(
            self.value(incoming.data, incoming.found), <object> incoming.address, incoming.trusted)
        if chosen and movable:
            self.chosen = chosen
            return None
        if chosen:
            relayed = self.relayed(incoming, chosen)
        return self.inner.exchange(incoming) if relayed is None else relayed

    cdef Exchange relayed(self, const Incoming* incoming, int chosen):
        cdef const head* found = incoming.found
        cdef Exchange relayed
        cdef Admission admission = (<Listener> incoming.listener).admission
        tls = None if incoming.stream.layer == NULL else (<TlsLayer> incoming.stream.layer).ssl
        self.relaying.add(incoming.fd)
        relay = self.routes.relay(
            chosen, incoming.fd, tls, <object> incoming.address, incoming.port, incoming.trusted)
        if relay is None:
            return None
        relayed = Relayed(
            <Listener> incoming.listener, relay, head_of(incoming.data, found), <object> incoming.address,
            incoming.port, found.chunked, min(found.minor, 1))
        relayed.begin(incoming)
        # requests of two processes, each full of those that wait for the other, would wait for ever
        relayed.rank = ALWAYS
        if admission.attention == admission.queued:
            admission.attention += 1            # from now on the ends of such a rank count
        if found.websocket and found.minor:
            relayed.handler = Upgrade(relayed)
        return relayed

    cdef object value(self, const char* data, const head* found):
        cdef int i
        cdef uint32_t at
        for i in range(found.header_count):
            at = found.headers[i].name
            if found.headers[i].name_size == len(self.field) and \
                    data[at:at + found.headers[i].name_size].lower() == self.field:
                at = found.headers[i].value
                return data[at:at + found.headers[i].value_size]
        return None

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        return exchange.forget() if type(exchange) is Relayed else self.inner.take_back(exchange, fd)

    cdef int pass_on(self, Loop loop, const Incoming* incoming) except -1:
        cdef Stream* stream = incoming.stream
        cdef int fd = stream.fd
        cdef bytes data = first_bytes(stream, stream.inbox.size)
        cdef FdEntry* entry = loop.fds.entry(fd)
        if entry.armed:         # closing does not take it out of the epoll set while another process has it
            loop.poller.disarm(fd)
            entry.armed = 0
        loop.fds.forget(fd)
        stream.fd = -1
        self.routes.send(self.chosen, fd, data, <object> incoming.address, incoming.port, incoming.trusted)
        self.heads.forget(fd)
        return 0

    cdef int let_go(self, int fd) except -1:
        if self.relaying and fd in self.relaying:
            self.relaying.discard(fd)
            self.routes.let_go(fd)
        return 0

    def close(self) -> None:
        self.inner.close()


cdef bint is_settled(Connection connection) noexcept:
    """Return whether its request, which begins, is answered here because it has come from another process."""
    cdef bint settled = connection.settled != 0
    if connection.settled == NEXT_REQUEST:
        connection.settled = 0
    return settled


cdef bytes head_of(const char* data, const head* found):
    """Return the head as HTTP/1 has it."""
    cdef list lines = [b"%b %b HTTP/1.%d" % (
        data[found.method:found.method + found.method_size],
        data[found.target:found.target + found.target_size], min(found.minor, 1))]
    cdef uint32_t name, value
    cdef int i
    for i in range(found.header_count):
        name, value = found.headers[i].name, found.headers[i].value
        lines.append(b"%b: %b" % (
            data[name:name + found.headers[i].name_size], data[value:value + found.headers[i].value_size]))
    if found.minor == HTTP_2 and found.chunked:
        lines.append(b"transfer-encoding: chunked")
    return b"\r\n".join(lines) + b"\r\n\r\n"


cdef class Relayed(Exchange):
    """Relayed(listener, relay, text, address, port, chunked, minor)

    A request that another process answers. Its limits, its line in the access log, its trace and its part in
    the metrics are those of that process. The relay has these methods:

    run()           sends the request, and gives the response to answer(), put() and end_answer(), or, where
                    it is a WebSocket, to `upgrade`
    client_left()   the client sends no more; `gone`: it takes nothing more
    close()         the request has ended, or will never run
    """
    cdef object relay
    cdef readonly bytes text        # of its head
    cdef readonly bint chunked      # how its body is framed
    cdef readonly int minor         # the text is HTTP/1.0 or 1.1
    cdef public bint streams_events     # its response is an event stream

    def __init__(self, Listener listener not None, relay, bytes text not None, str address not None, int port,
            bint chunked, int minor):
        cdef HeadRequest request = HeadRequest(text, address, "" if port < 0 else str(port), listener.place)
        Exchange.__init__(self, listener, request)
        self.relay, self.text, self.chunked, self.minor = relay, text, chunked, minor
        self.new_body()

    cdef str label(self):
        return self.name_of(self.request.part(METHOD), self.request.part(PATH))

    cdef PyObject* execute(self, Scheduler loop) noexcept:
        cdef BaseException failure = None
        try:
            self.begin_relay()
            self.relay.run(self)
        except BaseException as error:
            failure = error
        self.interruptible = False
        self.conclude(<Loop> loop, failure)
        self.response.forget()
        Py_INCREF(None)
        return <PyObject*> None

    cdef int begin_relay(self) except -1:
        if self.too_large:
            raise BodyTooLarge(f"the body is larger than {self.listener.limits.body_bytes} bytes")
        self.interruptible = True
        self.peer.watch_end()
        if self.left():
            self.interrupt(self.listener.loop)
        return 0

    cdef int interrupt(self, Loop loop) except -1:
        """The client has left, or should have. The other process decides whether its request goes on."""
        self.interruptible = False
        self.relay.client_left(self.peer.is_gone() or self.peer.stream.carried)
        return 0

    cdef int tell_stop(self, bint at_last) except -1:
        if self.upgraded or self.response.committed and self.response.length < 0 and (
                at_last or self.streams_events):
            self.interrupt(self.listener.loop)
        return 0

    cdef int log_access(self, Loop loop) except -1:
        return 0

    cdef int report_slow(self, Loop loop) except -1:
        return 0

    cdef void count_answer(self) noexcept:
        pass

    cdef int forget(self) except -1:
        self.relay.close()
        return 0

    # -- for the relay ---------------------------------------------------------------------------------------

    @property
    def has_body(self) -> bool:
        return not self.body.framing.ended

    @property
    def expects_continue(self) -> bool:
        """Whether the client sends the body after a 100 only, which the first read() sends."""
        return self.body.expects_continue

    @property
    def head_only(self) -> bool:
        return self.response.head_only

    @property
    def upgrade(self):
        """The Upgrade of a request for a WebSocket; else None."""
        return self.handler

    def read(self) -> bytes:
        """Return the next bytes of the body, without its framing; b"" at the end."""
        cdef bytes piece = PyBytes_FromStringAndSize(NULL, PIECE)
        cdef Py_ssize_t n = self.body.read_into(PyBytes_AS_STRING(piece), PIECE)
        return piece[:n]

    def answer(self, int status, list fields not None) -> None:
        """The response begins. `fields`: pairs of bytes."""
        self.response.set_fields(status, fields)

    def put(self, bytes data not None) -> None:
        """Send a part of the body, waiting while the client is slow."""
        self.response.put(data, False)

    def end_answer(self, bytes trailers not None) -> None:
        """The body is complete. `trailers`: lines of fields that follow it."""
        if trailers and not self.response.committed:
            self.response.commit(-1)
        if trailers and self.response.takes_trailers():
            self.response.end_with(trailers)
        else:
            self.response.end()


cdef class RelayedTls(TlsLayer):
    """RelayedTls(connection): the TLS of a client that another process speaks; only what it has agreed on is
    here. `connection` has the methods of an SSLObject that tell that."""

    def __init__(self, connection):
        self.ssl = connection
        self.described = {}

    cdef Py_ssize_t receive(self, int fd, char* into, size_t room, bint peer_shutdown) except -2:
        cdef ssize_t n = recv(fd, into, room, MSG_DONTWAIT)
        while n < 0 and errno == EINTR:
            n = recv(fd, into, room, MSG_DONTWAIT)
        return n if n >= 0 else -1 if errno == EAGAIN else 0

    cdef Py_ssize_t send(self, int fd, const char* a, size_t na, const char* b, size_t nb) except -2:
        return send(fd, a if na else b, na if na else nb, MSG_DONTWAIT | MSG_NOSIGNAL)

    cdef int push(self, int fd) except -2:
        return -1 if self.closed else 1

    cdef int push_on(self, int fd) except -2:
        return self.push(fd)

    cdef int goodbye(self, int fd) except -1:
        return 0


def adopt(Listener listener not None, int fd, bytes data not None, str address not None, int port,
          bint trusted, bint relayed, tls=None) -> None:
    """Serve a connection that another process has read these bytes of. It has the descriptor from now on.
    `relayed`: it is one end of a pair, and the client's connection counts there. `tls`: for RelayedTls, where
    the client speaks TLS."""
    cdef Loop loop = listener.loop
    cdef Connection connection
    prepare(listener)
    try:
        connection = Connection()
        loop.fds.forget(fd)
        loop.fds.entry(fd).watcher = <PyObject*> connection
    except BaseException:
        close_fd(fd)
        raise
    connection.listener = listener
    connection.stream.fd = fd
    connection.stream.readable = True
    if tls is not None:
        layer = RelayedTls(tls)
        Py_INCREF(layer)                        # given back by free_stream()
        connection.stream.layer = <PyObject*> layer
    connection.remote_addr, connection.remote_port, connection.trusted = address, port, trusted
    Py_INCREF(connection)                       # given back by close()
    listener.connections += 1
    try:
        if relayed or connection.admit():
            connection.settled = ALL_REQUESTS if relayed else NEXT_REQUEST
            connection.move_to(READING)
            listener.deadlines.start(&connection.deadline, HEAD_DEADLINE, connection)
            listener.buffers.hold(&connection.stream.inbox, data, len(data))
            loop.push(connection)
            return
    except BaseException:
        connection.close(loop, True)
        raise
    connection.close(loop, False)
