"""Threads: the border between Python and the threads that answer native handlers' requests.

The threads are C and never take the interpreter's lock; server.h is their manual. This class makes them,
gives them connections and tells them to stop. An Inbox takes the messages that they send to Python:
connections, lines for the access log, notices. handlerthreads.py fits both into a Server.

A connection comes with the bytes of a request that the application is to answer, and perhaps of more
requests. It is a Connection like any other from then on, until a request for a native handler comes on it
(Shared).

Shared is an application and native handlers, which have a connection in turn. The connection of a request for
a native handler goes back to its thread, with all bytes that have come. A request that a thread has handed
over is the application's, whatever its route: a handler may have passed it on.

Their counts become cells of the server's counters (http/listener.pxd). Bytes that Python code gives to native
handlers are replaced while these read them: see publish.c.
"""

import os
import resource

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.errno cimport errno
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from posix.unistd cimport close as os_close, read

from syncless._core.loop cimport Loop, Watcher
from syncless._core.scheduler cimport Scheduler
from syncless.http.acceptor cimport evict_one, prepare
from syncless.http.connection cimport READING, Connection
from syncless.http.exchange cimport Application, Exchange
from syncless.http.listener cimport (
    BOUNDS, HEAD_DEADLINE, LATENCY, LATENCY_NS, REFUSED, REQUESTS, Counters, Listener,
)
from syncless.http.peer cimport Incoming
from syncless.http.stream cimport Stream
from syncless.http.wire.wire cimport BUCKETS, CODES, head, name_of
from syncless.native.handler cimport Handler

from syncless._core.threadloop import current_loop
from syncless.http.errors import REFUSALS, refusal_page, status_line
from syncless.http.limits import limit_values
from syncless.http.trust import FORWARDING, is_forwarding

cdef enum:
    COUNTED = 2 * CODES + BUCKETS + 1


cdef int CELL_OF[COUNTED]       # where each count is in a row of cells
cdef int _i
for _i in range(COUNTED):
    CELL_OF[_i] = (
        REQUESTS + _i if _i < CODES else REFUSED + _i - CODES if _i < 2 * CODES
        else LATENCY_NS if _i == COUNTED - 1 else LATENCY + _i - 2 * CODES)


cdef int64_t total_of(const server* of, int at) noexcept:
    """One of the counts, in the order of CELL_OF, of all threads."""
    cdef int i
    cdef int64_t total = 0
    for i in range(of.thread_count):
        total += counted(&of.threads[i].counts, at)
    return total


cdef int64_t counted(const counts* of, int at) noexcept:
    if at < CODES:
        return of.requests[at]
    if at < 2 * CODES:
        return of.refused[at - CODES]
    return of.latency_ns if at == COUNTED - 1 else of.latency[at - 2 * CODES]


cdef int add_new(const server* of, int64_t* collected, Counters counters) except -1:
    """Add what they have counted since it was `collected`, in the order of CELL_OF, the last time."""
    cdef int at
    cdef int64_t total
    for at in range(COUNTED):
        total = total_of(of, at)
        counters.cells[CELL_OF[at]] += total - collected[at]
        collected[at] = total
    return 0


cdef extern from "server.h" nogil:
    struct record:
        uint32_t size, fields_size
        uint16_t status
        uint8_t refused, closes
        address address
        int64_t body, ns
    int publish_bytes(const char* name, size_t name_size, const char* data, size_t size)
    int reclaim_published()

cdef extern from *:
    """
    #include <arpa/inet.h>
    #include <pthread.h>
    #include <sys/eventfd.h>
    #include <unistd.h>
    """
    enum: AF_INET, AF_INET6, EFD_CLOEXEC, EFD_NONBLOCK
    int inet_pton(int family, const char* text, void* into) nogil
    int eventfd(unsigned initial, int flags) nogil
    int pthread_join(unsigned long thread, void** result) nogil
    int pthread_detach(unsigned long thread) nogil

cdef enum:
    DECODED = 8192              # bytes of a path with escapes; a longer one is no native route
    PYTHONS = 2                 # in server.owned: see pythons()


