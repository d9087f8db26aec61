"""Making room: which connection is closed for another one."""


cdef bint evict_one(Listener listener) except -1:
    """Close a connection for another one: one that has had its last response and goes on sending, else the
    one that has been idle for longest, else the oldest that has not sent a whole head. Return whether there
    was one."""
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
    """Close the first connection of a list whose last response is sent and of which nothing has come."""
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
