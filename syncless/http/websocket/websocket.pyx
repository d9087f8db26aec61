"""WebSocket: messages on a connection whose client has asked for RFC 6455.

Takes an Upgrade and the Request. Calls wait as those of tasklets do. Knows no kind of
application. Next to read: frames.pyx, which reads and writes frames.
"""

import importlib
import sys
from importlib.util import find_spec

from syncless._core.wait.sync cimport Lock
from syncless.http.exchange cimport Upgrade
from syncless.http.request cimport Request
from syncless.http.websocket.frames cimport CLOSE, PING, PONG, Frames

from syncless._core.exits import TaskletExit
from syncless._core.timeout import Timeout
from syncless.http.errors import BadRequest, BodyTimeout, ClientGone, ConnectionLost, UpgradeRequired
from syncless.http.websocket.frames import Broken
from syncless.http.wire.wire import is_field

STOPS = 1001, "the server stops"
"""Code and reason of a close frame (RFC 6455, 7.4.1)."""

CLOSE_SECONDS = 5.0
"""For which the server waits for the client's own close frame."""

NEEDED = "a client requests a WebSocket, which needs websockets: pip install 'syncless[websocket]'"


def has_library() -> bool:
    """Return whether the library for frames is installed. Call this only when a server starts, because the
    search runs third-party code."""
    return find_spec("websockets") is not None


def tell_missing(error_log) -> None:
    """A client has asked for a WebSocket and not got one, and the library is not there. An application that
    brings its own has refused."""
    if "simple_websocket" not in sys.modules:
        error_log.warn_once(NEEDED)


cdef enum:
    MOST_REST = 65536   # bytes of a long frame that are received at once, when they are there


cdef bint _can_be_sent(str name, str value) except -1:
    try:
        return is_field(name.encode("latin-1"), value.encode("latin-1"))
    except UnicodeEncodeError:
        return False


class WebSocketClosed(ConnectionLost):
    """The WebSocket was closed, by the server or by the client: nothing more can be sent. Applications need
    not catch this error."""


