"""Accepting connections; making room for them: which are closed for others, or because the server stops; and
taking over: when a thread is held, another one that stands by takes its connections between two requests.

Takes a Listener, whose lists of deadlines have its connections in the order in which their times began. The
life of a connection is connection.pyx.

A kept-alive connection between two requests has no tasklet and no C stack: it is a descriptor, its buffers
and a deadline. So it can go on in another thread's loop: out of one epoll and into the other, its deadline
with the end that it had. A request that is running stays where it is.

The rule: only while the other loop sleeps in its poll, or runs a tasklet of an application. Its tables are
whole then, because a tasklet may switch to any other at each of its calls, too. Danger: while the loop's own
code runs Python (a callback for a trusted proxy, a finaliser, a hook), a connection may be READING with its
bytes borrowed, and its request would be lost. Bytes that OpenSSL works on are no less borrowed. Guarded by
tests/server/test_standby.py. The interpreter's lock makes a move one step: the code between two looks at the
rule runs no Python.

The Connection that was there stays behind CLOSED: all references to it that its loop has (in the ready queue,
the flusher, the events of the last poll) do nothing any more, as after any close.

Watch looks from a thread of its own, which never has the interpreter's lock while it does: at a loop that
sleeps each time that it could have become held since, at others when that is. It costs nothing to those that
it looks at. A loop with much to do is not held: requests begin there from look to look.
"""

import os

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
cimport cython
from libc.errno cimport (
    EAGAIN, ECONNABORTED, EINTR, EINVAL, EMFILE, ENFILE, ENOBUFS, ENOMEM, EPERM, EPROTO, errno,
)
from libc.stdint cimport int64_t
from libc.string cimport memset
from posix.time cimport nanosleep, timespec
from posix.unistd cimport close as close_fd
from posix.unistd cimport write as os_write

from syncless._core.calls.portable cimport accept_connection  # no-cython-lint: the C below calls it
from syncless._core.clock cimport monotonic_ns
from syncless._core.loop cimport FdEntry, Loop, Watcher
from syncless._core.poll.now cimport is_ready
from syncless._core.poll.poller cimport READ, PollEvent
from syncless._core.scheduler cimport Scheduler
from syncless._core.threadloop cimport get_loop
from syncless._core.timers cimport timer_init
from syncless.http.connection cimport CARRYING, CLOSED, GREETING, READING, RUNNING, Connection
from syncless.http.exchange cimport Session
from syncless.http.listener cimport (
    GREETING_DEADLINE, HEAD_DEADLINE, IDLE_DEADLINE, LINGER_DEADLINE, NO_DEADLINE, DeadlineNode, Deadlines,
    Listener, next_of,
)
from syncless.http.peer cimport Carried
from syncless.http.stream cimport Buffer, Buffers, Stream, TlsLayer, has_input, has_unsent
from syncless.http.wire.wire cimport ACCEPT_BATCH, ASKED, JUST_COME_NS, LAST_BATCHES, RETRY_NS

from syncless._core.exits import TaskletExit

cdef bint evict_one(Listener listener) except -1:
    """Closes a connection for another one: one that has had its last answer and goes on sending, else the one
    that has been idle for longest, else the oldest that has not sent a whole head. Returns whether there was
    one."""
    cdef Deadlines deadlines = listener.deadlines
    cdef DeadlineNode* node = deadlines.first(LINGER_DEADLINE)
    cdef DeadlineNode* head
    cdef DeadlineNode* greeting
    cdef Connection connection
    if node != NULL:
        connection = <Connection> node.place.owner
        connection.close(listener.loop, False)
        return True
    if close_oldest(listener, IDLE_DEADLINE):
        return True
    head = deadlines.first(HEAD_DEADLINE)
    greeting = deadlines.first(GREETING_DEADLINE)
    if greeting != NULL and (head == NULL or deadlines.began(greeting) < deadlines.began(head)):
        return close_oldest(listener, GREETING_DEADLINE) or close_oldest(listener, HEAD_DEADLINE)
    return close_oldest(listener, HEAD_DEADLINE) or close_oldest(listener, GREETING_DEADLINE)


cdef bint close_oldest(Listener listener, int kind) except -1:
    """Closes the first connection of a list whose last response is sent and of which nothing has come."""
    cdef Connection connection
    cdef DeadlineNode* node = listener.deadlines.first(kind)
    cdef int _
    for _ in range(ASKED):
        if node == NULL:
            break
        connection = <Connection> node.place.owner
        node = next_of(node)
        if not connection.stream.readable and not has_unsent(&connection.stream) \
                and not connection.asks(listener.loop):
            return connection.close(listener.loop, False) == 0
    return False


