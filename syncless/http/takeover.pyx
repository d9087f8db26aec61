"""Taking over: when a thread is held, another one that stands by takes its connections between two requests.

A kept-alive connection between two requests has no tasklet and no C stack: it is a descriptor, its buffers
and a deadline. So it can go on in another thread's loop: out of one epoll and into the other, its deadline
with the end that it had. A request that is running stays where it is.

The rule: only while the other loop sleeps in its poll, or runs a tasklet of an application. Its tables are
whole then, because a tasklet may switch to any other at each of its calls, too. Danger: while the loop's own
code runs Python (a callback for a trusted proxy, a finaliser, a hook), a connection may be READING with its
bytes borrowed, and its request would be lost. Bytes that OpenSSL works on are no less borrowed. Guarded by
tests/wsgi/test_standby.py. The interpreter's lock makes a move one step: the code between two looks at the
rule runs no Python.

The Connection that was there stays behind CLOSED: all references to it that its loop has (in the ready queue,
the flusher, the events of the last poll) do nothing any more, as after any close.

Watch looks from a thread of its own, which never has the interpreter's lock while it does: at a loop that
sleeps each time that it could have become held since, at others when that is. It costs nothing to those that
it looks at. A loop with much to do is not held: requests begin there from look to look.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t
from libc.string cimport memset
from posix.time cimport nanosleep, timespec
from posix.unistd cimport write as os_write

from syncless._core.clock cimport monotonic_ns
from syncless._core.loop cimport FdEntry, Loop
from syncless._core.poll.poller cimport READ
from syncless.http.connection cimport CLOSED, GREETING, READING, Connection
from syncless.http.listener cimport (
    GREETING_DEADLINE, HEAD_DEADLINE, IDLE_DEADLINE, NO_DEADLINE, DeadlineNode, Listener, next_of,
)
from syncless.http.stream cimport Buffer, Buffers, Stream, TlsLayer, has_input, has_unsent

cdef enum:
    AGAIN = 2500000         # ns between two looks at a loop that is held, or may be


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
        if has_unsent(&new.stream):
            target.flusher.add(new)
        if kind == NO_DEADLINE or has_input(&new.stream):
            loop.push(new)
        else:
            loop.fds.arm(fd, READ)                      # tells of bytes that are there already, too
    except BaseException:
        new.close(loop, False)
        raise
    finally:
        source.heads.forget(fd)                         # last, because that may run a finaliser
        Py_DECREF(old)                                  # the reference of being open
    return 0


def take(Listener source not None, Listener target not None) -> int:
    """Moves the connections between two requests from one listener to another of the same socket, in whose
    thread it is called. Returns how many it has moved; -1 if that cannot be done now."""
    cdef list found = []
    cdef Loop loop = source.loop
    cdef Connection connection
    cdef DeadlineNode* node
    cdef int kind, fd, moved = 0
    if not is_whole(loop):
        return -1
    for kind in (IDLE_DEADLINE, HEAD_DEADLINE, GREETING_DEADLINE):
        node = source.deadlines.first(kind)
        while node != NULL:
            found.append(<object> node.place.owner)
            node = next_of(node)
    for fd in range(loop.fds.capacity):                 # those that wait for a turn have none
        if loop.fds.entries[fd].watcher != NULL:
            watcher = <object> loop.fds.entries[fd].watcher
            if type(watcher) is Connection and (<Connection> watcher).deadline.kind == NO_DEADLINE:
                found.append(watcher)
    for connection in found:
        if not is_whole(loop):
            break
        if is_between_requests(connection, source):
            move(connection, source, target)
            moved += 1
    return moved


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
        cdef int64_t now = monotonic_ns(), left, pause = self.held_ns
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
                left = AGAIN
                if side.seen == requests:
                    taker = self.taker_for(number)
                    if taker >= 0:
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
