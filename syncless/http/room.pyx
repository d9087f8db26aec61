"""Which connections are closed for others, or because the server stops.

Takes a Listener, whose lists of deadlines have its connections in the order in which their times began.
"""

from syncless._core.loop cimport Loop
from syncless._core.threadloop cimport get_loop
from syncless.http.connection cimport Connection
from syncless.http.deadlines cimport (
    GREETING_DEADLINE, HEAD_DEADLINE, IDLE_DEADLINE, LINGER_DEADLINE, NO_DEADLINE, DeadlineNode, Deadlines,
    next_of,
)
from syncless.http.listener cimport Listener
from syncless.http.phases cimport GREETING, READING, RUNNING
from syncless.http.stream cimport has_unsent
from syncless.http.wire cimport ASKED, JUST_COME_NS

from syncless._core.exits import TaskletExit


cdef bint make_room(Listener listener) except -1:
    """Closes a connection for another one: one that has had its last answer and goes on sending, else the one
    that has been idle for longest, else the oldest that has not sent a whole head. Returns whether there was
    one."""
    cdef Deadlines deadlines = listener.deadlines
    cdef DeadlineNode* head = deadlines.first(HEAD_DEADLINE)
    cdef DeadlineNode* greeting = deadlines.first(GREETING_DEADLINE)
    cdef DeadlineNode* lingering = deadlines.first(LINGER_DEADLINE)
    if lingering != NULL:
        (<Connection> lingering.place.owner).close(listener.loop, False)
        return True
    if close_oldest(listener, IDLE_DEADLINE):
        return True
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
                and connection.close_idle(listener.loop):
            return True
    return False


def close_connections(Listener listener not None, bint all_of_them) -> int:
    """The server stops. A connection between requests closes, unless its next request has come or its first
    may be on its way. `all_of_them`: all others close, too, and requests that run are interrupted. Returns
    how many are closed or interrupted."""
    cdef Loop loop = listener.loop
    cdef Connection connection
    cdef int closed = 0
    for watcher in loop.fds.watchers():
        if not isinstance(watcher, Connection) or (<Connection> watcher).listener is not listener:
            continue
        connection = <Connection> watcher
        if not all_of_them:
            closed += is_idle(connection) and not just_came(connection) and connection.close_idle(loop)
            continue
        if connection.phase == RUNNING:
            loop.throw(connection.exchange, TaskletExit())
        else:
            connection.close(loop, True)
        closed += 1
    return closed


def tell_streams(list listeners not None, bint all_of_them) -> None:
    """The server stops: each request that goes on for ever is told, also one that has begun meanwhile.
    `all_of_them`: those that may have an end, too, for which there is no time left."""
    for watcher in get_loop().fds.watchers():
        if isinstance(watcher, Connection) and (<Connection> watcher).listener in listeners:
            connection = <Connection> watcher
            if connection.phase == RUNNING:
                connection.exchange.tell_stop(all_of_them)


cdef bint is_idle(Connection connection) noexcept:
    """Whether all is answered and sent, and nothing has come."""
    return connection.phase == GREETING or (
        connection.phase == READING and connection.stream.inbox.size == 0
        and not has_unsent(&connection.stream))


cdef bint just_came(Connection connection) noexcept:
    """Whether it is so new that its first request may be on its way."""
    cdef Listener listener = connection.listener
    if connection.kept or connection.deadline.kind == NO_DEADLINE:
        return False
    return listener.loop.clock.now - listener.deadlines.began(&connection.deadline) < JUST_COME_NS