cdef list connections_of(Listener listener):
    return [
        watcher for watcher in listener.loop.fds.watchers()
        if isinstance(watcher, Connection) and (<Connection> watcher).listener is listener]


def close_connections(Listener listener not None, bint all_of_them) -> int:
    """The server stops. A connection between requests closes, unless its next request has come or its first
    may be on its way; so does one that has sent a part of a head. `all_of_them`: all others close, too, and
    requests that run are interrupted. Returns how many are closed or interrupted."""
    cdef Loop loop = listener.loop
    cdef Connection connection
    cdef Session session
    cdef int closed = 0
    for connection in connections_of(listener):
        if not all_of_them:
            if connection.phase == CARRYING:
                session = connection.session
                session.stop(True)
            elif is_idle(connection):
                closed += not just_came(connection) and connection.close_idle(loop)
            elif connection.deadline.kind == HEAD_DEADLINE and not is_new(connection):
                connection.refuse_rest(loop)
            continue
        if connection.phase == RUNNING:
            loop.throw(connection.exchange, TaskletExit())
        elif connection.phase == CARRYING:
            session = connection.session
            session.interrupt(loop)
        else:
            connection.close(loop, True)
        closed += 1
    return closed


def close_rest(Listener listener not None) -> None:
    """The server has stopped: no connection waits any longer for a client that has not taken its last answer,
    or goes on sending. What still runs is left."""
    cdef Connection connection
    for connection in connections_of(listener):
        if connection.phase != RUNNING and connection.phase != CARRYING:
            connection.close(listener.loop, has_unsent(&connection.stream))


def begin_stop(list listeners not None) -> None:
    """The server stops: clients of HTTP/2 are told to ask no more."""
    cdef Session session
    for watcher in get_loop().fds.watchers():
        if isinstance(watcher, Connection) and (<Connection> watcher).listener in listeners:
            if (<Connection> watcher).phase == CARRYING:
                session = (<Connection> watcher).session
                session.stop(False)


def tell_streams(list listeners not None, bint all_of_them) -> None:
    """The server stops: each request that goes on for ever is told, also one that has begun meanwhile.
    `all_of_them`: those that may have an end, too, for which there is no time left."""
    cdef Session session
    for watcher in get_loop().fds.watchers():
        if isinstance(watcher, Connection) and (<Connection> watcher).listener in listeners:
            connection = <Connection> watcher
            if connection.phase == RUNNING:
                exchange = connection.exchange      # kept: it runs Python code, and may end
                exchange.tell_stop(all_of_them)
            elif connection.phase == CARRYING:
                session = connection.session
                session.tell_stop(all_of_them)


cdef bint is_idle(Connection connection) noexcept:
    """Whether all is answered and sent, and nothing has come."""
    return connection.phase == GREETING or (
        connection.phase == READING and connection.stream.inbox.size == 0
        and not has_unsent(&connection.stream))


cdef bint just_came(Connection connection) noexcept:
    """Whether it is so new that its first request may be on its way."""
    return not connection.kept and connection.deadline.kind != NO_DEADLINE and is_new(connection)


cdef bint is_new(Connection connection) noexcept:
    """Whether its deadline has been started just now."""
    cdef Listener listener = connection.listener
    return listener.loop.clock.now - listener.deadlines.began(&connection.deadline) < JUST_COME_NS


cdef extern from *:
    """
    #include <sys/types.h>
    #include <sys/socket.h>
    #include <netinet/in.h>
    #include <arpa/inet.h>

    /* Accepts, with the peer's address as text. IPv4 inside IPv6 shows as IPv4. port -1: the family has none.
       The text is left empty where the address is IPv4 and the same as `*last`, which it becomes. */
    static int syncless_accept(int listener, char *text, int *port, unsigned *last) {
        union {
            struct sockaddr any;
            struct sockaddr_in v4;
            struct sockaddr_in6 v6;
            struct sockaddr_storage room;
        } a;
        socklen_t length = sizeof a;
        int fd = syncless_accept_connection(listener, &a.any, &length, 0);
        text[0] = 0;
        *port = -1;
        if (fd < 0)
            return fd;
        if (a.any.sa_family == AF_INET && a.v4.sin_addr.s_addr == *last) {
            *port = ntohs(a.v4.sin_port);
            return fd;
        }
        *last = a.any.sa_family == AF_INET ? a.v4.sin_addr.s_addr : 0;
        if (a.any.sa_family == AF_INET) {
            inet_ntop(AF_INET, &a.v4.sin_addr, text, INET6_ADDRSTRLEN);
            *port = ntohs(a.v4.sin_port);
        } else if (a.any.sa_family == AF_INET6) {
            if (IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr))
                inet_ntop(AF_INET, a.v6.sin6_addr.s6_addr + 12, text, INET6_ADDRSTRLEN);
            else
                inet_ntop(AF_INET6, &a.v6.sin6_addr, text, INET6_ADDRSTRLEN);
            *port = ntohs(a.v6.sin6_port);
        }
        return fd;
    }
    """
    enum: INET6_ADDRSTRLEN
    int syncless_accept(int listener, char* text, int* port, unsigned* last) nogil