cdef class WebSocket:
    """WebSocket(upgrade, request, limits, answers_close=True)\n--\n\nThe WebSocket of a request. One tasklet
    may receive while others send."""

    def __init__(self, Upgrade upgrade not None, Request request not None, limits, bint answers_close=True):
        # With answers_close false the client's close frame, or its breach of the protocol, is answered by
        # answer_close(), for a caller that receives ahead of its application.
        self.answers_close = answers_close
        self.upgrade = upgrade
        self.request = request
        self.most = limits.websocket_bytes
        self.receiving = Lock()
        self.sending = Lock()
        self.close_reason = ""

    @property
    def origin(self) -> str | None:
        """The origin of the page that opened the WebSocket, as reported by the browser. Check the origin if a
        cookie identifies the user, because pages of other sites can connect, too."""
        return self.request.field("origin")

    @property
    def subprotocols(self) -> list[str]:
        """The subprotocols that the client offers, in its order of preference."""
        offered = (self.request.field("sec-websocket-protocol") or "").split(",")
        return [name.strip() for name in offered if name.strip()]

    @property
    def closed(self) -> bool:
        return self.close_code is not None

    # -- beginning ---------------------------------------------------------------------------------

    def accept(self, subprotocol=None, headers=None, compression=True) -> None:
        """Answer the handshake. Raise BadRequest or UpgradeRequired if the client's request is wrong; the
        server then responds with 400 or 426."""
        if self.frames is not None:
            raise RuntimeError("this WebSocket has already been accepted")
        if subprotocol is not None and subprotocol not in self.subprotocols:
            raise ValueError(
                f"the client did not offer the subprotocol {subprotocol!r}, only {self.subprotocols}"
            )
        for name, value in headers or []:
            if not _can_be_sent(name, value):
                raise ValueError(f"header {name} has forbidden characters: {value!r}")
        agreed = self.agreed if compression else None
        fields, packing = agreed or self.check(compression)
        if subprotocol is not None:
            fields.append(("Sec-WebSocket-Protocol", subprotocol))
        lines = ["HTTP/1.1 101 Switching Protocols", *(f"{n}: {v}" for n, v in (*fields, *(headers or ())))]
        self.subprotocol = subprotocol
        self.frames = Frames(self.library, packing, self.most)
        self.upgrade.begin("\r\n".join([*lines, "", ""]).encode("latin-1"), self)

    def check(self, compression=True):
        """Return the fields of the handshake's response, and the agreed compression. Raise BadRequest or
        UpgradeRequired if the client's request is wrong."""
        if self.request.field("sec-websocket-version") != "13":
            raise UpgradeRequired("only version 13 of the WebSocket protocol is supported (RFC 6455, 4.4)")
        if self.request.method != "GET":
            raise BadRequest("a WebSocket handshake must be a GET request (RFC 6455, 4.1)")
        self.library = importlib.import_module("syncless.http.websocket.library")
        try:
            self.agreed = self.library.handshake(self.request, compression)
        except ValueError as error:
            raise BadRequest(f"malformed WebSocket handshake: {error}") from None
        return self.agreed

    # -- messages ----------------------------------------------------------------------------------

    cpdef receive(self):
        """Return the next message: str for text, bytes for binary; None when the WebSocket has been closed.
        Answer pings meanwhile, and send pings when the client is silent (Limits.ping_seconds)."""
        if self.frames is None:
            self.accept()
        self.receiving.acquire_unit(True, None)
        try:
            while self.message is None and self.close_code is None and self.unanswered is None:
                self.read()
            return self.taken()
        finally:
            self.receiving.release_unit()

    def __iter__(self):
        return self

    def __next__(self):
        message = self.receive()
        if message is None:
            raise StopIteration
        return message

    def send(self, message) -> None:
        """Send a text or a binary message, waiting while the client is slow. Raise WebSocketClosed if the
        WebSocket is closed. If a Timeout or kill() interrupts the wait, the client gets the whole message or
        none of it."""
        if isinstance(message, (bytearray, memoryview)):
            message = bytes(message)
        elif not isinstance(message, (str, bytes)):
            raise TypeError(f"a message must be str or bytes, not {type(message).__name__}")
        if self.frames is None:
            self.accept()
        self.sending.acquire_unit(True, None)   # a compressed frame builds on the one before it
        try:
            self.check_open()
            if self.upgrade.is_behind():
                self.make_room()
                self.check_open()
            self.write(self.frames.message(message))
        finally:
            self.sending.release_unit()

    cdef bint may_frame(self, object message) noexcept:
        """Return whether framed() may be called: nothing is being sent, and it lets no other tasklet run."""
        return self.sending.value > 0 and self.frames.is_quick(message)

    cdef bytes framed(self, object message):
        """Return a message as the bytes to send, for a caller that sends them itself."""
        return self.frames.message(message)

    def ping(self, payload=b"") -> None:
        """Send a ping of up to 125 bytes."""
        if self.frames is None:
            self.accept()
        with self.sending:
            self.check_open()
            self.write(self.frames.control(PING, payload))

    def close(self, code=1000, reason="") -> None:
        """Send a close frame and wait for the client's, for at most CLOSE_SECONDS. Do nothing if the
        WebSocket is already closed."""
        if self.closed:
            return
        if self.frames is None:
            self.accept()
        if self._says_close(code, reason) and self.receiving.value:     # else the tasklet that receives does
            self.meet_answer()

    # -- inside ------------------------------------------------------------------------------------

    cdef int lost(self) except -1:
        self.gone = True
        if self.close_code is None:
            self.close_code = 1006

    cdef int check_open(self) except -1:
        if self.close_code is not None or self.gone:
            raise WebSocketClosed(
                f"the WebSocket is closed ({self.close_code} {self.close_reason})".replace(" )", ")")
            )

    cdef int make_room(self) except -1:
        """Wait until what was left to the server is sent, while the message has not begun."""
        try:
            self.upgrade.make_room()
        except ClientGone:
            self.leave()

    cdef int write(self, bytes frame) except -1:
        try:
            self.upgrade.write_whole(frame)
        except ClientGone:
            self.leave()

    cdef int leave(self) except -1:
        self.lost()
        raise WebSocketClosed("the client has left") from None

    def send_close(self, code, reason) -> None:
        """Send a close frame. Raise WebSocketClosed if the WebSocket is closed."""
        frame = self.frames.control(CLOSE, self.frames.close_data(code, reason))
        with self.sending:
            self.check_open()
            self.write(frame)
            self.close_code, self.close_reason = code, reason

    def _says_close(self, code, reason=""):
        """The same. Return whether it could be sent."""
        try:
            self.send_close(code, reason)
        except WebSocketClosed:
            return False
        return True

    cdef int meet_answer(self) except -1:
        """Wait for the client's close frame. Closing the connection before would reset it under a client
        that sends, which may lose our close frame by that."""
        with Timeout(CLOSE_SECONDS, False), self.receiving:
            self.message = None
            while not self.answered and not self.gone:
                self.read()
        self.gone = True

    def tell_stop(self) -> None:
        """Send a close frame, once, because the server stops."""
        if self.frames is not None and not self.leaving:
            self.leaving = True
            self._says_close(*STOPS)

    cdef int read(self) except -1:
        """Deals with the frames that have come up to the end of a message, so that what was sent before a
        close frame can be answered; waits for bytes if there are none."""
        try:
            if self.broken is not None:
                broken, self.broken = self.broken, None
                raise broken
            while self.message is None and not self.gone and not self.answered:
                if self.unmet:
                    self.unmet = False
                elif not self.frames.next(self.most - self.frames.size):
                    if self.frames.parser is not None:
                        if self.take_rest():
                            continue
                        self.frames.look_ahead()
                    return self.wait()
                self.take(self.frames.opcode, self.frames.payload, self.frames.last)
        except Broken as error:
            self.fail(error.code, str(error))

    cdef object taken(self):
        """Return `message`, which is None from now on."""
        message, self.message = self.message, None
        return message

    cdef Heard hear(self) except *:
        """As read(), but nothing waits and nothing is sent, so that the loop can do it. A message that is
        found is `message`."""
        try:
            return self.look()
        except Broken as error:
            self.broken = error
            return OTHER

    cdef Heard look(self) except *:
        cdef Frames frames = self.frames
        cdef bytes data
        while self.message is None:
            if (self.unmet or self.answered or self.gone or self.broken is not None
                    or self.close_code is not None):
                return OTHER
            if frames.is_used_up():
                data = self.upgrade.read_now()
                if data is None:
                    return NOTHING
                if not data:
                    return OTHER                # its end is met again by receive()
                self.pinged = False
                frames.feed(data)
            if not frames.next_known(self.most - frames.size):
                return OTHER
            if frames.opcode < CLOSE:
                self.whole(frames.part(frames.opcode, frames.payload, frames.last))
            elif frames.opcode != PONG:
                self.unmet = True
        return MESSAGE

    cdef bint take_rest(self) except -1:
        """Return whether more of a frame has come already."""
        cdef bytes data
        data = self.upgrade.read_rest(min(self.frames.missing, <Py_ssize_t> MOST_REST))
        if not data:
            return False
        self.frames.feed(data)
        return True

    cdef int take(self, int opcode, bytes data, bint fin) except -1:
        if opcode == PING:
            return self.answer(PONG, data)
        if opcode == CLOSE:
            return self.closes(data)
        if opcode != PONG:
            return self.whole(self.frames.part(opcode, data, fin))

    cdef int closes(self, bytes data) except -1:
        code, reason = self.frames.read_close()
        self.answered = self.upgrade.over = True
        if self.close_code is None:
            self.unanswered = code, reason, data
            if self.answers_close:
                self.answer_close()

    def answer_close(self) -> None:
        """Answer the client's close frame, if it has arrived. Nothing can be sent afterwards."""
        if self.unanswered is None or self.closed:
            return
        code, reason, data = self.unanswered
        self.answer(CLOSE, data)
        self.close_code, self.close_reason = code, reason

    cdef int wait(self) except -1:
        """Wait for bytes."""
        cdef bytes data
        try:
            data = self.upgrade.read()
        except BodyTimeout:
            return self.meet_silence()
        except ClientGone:
            data = b""
        if not data:
            return self.lost()
        self.pinged = False
        self.frames.feed(data)

    cdef int meet_silence(self) except -1:
        """Nothing has come for Limits.ping_seconds."""
        if self.pinged:
            return self.lost()
        self.pinged = True
        return self.answer(PING, b"")

    cdef int whole(self, object message) except -1:
        if self.close_code is None:  # messages between our close frame and the client's are dropped
            self.message = message      # None: it is not whole

    cdef int answer(self, int opcode, bytes data) except -1:
        """Send a control frame, if it still can be sent."""
        try:
            with self.sending:
                self.check_open()
                self.write(self.frames.control(opcode, data))
        except WebSocketClosed:
            pass

    cdef int fail(self, object code, str reason) except -1:
        """The client breaks the protocol or a limit: says so and reads no further."""
        self.frames.parts = None
        if not self.answers_close:
            self.answered = True
            self.unanswered = code, reason, self.frames.close_data(code, reason)
            return 0
        self._says_close(code, reason)
        self.gone = True

    def end(self, failure) -> None:
        """End the WebSocket when the application has returned or raised; the server calls this. The client's
        close frame ends the connection, even if the server has sent the first one."""
        cdef bint in_haste = isinstance(failure, TaskletExit)
        if self.frames is None:
            return
        try:
            if self.unanswered is not None:
                self.answer_close()
            elif not self.closed:
                self._says_close(*(STOPS if in_haste else (1000 if failure is None else 1011,)))
            if not in_haste:
                self.meet_answer()
        except TaskletExit:
            in_haste = True
        if in_haste:
            self.upgrade.over = True
