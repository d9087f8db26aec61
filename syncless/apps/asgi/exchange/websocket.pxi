"""WebSocketExchange: the exchange of a WebSocket, whose messages are read ahead of the application.

The loop itself takes messages that come whole: hear(). For all else it wakes the request's tasklet, whose
receive() answers and waits as that of WSGI does.
"""

cdef enum:
    MOST = 32               # messages that are taken off the connection before they are asked for
    MOST_BYTES = 65536

ctypedef int (*UncheckedBegin)(WebSocketExchange request) noexcept       # negative: an exception is set
cdef UncheckedBegin unchecked_begin = <UncheckedBegin> WebSocketExchange.begin_websocket

cdef const char* SPEAKS = "ASGI application's WebSocket"


class _Ended(BaseException):
    """The application has ended: there is nothing to read for any more."""


cdef class WebSocketExchange(ASGIExchange):
    """As ASGIExchange, for one WebSocket."""

    cdef int offer(self, object limits) except -1:
        self.websocket = WebSocket(self.handler, ScopeRequest(self.scope), limits, False)
        return 0

    # -- its life --------------------------------------------------------------------------------------------

    cdef int respond(self) noexcept:
        return ASGIExchange.respond(self) if unchecked_begin(self) >= 0 else -1

    cdef int begin_websocket(self) except -1:
        """The scope becomes that of a WebSocket, if there can be one; raise ClientError. In the request's
        tasklet, because the library for frames is imported for the first one: the loop itself cannot wait
        until another tasklet has imported it."""
        cdef dict scope = self.scope
        self.websocket.check()
        self.progress = CONNECTING
        self.inbox = deque()
        self.ended = _Ended()
        del scope["method"]
        scope["type"] = "websocket"
        scope["scheme"] = "wss" if scope["scheme"] == "https" else "ws"
        scope["subprotocols"] = self.websocket.subprotocols
        tls = scope["extensions"].get("tls")
        extensions = {"websocket.http.response": {}, HOLD: {}, STOPPING: scope["extensions"][STOPPING]}
        if tls is not None:
            extensions["tls"] = tls
        scope["extensions"] = extensions
        return 0

    cdef int wait_for_answer(self) except -1:
        """Read messages until the application has ended."""
        cdef Loop engine = get_loop()
        self.task.add_done_callback(self._woken)
        try:
            while not (self.task.done() or self.response.complete):
                if self.progress == OPEN and not self.silent and self.has_room():
                    if self.listen(engine):
                        continue
                    self.reads = True
                    try:
                        self.keep(self.websocket.receive())
                    finally:
                        self.reads = False
                    continue
                if self.progress < OPEN:
                    self.listen_for_end()
                self.pause(engine, SPEAKS, NEVER)
        except BaseException as error:
            if error is not self.ended:
                self.task.cancel()
                raise
        self.take_back(self.ended)
        return 0

    def _woken(self, task):
        if self.reads:
            self.listener.loop.throw(self, self.ended)
        else:
            self.go_on()

    cdef bint has_room(self) except -1:
        """Return whether another message may be taken before it is asked for."""
        return len(self.inbox) < MOST and self.held < MOST_BYTES

    cdef bint listen(self, Loop engine) except -1:
        """Park while the loop itself can take what comes, which saves each message two switches of tasklets.
        False: receive() is needed. The bytes of TLS and of HTTP/2 come another way."""
        cdef int64_t most = self.listener.limits.ping_ns
        if engine is not self.listener.loop or self.peer.is_gone() or (
                self.peer.stream.layer != NULL or self.peer.stream.carried):
            return False
        self.heard = engine.clock.now
        if not self.hear_all():
            return not self.has_room()
        self.peer.watch_end()
        self.hears = True
        try:
            while self.heard + most > engine.clock.now:
                if self.pause(engine, SPEAKS, self.heard + most) != TIMED_OUT:
                    return True
        finally:
            self.hears = False
        self.websocket.meet_silence()
        return True

    cdef bint hear_all(self) except -1:
        """Take the messages that have come. Return whether nothing is left, and there is room for more."""
        cdef Heard found = MESSAGE
        while found == MESSAGE and self.has_room():
            found = self.websocket.hear()
            if found == MESSAGE:
                self.keep(self.websocket.taken())
        return found == NOTHING

    cdef int hear(self) except -1:
        cdef bint goes_on = False
        self.heard = self.listener.loop.clock.now
        try:
            goes_on = self.hear_all()
        finally:
            if not goes_on:                         # the tasklet has to look
                self.hears = False
                self.go_on()
        return 0

    cdef int keep(self, object message) except -1:
        """A message has come; None: the WebSocket is closed."""
        if message is None:
            self.silent = True
        else:
            self.inbox.append(message)
            self.held += len(message)
        return self.wake_receivers()

    cdef int wake_receivers(self) except -1:
        """Those that wait in receive() look again."""
        receivers, self.receivers = self.receivers, None
        for future in receivers or ():
            if not future.done():
                future.set_result(None)
        return 0

    cdef int client_left(self) except -1:
        self.disconnected = self.silent = True
        return self.wake_receivers()

    cdef int fail_unfinished(self) except -1:
        if self.upgraded or self.progress == OVER:
            return 0
        if self.left():
            raise ConnectionLost("the client has left")
        raise RuntimeError("the application returned without websocket.accept, websocket.close or a response")

    cdef int tell_stop(self, bint at_last) except -1:
        if self.progress == OPEN and not self.stops:
            self.stops = True
            spawn(self._close_for_stop)
        return 0

    def _close_for_stop(self):
        try:
            self._close(*STOPS)
        except WebSocketClosed:
            pass

    # -- receive() -------------------------------------------------------------------------------------------

    cdef object next_message(self):
        if self.progress == CONNECTING:
            self.progress = OFFERED
            return given({"type": "websocket.connect"})
        return self._hear_message()

    def _hear_message(self):
        while not self.inbox:
            if self.silent or self.progress == OVER or self.response.complete:
                self.websocket.answer_close()
                self.progress = OVER
                return {
                    "type": "websocket.disconnect",
                    "code": self.websocket.close_code or 1006,
                    "reason": self.websocket.close_reason,
                }
            future = self.dispatcher.loop.create_future()
            if self.receivers is None:
                self.receivers = []
            self.receivers.append(future)
            yield from future
        message = self.inbox.popleft()
        self.held -= len(message)
        if self.waits and not self.hears:
            self.go_on()                            # there is room for more
        if isinstance(message, str):
            return {"type": "websocket.receive", "text": message}
        return {"type": "websocket.receive", "bytes": message}

    # -- send() ----------------------------------------------------------------------------------------------

    cdef object take_message(self, object message):
        if not isinstance(message, dict):
            raise TypeError(f"a message must be a dict, not {type(message).__name__}")
        kind = (<dict> message).get("type")
        if self.peer.is_gone() and self.listener.loop.orphan is not None:
            return None                             # the child of a fork: the parent speaks
        if self.progress == OPEN and kind == "websocket.send":
            return self.send_data(<dict> message)
        if self.progress <= OPEN and kind == "websocket.close":
            return self.send_close(<dict> message)
        if self.progress <= OFFERED and kind == "websocket.accept":
            self.accept(<dict> message)
            return None
        if self.progress <= OFFERED and kind == HOLD:
            return self._hold(<dict> message)
        if (self.progress <= OFFERED and kind == "websocket.http.response.start"
                or self.progress == DENIED and kind == "websocket.http.response.body"):
            return self.deny(kind, <dict> message)
        if self.progress == OVER:
            raise WebSocketClosed("the WebSocket is closed")
        raise RuntimeError(
            f"the message {kind!r} cannot be sent here: the WebSocket "
            f"{('is not accepted', 'is not accepted', 'is open', 'is refused', 'is closed')[self.progress]}")

    cdef int accept(self, dict message) except -1:
        headers = []
        for name, value in message.get("headers") or ():
            if name.lower() == b"sec-websocket-protocol":
                raise ValueError("websocket.accept: name the subprotocol as 'subprotocol', not in a header")
            headers.append((name.decode("latin-1"), value.decode("latin-1")))
        self.websocket.accept(message.get("subprotocol"), headers)
        self.interruptible = False
        self.progress = OPEN
        return self.go_on()

    def _hold(self, dict message):
        held = message["response"]
        self.websocket.accept(message.get("subprotocol"), compression=False)
        self.interruptible = False
        self.progress = OVER                        # as the application sees it
        session = held.session(self)
        if session is None or not Exchange.hold(self, session, 0):
            self.held_here = held
            return self.later(held.converse, (self.websocket, self.request.client))
        self.response.complete = True
        self.go_on()

    cdef object send_data(self, dict message):
        cdef Py_ssize_t pending
        data = message.get("bytes")
        if data is None:
            data = message.get("text")
        if not isinstance(data, (bytes, str)):
            raise TypeError(f"websocket.send needs 'bytes' or 'text', not {type(data).__name__}")
        if self.peer.is_gone() or self.websocket.close_code is not None:
            raise WebSocketClosed("the client has left")
        pending = self.peer.pending()
        if (pending > OUT_MOST or len(data) > (OUT_MOST if pending else OUT_ALONE)
                or not self.websocket.may_frame(data)):
            return self.later(self.websocket.send, (data,))
        frame = self.websocket.framed(data)
        self.peer.append(PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))
        self.response.body_sent += PyBytes_GET_SIZE(frame)
        self.peer.send_soon()
        return None

    cdef object send_close(self, dict message):
        code = message.get("code") or 1000
        reason = message.get("reason") or ""
        if self.progress < OPEN:
            self.response.set_fields(403, [(b"content-length", b"0")])
            self.response.keep_alive = False
            self.response.end()
            self.progress = OVER
            self.go_on()
            return None
        return self.later(self._close, (code, reason))

    def _close(self, code, reason):
        self.websocket.send_close(code, reason)
        self.progress = OVER
        self.wake_receivers()

    cdef object deny(self, str kind, dict message):
        """Return the denial response."""
        if kind == "websocket.http.response.start":
            self.progress = DENIED
            self.start_response(message)
            self.response.keep_alive = False
            return None
        return self.send_body(message)