cdef class Threads:
    """Threads(routes, count, limits, logs=False, logs_fields=False, forwarding=None): `routes` as routing.py
    gives them; not yet running. ``logs``: requests are told for the access log; ``logs_fields``: with the
    fields of their responses. ``forwarding``: which fields of which peers handlers see, http/trust.py."""

    def __cinit__(self):
        self.core.python.event = -1

    def __init__(
        self, list routes not None, int count, limits_, *, bint logs=False, bint logs_fields=False,
        forwarding=None,
    ):
        cdef int i
        if not 1 <= count <= READERS:
            raise ValueError(f"native_threads must be from 1 to {<int> READERS}, not {count}")
        self.kept = []
        self.names = [route.text for route in routes]
        self.core.limits = limit_values(limits_)
        for bucket in range(<int> BUCKETS):
            self.core.bounds[bucket] = BOUNDS[bucket]
        for code in range(200, <int> CODES):
            self.set_text(&self.core.reasons[code], status_line(code))
        for reason in REFUSALS:
            self.set_text(&self.core.refusals[<int> reason], refusal_page(reason))
        self.set_routes(routes)
        self.set_trust(forwarding)
        self.core.logs = logs
        self.core.logs_fields = logs_fields
        self.core.owned_size = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1] & 0x7fffffff, 1 << 20)
        self.core.owned = <owned_t*> calloc(self.core.owned_size, 1)
        self.core.threads = <thread**> calloc(count, sizeof(thread*))
        self.core.python.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        if self.core.owned == NULL or self.core.threads == NULL:
            raise MemoryError
        if self.core.python.event < 0:
            raise OSError(errno, f"{os.strerror(errno)}, for native handlers")
        for i in range(count):
            self.core.threads[i] = thread_new(&self.core, i)
            if self.core.threads[i] == NULL:
                raise OSError(errno, f"{os.strerror(errno)}, for the threads of native handlers")
            self.core.thread_count = i + 1

    def __dealloc__(self):
        cdef int i
        for i in range(self.core.thread_count):
            thread_free(self.core.threads[i])
        drop_messages(&self.core.python)
        if self.core.python.event >= 0:
            os_close(self.core.python.event)
        routes_free(self.core.routes)
        free(self.core.trust.networks)
        free(self.core.threads)
        free(self.core.listeners)
        free(self.core.owned)

    cdef int set_trust(self, object forwarding) except -1:
        cdef trust* to = &self.core.trust
        cdef network* one
        cdef int i = 0
        self.set_text(&to.forwarding, FORWARDING)
        while name_of(i) != NULL:
            name = name_of(i).decode()
            if is_forwarding(name):
                kept = forwarding is not None and forwarding.keeps(name)
                to.known[i] = SHOWN_IF_TRUSTED if kept else HIDDEN
            i += 1
        if forwarding is None:
            return 0
        to.everybody, to.unix_sockets = forwarding.trust.everybody, forwarding.trust.unix
        networks = [
            (size, mask.to_bytes(size, "big"), base.to_bytes(size, "big"))
            for size, mask, base in forwarding.trust.networks
        ]
        to.networks = <network*> calloc(len(networks) + 1, sizeof(network))
        if to.networks == NULL:
            raise MemoryError
        one = to.networks
        for size, mask, base in networks:
            one.size = size
            memcpy(one.mask, PyBytes_AS_STRING(mask), size)
            memcpy(one.base, PyBytes_AS_STRING(base), size)
            one += 1
        to.network_count = len(networks)
        return 0

    cdef int set_text(self, text* to, str words) except -1:
        to.data = self.keep(words, &to.size)
        return 0

    cdef const char* keep(self, str words, size_t* size) except NULL:
        cdef bytes raw = words.encode()
        self.kept.append(raw)
        size[0] = PyBytes_GET_SIZE(raw)
        return PyBytes_AS_STRING(raw)

    cdef int set_routes(self, list wanted) except -1:
        cdef route* all_of_them = <route*> calloc(len(wanted) or 1, sizeof(route))
        cdef route* one
        cdef Handler handler
        cdef size_t size
        if all_of_them == NULL:
            raise MemoryError
        try:
            for i, each in enumerate(wanted):
                one = &all_of_them[<int> i]
                handler = each.handler
                self.kept.append(handler)
                if each.method is not None:
                    one.method = self.keep(each.method, &one.method_size)
                one.path = self.keep(each.path, &one.path_size)
                one.name = self.keep(each.text, &size)
                one.handler = <void*> handler.call
                one.context = handler.context
                one.pieces = handler.pieces
                for kind, words in each.segments:
                    one.segments[one.segment_count].kind = ord(kind)
                    one.segments[one.segment_count].text = self.keep(
                        words, &one.segments[one.segment_count].size)
                    one.segment_count += 1
            self.core.routes = routes_new(all_of_them, len(wanted))
            if self.core.routes == NULL:
                raise MemoryError
        except BaseException:
            free(all_of_them)
            raise
        return 0

    # -- the connections of Python that are theirs -----------------------------------------------------------

    cdef bint wants(self, int fd, const char* data, const head* found) noexcept:
        """Return whether the request is for a handler, and not one that a thread has just handed over."""
        cdef char decoded[DECODED]
        cdef match here
        cdef bytes_view path
        if fd >= self.core.owned_size:
            return False
        if fd >= 0 and self.core.owned[fd] == PYTHONS:      # a request of HTTP/2 has no descriptor
            self.core.owned[fd] = 0
            return False
        if found.escaped and found.path_size > DECODED:
            return False
        return routes_find_head(self.core.routes, data, found, decoded, &path, &here)

    cdef void pythons(self, int fd) noexcept:
        """The next request of the connection is for Python."""
        if fd < self.core.owned_size:
            self.core.owned[fd] = PYTHONS

    cdef int send(self, int index, int fd, int listener, str text, int port, const char* data,
                  size_t size) except -1:
        """Return a connection for one of the threads, this one unless it is stuck; `listener`: index of the
        socket that it was accepted on."""
        cdef bytes shown = text.encode()
        cdef message* made = message_new(CONNECTION_MESSAGE, size)
        if made == NULL:
            raise MemoryError
        made.fd = fd
        if size:
            memcpy(made.data, data, size)
        if inet_pton(AF_INET, shown, made.address.bytes) == 1:
            made.address.family = AF_INET
        elif inet_pton(AF_INET6, shown, made.address.bytes) == 1:
            made.address.family = AF_INET6
        made.address.listener = listener
        made.address.port = port if port > 0 else 0
        atomic_fetch_add(&self.core.connections, 1)
        send_connection(thread_for(&self.core, index), made)
        return 0

    def give(self, int index, int fd, bytes data=b"") -> None:
        """A connection for one of the threads; for tests."""
        self.send(index, fd, 0, "", -1, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    cdef message* take_messages(self) noexcept:
        """Return the messages that they have sent to Python."""
        return take_messages(&self.core.python)

    # -- running ---------------------------------------------------------------------------------------------

    def listen(self, int fd) -> int:
        """One more socket on which they accept, before they start; its index."""
        cdef int* grown = <int*> calloc(self.core.listener_count + 1, sizeof(int))
        if grown == NULL:
            raise MemoryError
        if self.core.listener_count:
            memcpy(grown, self.core.listeners, self.core.listener_count * sizeof(int))
        free(self.core.listeners)
        self.core.listeners = grown
        grown[self.core.listener_count] = fd
        self.core.listener_count += 1
        return self.core.listener_count - 1

    def measure_times(self) -> None:
        """From now on the time that requests take is counted."""
        self.core.counts_time = True

    def start(self) -> None:
        while self.started < self.core.thread_count:
            if error := thread_start(self.core.threads[self.started]):
                raise OSError(error, f"cannot start a thread for native handlers: {os.strerror(error)}")
            self.started += 1

    def turn(self, int index=0, double seconds=0) -> None:
        """A turn of one of the threads in the calling one, instead of start(); for tests."""
        cdef int64_t timeout = <int64_t> (seconds * 1e9)
        with nogil:
            thread_turn(self.core.threads[index], timeout)

    cdef int wake_all(self) except -1:
        cdef int i
        for i in range(self.core.thread_count):
            wake(&self.core.threads[i].inbox)
        return 0

    def stop(self) -> None:
        """From now on every response closes its connection."""
        self.core.stopping = True

    def drain(self) -> None:
        """They accept what waits, and then no more; `drained` says when that is so."""
        self.core.draining = True
        self.wake_all()

    @property
    def drained(self) -> bool:
        cdef int i
        for i in range(self.started):
            if not self.core.threads[i].drained and not self.core.threads[i].ended:
                return False
        return True

    def close_connections(self, bint all_of_them) -> None:
        """Soon: those between requests, or all of them."""
        self.core.closings += 1
        if all_of_them:
            self.core.abort = True
        self.wake_all()

    def end(self) -> None:
        """All connections are closed, and the threads told to end; `ended` says when they have."""
        self.core.quit = True
        self.wake_all()

    @property
    def ended(self) -> bool:
        cdef int i
        for i in range(self.started):
            if not self.core.threads[i].ended:
                return False
        return True

    def join(self) -> bool:
        """Free the threads. False if one is in a handler still: it keeps all that it needs."""
        cdef int i
        cdef bint all_ended = self.ended
        if self.started and not all_ended:
            Py_INCREF(self)                     # for ever
        for i in range(self.started):
            if all_ended:
                pthread_join(self.core.threads[i].id, NULL)
            else:
                pthread_detach(self.core.threads[i].id)
        self.started = 0
        return all_ended

    def leave_to_parent(self) -> None:
        """In a child after a fork: closes its copies of the threads' connections, also of those that are
        between two threads. A second call finds none."""
        cdef int fd, i
        for fd in range(self.core.owned_size):
            if self.core.owned[fd] == 1:
                self.core.owned[fd] = 0
                os_close(fd)
        drop_messages(&self.core.python)
        for i in range(self.core.thread_count):
            drop_messages(&self.core.threads[i].inbox)
        if self.started:
            Py_INCREF(self)
        self.started = 0

    # -- looking ---------------------------------------------------------------------------------------------

    @property
    def event(self) -> int:
        """Readable when they have sent something to Python."""
        return self.core.python.event

    @property
    def connections(self) -> int:
        """How many they have now."""
        cdef int i
        cdef int64_t count = 0
        for i in range(self.core.thread_count):
            count += self.core.threads[i].counts.connections
        return count

    @property
    def requests(self) -> int:
        """How many they have answered."""
        cdef int code
        return sum([total_of(&self.core, code) for code in range(CODES)])

    @property
    def dropped(self) -> int:
        """Lines of the access log that are missing, because Python did not take them in time."""
        cdef int i
        cdef int64_t count = 0
        for i in range(self.core.thread_count):
            count += self.core.threads[i].counts.dropped
        return count

    @property
    def handed_over(self) -> int:
        """Connections that were given to Python."""
        return sum([self.core.threads[i].counts.handed for i in range(self.core.thread_count)])

    def connections_by_thread(self) -> list:
        return [self.core.threads[i].counts.connections for i in range(self.core.thread_count)]

    def figures(self) -> dict:
        """As Listener.figures(), of the connections that they have."""
        cdef int i
        cdef counts* one
        cdef int64_t connections = 0, lingering = 0, running = 0, held = 0
        cdef int64_t accepted = 0, received = 0, sent = 0
        for i in range(self.core.thread_count):
            one = &self.core.threads[i].counts
            connections += one.connections
            lingering += one.lingering
            running += self.core.threads[i].busy_with != NULL
            held += one.held
            accepted += one.accepted
            received += one.received
            sent += one.sent
        return {
            "connections": connections, "running": running, "lingering": lingering,
            "idle": max(0, connections - running - lingering), "buffered_bytes": held,
            "accepted": accepted, "received_bytes": received, "sent_bytes": sent,
        }

    def collect(self, Counters counters not None) -> None:
        """Add what they have counted since the last time."""
        add_new(&self.core, self.collected, counters)

    def busy(self) -> list:
        """(thread, seconds, route or None) of each thread that is at work now."""
        cdef int i
        cdef int64_t ns
        cdef const route* at
        cdef list found = []
        for i in range(self.core.thread_count):
            ns = thread_busy_ns(self.core.threads[i])
            at = self.core.threads[i].busy_with
            if ns:
                found.append((i, ns / 1e9, None if at == NULL else at.name.decode()))
        return found


cdef str show(const address* of):
    """Return an address as text; "" for a UNIX socket."""
    cdef char text[64]
    show_address(of, text, 64)
    return text.decode()


cdef int publish_view(const char* name, size_t name_size, const char* data, size_t size) noexcept:
    return publish_bytes(name, name_size, data, size)


cdef int reclaim_views() noexcept:
    return reclaim_published()


def calls_address() -> int:
    """Of the table of functions that handlers find in their requests."""
    return <size_t> &CALLS


def publish(str name not None, data) -> None:
    """Publish bytes under a name, by which native handlers find them without a lock, and replace the previous
    ones.

    Old bytes are freed when no handler can be reading them any longer. None removes the name. A process can
    have 256 names.
    """
    cdef bytes key = name.encode()
    cdef Py_buffer view
    cdef int outcome
    if data is None:
        outcome = publish_view(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), NULL, 0)
    else:
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        outcome = publish_view(
            PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), <const char*> view.buf, view.len)
        PyBuffer_Release(&view)
    if outcome < 0:
        raise MemoryError(f"cannot publish {name!r}: no memory, or more than 256 names")