cdef void retry_accept(void* owner) noexcept:
    acceptor = <Acceptor> owner
    try:
        acceptor.listener.loop.push(acceptor)
    except MemoryError:
        acceptor.loop.timers.add(&acceptor.retry, monotonic_ns() + RETRY_NS)


cdef int begin(Loop loop, Listener listener, Connection connection) except -1:
    """Its first deadline, and its first turn, unless its client has too many connections."""
    cdef int kind = GREETING_DEADLINE
    if listener.trusted is not None:
        connection.trusted = listener.trusted(connection.remote_addr)
        connection.expects_proxy_header = connection.trusted and listener.proxy_protocol
    if not connection.admit():
        return connection.close(loop, False)
    if listener.certificates is None and not connection.expects_proxy_header:
        connection.move_to(READING)
        kind = HEAD_DEADLINE
    listener.deadlines.start(&connection.deadline, kind, connection)
    return loop.push(connection)


cdef int expire(Loop loop, object owner, int kind) except -1:
    if type(owner) is Connection:
        return (<Connection> owner).expired(loop, kind)
    return (<Carried> owner).expired(loop, kind)


cdef int flush(Loop loop, object owner) except -1:
    return (<Connection> owner).flush(loop)


cdef int prepare(Listener listener) except -1:
    """Before it has its first connection."""
    listener.deadlines.expire = expire
    listener.flusher.flush = flush
    return 0


