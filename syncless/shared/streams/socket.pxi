"""HeldSocket: a WebSocket that goes on after its request.

It has no tasklet while its client is silent, and no memory for frames. Each message of the client is a call
in a tasklet of its own, one at a time: what comes meanwhile is left to the operating system, so that a client
cannot be faster than its calls. Nothing is compressed: a window for each would take more than all else, and
what is published could not be the same bytes for all.
"""

cdef enum:
    PIECES = 16             # that are read in a turn


@cython.final
@cython.no_gc
cdef class HeldSocket(HeldStream):
    """HeldSocket(begin, on_message, library): `begin` as that of HeldStream; `on_message(message, self)` is
    called for each message of the client, or is None. `library`: for frames."""
    cdef object on_message
    cdef object library
    cdef Frames frames          # None: nothing has come that is not used up
    cdef Tasklet call           # for the client's last message, once it has begun
    cdef bint calling           # or waits for its turn
    cdef bint interrupted       # a call that has not begun does nothing
    cdef bint pinged            # the client has shown no life since then
    cdef bint leaving           # a close frame has been sent

    def __init__(self, begin, on_message, library):
        self.opening = begin
        self.on_message = on_message
        self.library = library

    cdef int take_over(self, Watcher connection, bint chunked) except -1:
        return HeldStream.take_over(self, connection, False)

    # -- what is sent ----------------------------------------------------------------------------------------

    def send(self, message) -> None:
        """Send a message, of the types that publish() takes."""
        cdef Connection connection = self.connection
        if connection is None or self.leaving:
            raise WebSocketClosed("the WebSocket is closed")
        self.check_thread()
        form, data = encode(message, limits().shared_message_bytes, "shared_message_bytes")
        self.put(frame_of(self.library, form, data))
        if self.connection is None:
            raise WebSocketClosed("the client has left, or is too slow")

    def close(self, code=1000, reason="") -> None:
        """Send a close frame. Do nothing if the WebSocket is closed."""
        if self.connection is not None:
            self.check_thread()
            self.leave(code, reason)

    cdef int check_thread(self) except -1:
        if get_loop() is not self.connection.listener.loop:
            raise RuntimeError("another thread holds this WebSocket: publish a message instead")

    @property
    def closed(self) -> bool:
        return self.connection is None or self.leaving

    @property
    def remote_addr(self) -> str | None:
        return None if self.connection is None else self.connection.remote_addr or None

    cdef int give(self, Run run, Py_ssize_t had) except -1:
        if run.has_gap:
            return self.leave(LAGGED[0], LAGGED[1])          # there is no other way to tell
        return self.put(run.frames(self.library, had))

    cdef int put(self, bytes data) except -1:
        return 0 if self.leaving else HeldStream.put(self, data)

    cdef int expired(self, Loop loop) except -1:
        cdef Connection connection = self.connection
        if self.pinged and not self.calling and not self.leaving:
            return connection.close(loop, False)
        self.pinged = True
        self.put(head_of(self.library, PING, False, 0))
        return self.sent_all(loop) if connection is not None and connection.phase == CARRYING else 0

    cdef int leave(self, object code, str reason) except -1:
        """Send a close frame. When the call at hand has ended, the connection does."""
        cdef Frames frames = Frames(self.library)
        if self.leaving or self.over:
            return 0
        return self.part(frames.control(CLOSE, frames.close_data(code, reason)))

    cdef int part(self, bytes last) except -1:
        """Send a last frame."""
        self.put(last)
        self.leaving = True
        return 0 if self.calling else self.finish()

    cdef int finish(self) except -1:
        """As HeldStream's."""
        if not self.leaving:
            return self.leave(STOPS[0], STOPS[1])
        return 0 if self.calling else HeldStream.finish(self)

    # -- what comes ------------------------------------------------------------------------------------------

    cdef int live(self, Loop loop) except -1:
        cdef Connection connection = self.connection
        cdef int left = PIECES
        cdef bytes data
        try:
            while not (self.over or self.leaving or self.calling):
                if self.frames is not None and self.meet_frame():
                    continue
                if left == 0:
                    return loop.push(connection)
                left -= 1
                data = read_now(&connection.stream, connection.listener.buffers)
                if data is None:
                    return connection.listen(loop, READ)
                if not data:
                    return connection.close(loop, False)
                self.pinged = False
                if self.frames is None:
                    self.frames = Frames(self.library)
                self.frames.feed(data)
        except Broken as error:
            self.frames = None
            return self.leave(error.code, str(error))
        return 0

    cdef bint meet_frame(self) except -1:
        """Return whether there was a whole frame. Broken."""
        cdef Frames frames = self.frames
        cdef Connection connection = self.connection
        cdef Streams streams = self.streams
        cdef Calls calls
        if not frames.next(connection.listener.limits.websocket_bytes - frames.size):
            if frames.is_empty():
                self.frames = None
            else:
                frames.look_ahead()
            return False
        if frames.opcode == CLOSE:
            frames.read_close()
            self.quiet = True
            self.part(frames.control(CLOSE, frames.payload))
        elif frames.opcode == PING:
            self.put(frames.control(PONG, frames.payload))
        elif frames.opcode != PONG:
            message = frames.part(frames.opcode, frames.payload, frames.last)
            if message is not None and self.on_message is not None:     # else the client may have left
                calls = streams.calls
                calls.begin(self, connection.listener, message)
        return True

    cdef int called(self) except -1:
        """The call for its last message has ended."""
        cdef Connection connection = self.connection
        self.call, self.calling = None, False
        if connection is None:
            return 0
        return self.finish() if self.leaving else connection.listener.loop.push(connection)

    cdef int lost(self, Loop loop) except -1:
        self.on_message = self.frames = None    # which may refer to this
        return HeldStream.lost(self, loop)

    cdef int interrupt(self, Loop loop) except -1:
        self.interrupted = True
        if self.call is not None:
            loop.throw(self.call, TaskletExit())
        return HeldStream.interrupt(self, loop)


@cython.final
cdef class Calls:
    """The calls for messages of clients of one loop. As many run as requests may, the others wait in their
    order."""
    cdef Py_ssize_t running
    cdef object waiting         # (socket, listener, message)

    def __cinit__(self):
        self.waiting = deque()

    cdef int begin(self, HeldSocket socket, Listener listener, message) except -1:
        cdef Py_ssize_t most = listener.admission.most_active
        socket.calling = True
        if most and self.running >= most:
            self.waiting.append((socket, listener, message))
            return 0
        return self.run(socket, listener, message)

    cdef int run(self, HeldSocket socket, Listener listener, message) except -1:
        self.running += 1
        spawn(self.call, socket, listener, socket.on_message, message)
        return 0

    def call(self, HeldSocket socket not None, Listener listener not None, on_message, message) -> None:
        """In a tasklet of its own. The client may have left before it runs."""
        socket.call = listener.loop.current     # an exception for it before that would skip all of this
        try:
            if not socket.interrupted:
                on_message(message, socket)
        except (WebSocketClosed, TaskletExit):
            pass
        except BaseException as error:
            socket.leave(1011, "")
            if not isinstance(error, Exception):
                raise
            listener.error_log.error("Error in on_message of hold():", error)
        finally:
            self.end()
            socket.called()

    cdef int end(self) except -1:
        cdef HeldSocket socket
        self.running -= 1
        while self.waiting:
            socket, listener, message = self.waiting.popleft()
            if socket.on_message is not None:   # else the client has left
                return self.run(socket, listener, message)
        return 0
