"""Watch: sees that the thread of a loop is held, and tells another one to take its connections.

It looks from a thread of its own, which never has the interpreter's lock while it does: at a loop that sleeps
each time that it could have become held since, at others when that is. It costs nothing to those that it
looks at. A loop with much to do is not held: requests begin there from look to look.
"""


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
            raise ValueError(f"at most {SIDES} threads can serve at most {SOCKETS} sockets")
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
        """Look until end() is called."""
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
        """Tell a side if another is held. Return after how many ns to look again."""
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
        """Return the active side if another is held; else the next one that is not; -1 if there is none."""
        cdef int _, number = held
        if held != self.active_side:
            return self.active_side
        for _ in range(self.count - 1):
            number = (number + 1) % self.count
            if self.sides[number].polling[0]:
                return number
        return -1