def reclaim() -> int:
    """Free old published bytes. Return how many are left because handlers may still read them."""
    return reclaim_views()


cdef class Shared(Application):
    """Shared(application, threads), of the next socket on which the threads accept."""
    cdef Application inner
    cdef Threads threads
    cdef int listener           # index of that socket

    def __init__(self, Application inner not None, Threads threads not None):
        self.inner = inner
        self.threads = threads
        self.listener = threads.core.listener_count
        self.heads = inner.heads

    cdef Exchange exchange(self, const Incoming* incoming):
        if self.threads.wants(incoming.stream.fd, incoming.data, incoming.found):
            return None
        return self.inner.exchange(incoming)

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        return self.inner.take_back(exchange, fd)

    cdef int pass_on(self, Loop loop, const Incoming* incoming) except -1:
        cdef Stream* stream = incoming.stream
        cdef int fd = stream.fd
        loop.fds.entry(fd).watcher = NULL
        loop.fds.disarm_after_wait(fd)          # nobody else waits for it
        self.threads.send(
            fd % self.threads.core.thread_count, fd, self.listener, <str> incoming.address, incoming.port,
            stream.inbox.data + stream.inbox_start, stream.inbox.size - stream.inbox_start)
        stream.fd = -1                          # a thread closes it
        self.heads.forget(fd)                   # as closing would; last, because that may run a finaliser
        return 0

    def close(self) -> None:
        self.inner.close()


