"""The server stops: which connections close when, and which are told."""


cdef list connections_of(Listener listener):
    return [
        watcher for watcher in listener.loop.fds.watchers()
        if isinstance(watcher, Connection) and (<Connection> watcher).listener is listener]


def close_connections(Listener listener not None, bint all_of_them) -> int:
    """The server stops. A connection between requests closes, unless its next request has come or its first
    may be on its way; so does one that has sent a part of a head. `all_of_them`: all others close, too, and
    requests that run are interrupted. Return how many are closed or interrupted."""
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
    """The server has stopped: no connection waits any longer for a client that has not taken its last
    response, or goes on sending. Running requests are left alone."""
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
    """Return whether all is answered and sent, and nothing has come."""
    return connection.phase == GREETING or (
        connection.phase == READING and connection.stream.inbox.size == 0
        and not has_unsent(&connection.stream))


cdef bint just_came(Connection connection) noexcept:
    """Return whether it is so new that its first request may be on its way."""
    return not connection.kept and connection.deadline.kind != NO_DEADLINE and is_new(connection)


cdef bint is_new(Connection connection) noexcept:
    """Return whether its deadline has been started just now."""
    cdef Listener listener = connection.listener
    return listener.loop.clock.now - listener.deadlines.began(&connection.deadline) < JUST_COME_NS