@cython.no_gc_clear      # __dealloc__ needs the loop
cdef class Acceptor(Watcher):
    """Accepts the connections of one listening socket, which its Server owns. A server that is dropped
    without being stopped takes it along."""

    def __cinit__(self):
        timer_init(&self.retry, retry_accept, <void*> self)
        self.fd = -1

    def __dealloc__(self):
        if self.loop is not None:
            self.loop.timers.remove(&self.retry)
            if self.fd >= 0 and self.loop.fds.entry(self.fd).watcher == <PyObject*> self:
                self.loop.fds.forget(self.fd)

    def __init__(self, Listener listener not None, int fd):
        self.listener = listener
        self.loop = listener.loop
        self.fd = fd
        os.set_blocking(fd, False)
        listener.loop.fds.watch(fd, self)
        listener.acceptor = self
        prepare(listener)

    cdef int on_ready(self, Loop loop, int bits) except -1:
        return self.accept(loop)

    cdef int turn(self, Scheduler loop) except -1:
        return self.accept(<Loop> loop)

    cdef int loop_ended(self, Loop loop) except -1:
        self.close()
        return 0

    cdef int accept(self, Loop loop) except -1:
        """Accepts what has come, up to a batch."""
        cdef Listener listener = self.listener
        cdef char text[INET6_ADDRSTRLEN]
        cdef bint full
        cdef int fd, port, _, limit = 0 if self.takes_all else listener.limits.connections
        if self.closed or self.paused:
            return 0
        for _ in range(ACCEPT_BATCH):
            full = limit and listener.all_connections() >= limit
            if full and is_ready(self.fd, READ) and not evict_one(listener):
                listener.starved = True
                return 0  # the rest waits in the backlog; a connection that closes or falls idle pushes us
            fd = syncless_accept(self.fd, text, &port, &self.last)
            if fd < 0:
                if errno == EINTR or errno == ECONNABORTED or errno == EPROTO or errno == EPERM:
                    continue
                if errno == EINVAL:
                    return 0                    # the master has shut the socket down: nobody comes any more
                if errno == EAGAIN:
                    loop.fds.arm(self.fd, READ)
                elif self.shortage(loop, errno):
                    continue
                return 0
            try:
                self.open(loop, fd, text, port)
            except MemoryError:
                self.shortage(loop, ENOMEM)
                return 0
        loop.push(self)
        return 0

    cdef int open(self, Loop loop, int fd, const char* address, int port) except -1:
        """Begins the life of a connection. It gets its turn afterwards: an application that waits must not
        hold up the rest of the backlog. If this raises, the descriptor is closed."""
        cdef Listener listener = self.listener
        cdef Connection connection
        try:
            if self.last_text is None or self.last == 0 or address[0] != 0:
                self.last_text = address.decode()
            connection = Connection()
            loop.fds.forget(fd)
            loop.fds.entry(fd).watcher = <PyObject*> connection
        except BaseException:
            self.last = 0                       # its text may be missing
            close_fd(fd)
            raise
        connection.listener = listener
        connection.stream.fd = fd
        connection.stream.readable = True
        connection.remote_addr = self.last_text
        connection.remote_port = port
        Py_INCREF(connection)                   # given back by close()
        listener.connections += 1
        listener.accepted += 1
        try:
            return begin(loop, listener, connection)
        except BaseException:
            connection.close(loop, False)
            raise

    cdef bint shortage(self, Loop loop, int error) except -1:
        """No descriptors or memory: another connection makes room. Whether to go on at once, not a little
        later."""
        cdef Listener listener = self.listener
        if error != EMFILE and error != ENFILE and error != ENOBUFS and error != ENOMEM:
            loop.report("accept", OSError(error, os.strerror(error)))
            return False
        if self.retry.index < 0:
            loop.timers.add(&self.retry, monotonic_ns() + RETRY_NS)
        listener.complain(
            f"cannot accept connections: {os.strerror(error)}; closing idle ones. "
            "Raise ulimit -n, or set the limit `connections`")
        if (evict_one(listener) or self.evict_elsewhere(loop)) and error == EMFILE:
            loop.timers.remove(&self.retry)
            return True                         # a descriptor of this process is free now
        return False

    cdef bint evict_elsewhere(self, Loop loop) except -1:
        """The descriptors may be those of connections that other listening sockets have accepted."""
        for watcher in loop.fds.watchers():
            if isinstance(watcher, Acceptor) and evict_one((<Acceptor> watcher).listener):
                return True
        return False

    def pause(self) -> None:
        """Leaves new connections to the other processes that have the socket."""
        self.paused = True

    def rest(self) -> None:
        """As pause(), and not even told of them. From any thread, by the rule above."""
        cdef FdEntry* entry = self.loop.fds.entry(self.fd)
        self.paused = True
        if entry.armed:
            self.loop.poller.disarm(self.fd)
            entry.armed = 0

    def resume(self) -> None:
        """Accepts again what has come."""
        self.paused = False
        if not self.closed:
            self.listener.loop.push(self)

    def accept_rest(self) -> None:
        """Accepts all connections that wait, beyond Limits.connections, too: nobody else would answer
        them."""
        cdef long long before = -1
        cdef int rounds = 0
        self.takes_all = True
        while self.listener.accepted != before and rounds < LAST_BATCHES:
            before = self.listener.accepted
            self.accept(self.listener.loop)
            rounds += 1

    def close(self) -> None:
        """Accepts no more. The socket is the caller's to close."""
        if not self.closed:
            self.closed = True
            self.listener.loop.timers.remove(&self.retry)
            self.listener.loop.fds.forget(self.fd)
            self.listener.acceptor = None


cdef enum:
    READY_AT_ONCE = 256
    AGAIN = 2500000         # ns between two looks at a loop that is held, or may be
    SELDOM = 50000000       # ns after which the active side looks again at one that is held and not active


cdef bint is_whole(Loop loop) noexcept:
    """The rule."""
    return loop.polling or loop.current is not None


cdef bint is_between_requests(Connection connection, Listener source) noexcept:
    return (
        connection.listener is source and connection.exchange is None
        and (connection.phase == READING or connection.phase == GREETING)
        and not connection.closing and not connection.stream.stalled and not connection.stream.gone
        and (connection.stream.layer == NULL or not (<TlsLayer> connection.stream.layer).at_work))


cdef void hand_over(Buffer* buffer, Buffers old, Buffers new) noexcept:
    if buffer.data != NULL:
        old.lent -= 1
        old.held -= buffer.room
        new.lent += 1
        new.held += buffer.room


