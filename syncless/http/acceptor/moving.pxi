"""Moving connections between requests from the loop of a thread that is held to that of one that stands by.

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
"""

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
    new.remote_addr = old.remote_addr
    memcpy(&new.stream, &old.stream, <char*> (&old.unread + 1) - <char*> &old.stream)
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
        (<Application> source.application).let_go(fd)
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
    """Move the connections between two requests from one listener to another of the same socket, in whose
    thread it is called. `most`: of those, the ones of which bytes have come, then those whose times began
    last; 0 for all. Return how many it has moved; -1 if that cannot be done now.

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
    other.admission.rule = first.admission.rule
    other.clients = first.clients
    other.counters = first.counters
    other.quota = first.quota


def offer(Listener listener not None) -> None:
    """Offer the connections that others of its account gave up, in its own thread."""
    listener.admission.offer()
    if listener.starved:
        listener.offer_room()
