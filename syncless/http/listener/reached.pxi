"""Reached: tells in the error log, on level INFO, that clients reach a limit of the server, and when they no
longer do.

An episode lasts until nobody has reached the limit for QUIET_NS. It is told at its start, and at its end with
the number of those that had to wait, were refused or were closed. The code that finds a limit reached only
counts: the log may run Python, which could switch in the middle of anything. A timer tells.

What the system is short of is no limit of ours: Listener.complain() warns of it. Limits that one request
exceeds by itself are told to its client, and the access log has the response.
"""

REACHED = (
    ("connections", "a new connection closes one that is idle, or waits", "{waited} waits, {refused} closed"),
    ("client_connections", "further connections of the same client are closed", "{refused} closed"),
    ("requests", "further requests wait", "{waited} waited, {refused} refused"),
    ("queued", "further requests are refused", "{refused} refused"),
    ("queue_seconds", "requests that have waited for so long are refused", "{refused} refused"),
    ("buffered_bytes", "slow connections and unread streams are closed", "{refused} closed"),
    ("linger_connections", "the oldest of them are closed", "{refused} closed"),
    ("event_bytes", "held streams whose clients are too slow are closed", "{refused} closed"),
    ("streams", "further requests on the same connection are refused", "{refused} refused"),
)
"""Limit, what happens from now on, and what has happened; in the order of their numbers in listener.pxd."""


cdef void tell_reached(void* owner) noexcept:
    """The timer's callback."""
    cdef Reached reached = <Reached> owner
    try:
        reached.tell(monotonic_ns(), False)
    except BaseException as error:
        reached.loop.report("a limit that is reached", error)


@cython.no_gc_clear      # __dealloc__ needs the loop
cdef class Reached:
    """Reached(loop, limits, error_log): of one listener; `limits`: a Limits."""

    def __cinit__(self, Loop loop not None, limits, error_log):
        self.loop = loop
        self.limits = limits
        self.error_log = error_log
        timer_init(&self.timer, tell_reached, <void*> self)

    def __dealloc__(self):
        if self.timer.index >= 0:
            self.loop.timers.remove(&self.timer)

    cdef void note(self, int limit, bint refused) noexcept:
        """The limit is reached: somebody has to wait, or is refused or closed."""
        cdef Episode* episode = &self.episodes[limit]
        episode.last = self.loop.clock.now
        if refused:
            episode.refused += 1
        else:
            episode.waited += 1
        if not episode.began:
            episode.began = episode.last
            self.look_at(episode.began)

    cdef void look_at(self, int64_t when) noexcept:
        """The timer fires then at the latest."""
        if self.timer.index < 0 or when < self.timer.when:
            self.loop.timers.remove(&self.timer)
            try:
                self.loop.timers.add(&self.timer, when)
            except MemoryError:
                pass                                # it is not told

    cdef int tell(self, int64_t now, bint all_end) except -1:
        """Tell of episodes that have begun or ended."""
        cdef Episode* episode
        cdef Episode past
        cdef int limit
        for limit in range(TOLD_LIMITS):
            episode = &self.episodes[limit]
            past = episode[0]
            if not past.began:
                continue
            if all_end or now - past.last >= QUIET_NS:
                memset(episode, 0, sizeof(Episode))
                self.log(limit, &past)
                continue
            episode.told = True
            self.look_at(past.last + QUIET_NS)
            if not past.told:
                self.log(limit, NULL)
        return 0

    cdef int log(self, int limit, const Episode* past) except -1:
        """Write the entry of an episode that begins (NULL), or is past."""
        name, happens, happened = REACHED[limit]
        value = getattr(self.limits, name)
        fields = {"limit": name, "value": value}
        if past == NULL:
            text = f"is reached: {happens}; --limit {name} changes it"
        else:
            fields |= {
                "seconds": round((past.last - past.began) / 1e9, 3),
                "waited": past.waited, "refused": past.refused}
            text = f"was reached for {fields['seconds']:.1f} s: {happened.format(**fields)}"
        self.error_log.entry(INFO, f"limit {name}={value} {text}", None, None, (), fields)
        return 0

    cdef int close(self) except -1:
        """All end now."""
        self.tell(monotonic_ns(), True)
        self.loop.timers.remove(&self.timer)
        return 0


cdef enum:
    QUIET_NS = 10000000000