cdef int move(Connection old, Listener source, Listener target) except -1:
    cdef Connection new = Connection()
    cdef Loop loop = target.loop
    cdef int fd = old.stream.fd
    cdef int kind = old.deadline.kind
    cdef int64_t when = old.deadline.when
    cdef FdEntry* entry = loop.fds.entry(fd)            # until here it may raise: nothing is changed yet
    cdef FdEntry* left = &source.loop.fds.entries[fd]
    source.deadlines.stop(&old.deadline)
    if left.armed:
        source.loop.poller.disarm(fd)
        left.armed = 0
    source.loop.fds.forget(fd)
    new.listener = target
    new.stream = old.stream
    new.remote_addr = old.remote_addr
    new.remote_port = old.remote_port
    new.phase = old.phase
    new.trusted = old.trusted
    new.expects_proxy_header = old.expects_proxy_header
    new.counted = old.counted                           # both listeners count in the same place
    new.kept = old.kept
    new.unread = old.unread
    hand_over(&new.stream.inbox, source.buffers, target.buffers)
    hand_over(&new.stream.out, source.buffers, target.buffers)
    memset(&old.stream, 0, sizeof(Stream))
    old.stream.fd = -1
    old.stream.gone = old.stream.ended = True
    old.phase = CLOSED
    old.counted = False
    source.connections -= 1
    target.connections += 1
    loop.fds.forget(fd)
    entry.watcher = <PyObject*> new
    Py_INCREF(new)                                      # given back by close()
    try:
        if kind != NO_DEADLINE:
            target.deadlines.go_on(&new.deadline, kind, when, new)
        if kind == NO_DEADLINE or has_input(&new.stream):
            loop.push(new)
        else:
            new.listen(loop, READ)                      # tells of bytes that are there already, too
    except BaseException:
        new.close(loop, False)
        raise
    finally:
        source.heads.forget(fd)                         # last, because that may run a finaliser
        Py_DECREF(old)                                  # the reference of being open
    return target.flusher.add(new) if has_unsent(&new.stream) else 0    # may send now, and close it