cdef Connection opened(Loop loop, Threads threads, Listener listener, message* sent):
    """Return the connection of a message, which has its descriptor from now on, unless this fails."""
    cdef Connection connection = Connection()
    connection.listener = listener
    connection.stream.fd = sent.fd
    connection.stream.readable = True
    connection.remote_addr = show(&sent.address)
    connection.remote_port = sent.address.port if connection.remote_addr else -1
    if listener.trusted is not None:
        connection.trusted = listener.trusted(connection.remote_addr)
    loop.fds.forget(sent.fd)
    loop.fds.entry(sent.fd).watcher = <PyObject*> connection
    Py_INCREF(connection)                       # given back by close()
    threads.pythons(sent.fd)
    listener.connections += 1
    return connection


cdef int adopt(Loop loop, Threads threads, Listener listener, message* sent) except -1:
    """The connection is Python's, and its first request is, too."""
    cdef Connection connection
    try:
        connection = opened(loop, threads, listener, sent)
    except BaseException:
        os_close(sent.fd)
        raise
    try:
        if not connection.admit():
            return connection.close(loop, False)
        connection.move_to(READING)
        listener.deadlines.start(&connection.deadline, HEAD_DEADLINE, connection)
        listener.buffers.hold(&connection.stream.inbox, sent.data, sent.size)
        return loop.push(connection)            # an application that waits must not hold up the rest
    except BaseException:
        connection.close(loop, True)
        raise


