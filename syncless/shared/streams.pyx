"""HeldStream: a response that goes on after its request. Streams: those of one loop, by topic. A WebSocket is
one, too: see streams/socket.pxi.

A held stream is the Session of its connection, and has no tasklet. The hub of its loop tells Streams of new
messages; the event or frame of a message is made once, and put into the connections of all streams that hold
its topic. It is sent as all responses are, at the end of the turn. Events that a client does not take wait
with its connection, up to Limits.event_bytes. hold.py has the API.

Sending may run others (TLS, finalisers). So streams that come or go meanwhile are met by a cursor that stands
in the list; and messages that come meanwhile wait in a queue, so that each stream gets them in their order.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
cimport cython
from libc.stdint cimport uint64_t

from syncless._core.linked cimport LinkedList, Node, append, insert_behind, remove
from syncless._core.loop cimport Loop, Watcher
from syncless._core.poll.poller cimport READ
from syncless._core.tasklet cimport Tasklet
from syncless._core.threadloop cimport get_loop
from syncless.http.connection cimport ALL_FOR_NOW, CARRYING, THE_LAST, Connection, Discarded, discard
from syncless.http.exchange cimport Exchange, Session, Upgrade
from syncless.http.listener cimport AT_EVENT_BYTES, BEAT_DEADLINE, Listener
from syncless.http.stream cimport Stream, has_unsent, read_now, unsent
from syncless.http.websocket.frames cimport BINARY, CLOSE, PING, PONG, TEXT, Frames, head_of
from syncless.http.wire.wire cimport REPLY_CHUNK, REPLY_LAST_CHUNK, put_chunk_line

from bisect import bisect_left
from collections import deque

from syncless._core.exits import TaskletExit
from syncless._core.tasklet import spawn
from syncless.http.running import limits
from syncless.http.websocket.frames import Broken
from syncless.http.websocket.websocket import STOPS, WebSocket, WebSocketClosed
from syncless.shared.content import BYTES, LAGGED, encode

cdef enum:
    RUN = 32768             # bytes of messages of one topic, from which on others get a chunk of their own

cdef bytes BEAT = b":\n\n"

cdef struct Link:           # a stream that holds a topic
    Node place              # in the topic's list
    PyObject* topic         # owned


cdef bytes chunk_of(bytes data):
    cdef char line[REPLY_CHUNK]
    cdef size_t size = put_chunk_line(line, PyBytes_GET_SIZE(data))
    return line[:size] + data + b"\r\n"


cdef bytes frame_of(library, form, bytes data):
    return head_of(library, BINARY if form == BYTES else TEXT, False, PyBytes_GET_SIZE(data)) + data


def websocket_of(Exchange request not None):
    """Return the WebSocket for which the client of a request asks, or None."""
    cdef Upgrade upgrade = request.handler
    if upgrade is None or request.upgraded or upgrade.untaken is not None:      # no library
        return None
    return WebSocket(upgrade, request.request, limits())


@cython.final
@cython.no_gc
cdef class Topic:
    cdef LinkedList streams     # that hold it
    cdef bytes name
    cdef object pattern         # None: the name is that of one topic


@cython.final
cdef class Run:
    """Messages of one topic that came one after the other, as bytes for all streams that hold it."""
    cdef bytes topic
    cdef list topics            # Topics that match it
    cdef list places            # of the messages in the ring
    cdef list messages          # (number, topic, form, data); how many, if they are lost
    cdef Py_ssize_t size        # bytes
    cdef bint has_gap
    cdef object event_of
    cdef bytes events, chunk, framed    # all of them, once a stream needs them so

    cdef int add(self, place, message) except -1:
        self.places.append(place)
        self.messages.append(message)
        if isinstance(message, int):
            self.has_gap = True
        else:
            self.size += PyBytes_GET_SIZE(message[3])
        return 0

    cdef Py_ssize_t had_by(self, HeldStream stream) except -1:
        """Return how many of them the stream has had. Now it gets the others."""
        cdef uint64_t at = stream.at, last = self.places[PyList_GET_SIZE(self.places) - 1]
        if at > last:
            return PyList_GET_SIZE(self.places)
        stream.at = last + 1
        return bisect_left(self.places, at)

    cdef bytes as_events(self, Py_ssize_t had, bint chunked):
        """Return those after the first `had` ones, as a chunk (RFC 9112, 7.1) or without."""
        if had:
            rest = b"".join([self.event_of(message) for message in self.messages[had:]])
            return chunk_of(rest) if chunked else rest
        if self.events is None:
            self.events = b"".join([self.event_of(message) for message in self.messages])
            self.chunk = chunk_of(self.events)
        return self.chunk if chunked else self.events

    cdef bytes frames(self, library, Py_ssize_t had):
        """Return them as frames of a WebSocket."""
        if had:
            return b"".join([frame_of(library, form, data) for _, _, form, data in self.messages[had:]])
        if self.framed is None:
            self.framed = b"".join([frame_of(library, form, data) for _, _, form, data in self.messages])
        return self.framed


@cython.no_gc
cdef class HeldStream(Session):
    """HeldStream(begin): `begin(self)` is called when the request has ended, and makes it join Streams."""
    cdef Streams streams        # None: it has not joined, or has left
    cdef Connection connection  # None: it has not begun, or is lost
    cdef object opening         # begin, until then
    cdef Link* links
    cdef int link_count
    cdef bint chunked
    cdef uint64_t at            # the place in the ring from which on messages are for it

    def __init__(self, begin):
        self.opening = begin
        self.quiet = True

    def __dealloc__(self):
        PyMem_Free(self.links)

    cdef int take_over(self, Watcher connection, bint chunked) except -1:
        cdef Listener listener
        self.connection = <Connection> connection
        self.chunked = chunked
        listener = self.connection.listener
        listener.held_streams += 1
        listener.deadlines.start(&self.connection.deadline, BEAT_DEADLINE, connection)
        begin, self.opening = self.opening, None
        begin(self)
        return 0

    cdef int live(self, Loop loop) except -1:
        """The client has sent something, which is thrown away, or has left."""
        cdef Connection connection = self.connection
        cdef Discarded outcome
        if self.over or connection is None:
            return 0
        outcome = discard(&connection.stream, &connection.linger, connection.listener.limits.linger_bytes)
        if outcome == ALL_FOR_NOW:
            return connection.listen(loop, READ)
        return connection.close(loop, False) if outcome == THE_LAST else loop.push(connection)

    cdef int sent_all(self, Loop loop) except -1:
        cdef Connection connection = self.connection
        if connection is not None and connection.deadline.kind != BEAT_DEADLINE:
            connection.listener.deadlines.start(&connection.deadline, BEAT_DEADLINE, connection)
        return 0

    cdef int expired(self, Loop loop) except -1:
        """A comment shows the client, and proxies, that the stream lives; and us that the client does."""
        cdef Connection connection = self.connection
        self.put(chunk_of(BEAT) if self.chunked else BEAT)
        return self.sent_all(loop) if connection is not None and connection.phase == CARRYING else 0

    cdef int lost(self, Loop loop) except -1:
        cdef Connection connection = self.connection
        cdef Streams streams = self.streams
        self.connection = None
        self.over = True
        if connection is None:
            return 0
        connection.listener.held_streams -= 1
        return 0 if streams is None else streams.leave(self)

    cdef int tell_stop(self, bint at_last) except -1:
        return self.finish()

    cdef int interrupt(self, Loop loop) except -1:
        cdef Connection connection = self.connection
        return 0 if connection is None else connection.close(loop, True)

    cdef int finish(self) except -1:
        """End the response in order."""
        cdef Connection connection = self.connection
        if self.over or connection is None:
            return 0
        if self.chunked:
            connection.listener.buffers.append(&connection.stream.out, REPLY_LAST_CHUNK, 5)
        self.over = True
        return connection.listener.loop.push(connection)

    def end(self) -> None:
        """End the response in order."""
        self.finish()

    cdef int give(self, Run run, Py_ssize_t had) except -1:
        """Send the messages after the first `had` ones."""
        return self.put(run.as_events(had, self.chunked))

    cdef int put(self, bytes data) except -1:
        """Send bytes, framed already. A client that has not taken too many of them loses its connection."""
        cdef Connection connection = self.connection
        cdef Listener listener
        cdef Stream* stream
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        if self.over or connection is None:
            return 0
        listener = connection.listener
        stream = &connection.stream
        if has_unsent(stream) and <Py_ssize_t> unsent(stream) + size > listener.limits.event_bytes:
            if not stream.stalled:
                connection.flush(listener.loop)         # others may run
            if self.over or connection.phase != CARRYING:
                return 0
            if has_unsent(stream) and <Py_ssize_t> unsent(stream) + size > listener.limits.event_bytes:
                listener.held_dropped += 1
                listener.reached.note(AT_EVENT_BYTES, True)
                return connection.close(listener.loop, True)
        listener.buffers.append(&stream.out, PyBytes_AS_STRING(data), size)
        return 0 if stream.stalled else listener.flusher.add(connection)


include "streams/socket.pxi"


cdef class Streams:
    """Streams(read, event_of, emptied): `read(place)` gives a message of the ring or None, `event_of` the
    event of a message, or of a number of messages that are lost. `emptied()` is called when the last stream
    has left."""
    cdef Loop loop
    cdef Calls calls            # of the functions of WebSockets
    cdef object read, event_of, emptied
    cdef dict topics            # name -> Topic
    cdef dict patterns
    cdef Py_ssize_t count       # of streams
    cdef object waiting         # (found, lost) to be passed on
    cdef bint busy              # passing on
    cdef uint64_t delivered     # the place behind the last message
    cdef Node cursor            # stands in a list while that is gone through

    def __init__(self, read, event_of, emptied):
        self.loop = get_loop()
        self.calls = Calls()
        self.read, self.event_of, self.emptied = read, event_of, emptied
        self.topics, self.patterns = {}, {}
        self.waiting = deque()

    def __len__(self) -> int:
        return self.count

    def join(self, HeldStream stream not None, names, uint64_t head, list opening) -> bool:
        """The stream sends the messages `opening` and then those from the place `head` on. `names`: (topic,
        None or its pattern). Return False if a message behind `head` has been passed on already."""
        cdef int i = 0
        cdef Link* links
        cdef Topic topic
        cdef Run run
        cdef list topics = [self.topic_of(name, pattern) for name, pattern in names]
        if stream.over or stream.connection is None:
            return True
        if self.delivered > head:
            return False
        links = <Link*> PyMem_Malloc(PyList_GET_SIZE(topics) * sizeof(Link))
        if links == NULL:
            raise MemoryError
        for topic in topics:
            Py_INCREF(topic)
            links[i].topic = <PyObject*> topic
            links[i].place.owner = NULL
            append(&topic.streams, &links[i].place, <PyObject*> stream)
            i += 1
        stream.links, stream.link_count = links, i
        stream.streams, stream.at = self, head
        self.count += 1
        if opening:
            run = self.begin_run(None, topics)
            for message in opening:
                run.add(0, message)
            stream.give(run, 0)
        return True

    cdef Topic topic_of(self, bytes name, pattern):
        cdef dict topics = self.topics if pattern is None else self.patterns
        cdef Topic topic = topics.get(name)
        if topic is None:
            topic = topics[name] = Topic()
            topic.name, topic.pattern = name, pattern
        return topic

    cdef int leave(self, HeldStream stream) except -1:
        cdef Link* links = stream.links
        cdef int i
        stream.links, stream.streams = NULL, None
        self.count -= 1
        for i in range(stream.link_count):
            topic = <Topic> links[i].topic
            remove(&topic.streams, &links[i].place)
            self.drop_unused(topic)
            Py_DECREF(topic)
        PyMem_Free(links)
        if self.count == 0:
            self.emptied()
        return 0

    cdef int drop_unused(self, Topic topic) except -1:
        cdef dict topics = self.topics if topic.pattern is None else self.patterns
        if topic.streams.first == NULL and topics.get(topic.name) is topic:
            del topics[topic.name]
        return 0

    # -- messages --------------------------------------------------------------------------------------------

    def deliver(self, list found not None, uint64_t lost) -> None:
        """Pass on the messages [(topic, place), ...], before which `lost` ones were overwritten unread."""
        self.delivered = found[PyList_GET_SIZE(found) - 1][1] + 1
        self.waiting.append((found, lost))
        if self.busy:
            return
        self.busy = True
        try:
            while self.waiting:
                found, lost = self.waiting.popleft()
                self.pass_on(found, lost)
        finally:
            self.busy = False

    cdef int pass_on(self, list found, uint64_t lost) except -1:
        cdef Run run = None
        if lost:
            run = self.begin_run(None, list(self.topics.values()) + list(self.patterns.values()))
            run.add(found[0][1] - 1, lost)
            self.tell(run)
            run = None
        for topic, place in found:
            if run is None or run.topic != topic or run.size > RUN:
                self.tell(run)
                run = self.begin_run(topic, self.topics_of(topic))
            if run.topics:
                message = self.read(place)
                run.add(place, 1 if message is None else message)
        return self.tell(run)

    cdef list topics_of(self, bytes name):
        """Return the Topics that match a name. Our own topics, which begin so, have no streams."""
        cdef Topic topic = self.topics.get(name)
        found = [] if topic is None else [topic]
        if self.patterns and not name.startswith(b"\xff"):
            found += [topic for topic in self.patterns.values() if topic.pattern.fullmatch(name)]
        return found

    cdef Run begin_run(self, bytes topic, list topics):
        cdef Run run = Run()
        run.topic, run.topics, run.places, run.messages = topic, topics, [], []
        run.event_of = self.event_of
        return run

    cdef int tell(self, Run run) except -1:
        """Give the run to all streams of its topics."""
        cdef Topic topic
        if run is None or PyList_GET_SIZE(run.places) == 0:
            return 0
        for topic in run.topics:
            self.tell_topic(topic, run)
        return 0

    cdef int tell_topic(self, Topic topic, Run run) except -1:
        cdef Node* node = topic.streams.first
        cdef HeldStream stream
        while node != NULL:
            insert_behind(&topic.streams, node, &self.cursor, <PyObject*> None)
            stream = <HeldStream> node.owner
            try:
                had = run.had_by(stream)
                if had < PyList_GET_SIZE(run.places):
                    stream.give(run, had)
            except BaseException as error:
                self.loop.report("a held stream", error)
            node = self.cursor.after
            remove(&topic.streams, &self.cursor)
        return self.drop_unused(topic)

    def end(self) -> None:
        """End all streams in order."""
        cdef Topic topic
        cdef Node* node
        cdef HeldStream stream
        streams = []
        for topic in list(self.topics.values()) + list(self.patterns.values()):
            node = topic.streams.first
            while node != NULL:
                if node.owner != <PyObject*> None:
                    streams.append(<object> node.owner)
                node = node.after
        for stream in streams:
            stream.finish()