cdef int add_ready(Loop loop, list found, int most) except -1:
    """Connections of which the loop has an event, or would have one if it polled. It still gets it: what is
    asked for here is armed anew."""
    cdef PollEvent events[READY_AT_ONCE]
    cdef PollEvent* event
    cdef FdEntry* entry
    cdef int i, n, _
    for i in range(loop.event_pos, loop.event_count):
        add_watcher(loop, loop.events[i].fd, found)
    if loop.polling:
        return 0                                        # it looks itself
    for _ in range(most // READY_AT_ONCE + 1):
        n = loop.poller.wait(events, READY_AT_ONCE, 0)
        for i in range(n):
            event = &events[i]
            entry = loop.fds.entry(event.fd)
            if entry.gen == event.gen and entry.armed:
                loop.poller.arm(event.fd, entry.gen, entry.armed)
                add_watcher(loop, event.fd, found)
        if n < READY_AT_ONCE:
            break
    loop.poller.wake()                                  # or it would miss what woke it
    return 0


cdef int add_watcher(Loop loop, int fd, list found) except -1:
    cdef PyObject* watcher = loop.fds.entry(fd).watcher
    if watcher != NULL and type(<object> watcher) is Connection:
        found.append(<object> watcher)
    return 0


def take(Listener source not None, Listener target not None, int most = 0) -> int:
    """Moves the connections between two requests from one listener to another of the same socket, in whose
    thread it is called. `most`: of those, the ones of which bytes have come, then those whose times began
    last; 0 for all. Returns how many it has moved; -1 if that cannot be done now.

    Fact: the kernel takes 5 to 10 us to take a descriptor out of one epoll and into another. Danger: with
    10,000 idle connections nobody would be served for 100 ms. Decision: the caller moves some, and serves
    them before it moves more (tests/server/test_standby.py)."""
    cdef list found = [], idle = []
    cdef Loop loop = source.loop
    cdef Connection connection
    cdef DeadlineNode* node
    cdef int kind, fd, moved = 0
    if not is_whole(loop):
        return -1
    if most:
        add_ready(loop, found, most)
    for kind in (HEAD_DEADLINE, GREETING_DEADLINE, IDLE_DEADLINE):
        node = source.deadlines.last(kind)
        while node != NULL and not (most and len(idle) >= most):
            idle.append(<object> node.place.owner)
            node = <DeadlineNode*> node.place.before
    for fd in range(loop.fds.capacity):                 # those that wait for a turn have none
        if loop.fds.entries[fd].watcher != NULL:
            watcher = <object> loop.fds.entries[fd].watcher
            if type(watcher) is Connection and (<Connection> watcher).deadline.kind == NO_DEADLINE:
                found.append(watcher)
    if not most:
        idle.reverse()                                  # each goes to the end of its list then
    found += idle
    for connection in found:
        if not is_whole(loop) or most and moved == most:
            break
        if is_between_requests(connection, source):
            move(connection, source, target)
            moved += 1
    return moved


def bring(Connection connection not None, Listener target not None) -> bool:
    """As take(), for one that waits because the application of its own listener cannot answer it. False: it
    cannot be moved yet."""
    cdef Listener source = connection.listener
    if connection.phase == CLOSED:                      # or it has moved already
        return True
    if not is_whole(source.loop) or not is_between_requests(connection, source):
        return False
    return move(connection, source, target) == 0


def join(Listener first not None, Listener other not None) -> None:
    """The two listen on one socket, in different threads: their limits are one account."""
    if first.siblings is None:
        first.siblings, first.admission.siblings = [first], [first.admission]
    first.siblings.append(other)
    first.admission.siblings.append(other.admission)
    other.siblings, other.admission.siblings = first.siblings, first.admission.siblings
    other.clients = first.clients
    other.counters = first.counters
    other.quota = first.quota


def offer(Listener listener not None) -> None:
    """What others of its account have given up may be had here, in its own thread."""
    listener.admission.offer()
    if listener.starved:
        listener.offer_room()


cdef class Watch:
    """Watch(held): looks at the loops of several threads; `held`: seconds after which a loop that does not
    come back to its poll is held."""

    def __init__(self, double held):
        self.kept = []
        self.held_ns = <int64_t> (held * 1e9)

    def add(self, Loop loop not None, list listeners not None, int line) -> None:
        """Another side; `line` is a descriptor to which a byte is written when the thread should look."""
        cdef Side* side = &self.sides[self.count]
        cdef Listener listener
        cdef int i = 0
        if self.count == SIDES or len(listeners) > SOCKETS:
            raise ValueError(f"at most {SIDES} threads can serve at most {SOCKETS} sockets together")
        self.kept.append((loop, listeners))
        side.polling = <const int*> &loop.polling
        side.polled_at = &loop.clock.polled_at
        for listener in listeners:
            side.connections[i] = &listener.connections
            side.requests[i] = &listener.requests
            i += 1
        side.line = line
        self.sockets = i
        self.count += 1

    @property
    def active(self) -> int:
        """The side that accepts connections."""
        return self.active_side

    @active.setter
    def active(self, int number):
        self.active_side = number

    def run(self) -> None:
        """Looks until end() is called."""
        cdef timespec pause
        cdef int64_t ns
        with nogil:
            while not self.ended:
                ns = self.look()
                pause.tv_sec = ns // 1000000000
                pause.tv_nsec = ns % 1000000000
                nanosleep(&pause, NULL)

    def end(self) -> None:
        self.ended = True

    cdef int64_t look(self) noexcept nogil:
        """Tells a side if another is held. Returns after how many ns to look again."""
        cdef int64_t now = monotonic_ns(), left, pause = min(self.held_ns, <int64_t> SELDOM)
        cdef long long requests
        cdef Py_ssize_t connections
        cdef Side* side
        cdef int number, i, taker
        for number in range(self.count):
            side = &self.sides[number]
            requests = connections = 0
            for i in range(self.sockets):
                requests += side.requests[i][0]
                connections += side.connections[i][0]
            left = side.polled_at[0] + self.held_ns - now
            if side.polling[0] or (number != self.active_side and connections == 0):
                left = self.held_ns
            elif left <= 0:
                left = AGAIN if number == self.active_side else <int64_t> SELDOM
                taker = self.taker_for(number)
                if taker >= 0 and side.seen == requests and now - side.told >= left:
                    side.told = now
                    os_write(self.sides[taker].line, b"x", 1)
            side.seen = requests
            pause = min(pause, left)
        return max(pause, <int64_t> AGAIN // 2)

    cdef int taker_for(self, int held) noexcept nogil:
        """The active side if another is held; else the next one that is not; -1 if there is none."""
        cdef int _, number = held
        if held != self.active_side:
            return self.active_side
        for _ in range(self.count - 1):
            number = (number + 1) % self.count
            if self.sides[number].polling[0]:
                return number
        return -1