cdef class Inbox(Watcher):
    """Inbox(threads, notice, fault, record): `notice` is called with an error number when threads cannot
    accept, `fault` with a sentence when a handler fails, `record` with the parts of a line of the access
    log."""
    cdef Threads threads
    cdef object notice, fault, record, loop
    cdef list listeners
    cdef int64_t taken          # connections, since the start
    cdef int64_t counted        # of them, those that the threads still count
    cdef bint closed

    def __init__(self, Threads threads not None, notice, fault, record):
        cdef Loop loop = current_loop()
        self.threads = threads
        self.notice = notice
        self.fault = fault
        self.record = record
        self.loop = loop
        self.listeners = []
        loop.fds.forget(threads.core.python.event)
        loop.fds.watch(threads.core.python.event, self)

    def listen(self, Listener listener not None) -> None:
        """Connections of the next socket become this listener's."""
        prepare(listener)
        listener.acceptor = self
        self.listeners.append(listener)

    cdef int on_ready(self, Loop loop, int bits) except -1:
        cdef uint64_t count
        if self.closed:
            return 0
        read(self.threads.core.python.event, &count, sizeof(count))
        return self.take(loop)

    cdef int forked(self, Loop loop) except -1:
        """The threads and their connections are the parent's."""
        self.closed = True
        self.threads.leave_to_parent()
        return 0

    cdef int take(self, Loop loop) except -1:
        cdef message* sent = self.threads.take_messages()
        cdef message* following
        while sent != NULL:
            following = sent.next
            try:
                if sent.kind == CONNECTION_MESSAGE:
                    self.taken += 1
                    self.counted += 1
                    adopt(loop, self.threads, <Listener> self.listeners[sent.address.listener], sent)
                elif sent.kind == LOG_MESSAGE:
                    self.log(sent)
                elif sent.kind == EVICT_MESSAGE:
                    self.offer_room(loop)
                elif sent.kind == FAULT_MESSAGE:
                    self.fault(sent.data[:sent.size].decode(errors="replace"))
                else:
                    self.notice(sent.fd)
            except BaseException as error:
                loop.report("taking a message from native handlers", error)
                self.turn(loop)                 # a connection that failed leaves its place
            free(sent)
            sent = following
        return 0

    cdef int offer_room(self, Loop loop) except -1:
        """A client waits to be accepted, and the threads have no connection to close for it."""
        self.threads.core.eviction_wanted = False
        for listener in self.listeners:
            if evict_one(<Listener> listener):
                self.turn(loop)
                return self.threads.wake_all()
        return 0

    cdef int log(self, message* sent) except -1:
        """A block of records."""
        cdef record one
        cdef size_t at = 0
        atomic_fetch_add(&self.threads.core.log_held, -<int64_t> sent.size)
        while at < sent.size:
            memcpy(&one, sent.data + at, sizeof(one))
            at += sizeof(one)
            self.record(
                one.status, one.refused, one.closes, show(&one.address), one.address.port,
                (<Listener> self.listeners[one.address.listener]).place, one.body, one.ns,
                PyBytes_FromStringAndSize(sent.data + at, one.size),
                PyBytes_FromStringAndSize(sent.data + at + one.size, one.fields_size))
            at += one.size + one.fields_size
        return 0

    cdef int turn(self, Scheduler loop) except -1:
        """Connections of Python have been closed: there is room for others (Listener.acceptor)."""
        cdef int64_t left = sum([listener.connections for listener in self.listeners])
        atomic_fetch_add(&self.threads.core.connections, left - self.counted)
        self.counted = left
        return 0

    @property
    def unread(self) -> int:
        """Connections that are on their way to Python."""
        return self.threads.handed_over - self.taken

    def take_rest(self) -> None:
        """Take the messages that have been sent up to now."""
        self.take(self.loop)

    def close(self) -> None:
        cdef Loop loop = self.loop
        if not self.closed:
            self.closed = True
            self.take(loop)
            for listener in self.listeners:
                (<Listener> listener).acceptor = None
            (<Loop> loop).fds.entry(self.threads.core.python.event).watcher = NULL
            loop.fds.disarm_after_wait(self.threads.core.python.event)
