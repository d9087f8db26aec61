"""Admission: how many requests run at a time, and which one is next.

    begin() ----------------------------------> runs --------> end()
       | too many run                            ^
       +--> queue() --- another one has ended ---+
                 |    too many wait: it is refused
                 +--> expire(): it has waited for too long
                 +--> leave(): its connection is closed

Waiting requests stand in the list of QUEUE_DEADLINE, the longest waiting first, so the queue is no list of
its own. Each is a Runnable that owns a DeadlineNode: it is pushed when its turn has come, and counts already.

How many may run is a number, or a rule (http/overload.py) that is told of each request's end, and says also
who is next and how long the others wait. Requests may have ranks (http/priorities.py): the higher ones are
first, and the highest neither wait nor count.
"""


cdef void look_at_queue(void* owner) noexcept:
    """The timer's callback."""
    cdef Admission admission = <Admission> owner
    try:
        admission.shed()
    except BaseException as error:
        admission.deadlines.loop.report("the queue of requests", error)


@cython.no_gc_clear      # __dealloc__ needs the loop
cdef class Admission:
    """Admission(deadlines, reached, requests, queued, priorities): the limits of these names."""

    def __cinit__(self, *_args):
        timer_init(&self.timer, look_at_queue, <void*> self)

    def __init__(
        self, Deadlines deadlines not None, Reached reached not None, requests, Py_ssize_t queued,
        priorities=None,
    ):
        self.deadlines = deadlines
        self.reached = reached
        if requests == "auto":
            self.rule = import_module("syncless.http.overload").AutoLimit(deadlines.loop.clock.now / 1e9)
            requests = self.rule.limit
        self.most_active = requests
        self.most_queued = queued
        if self.most_active:
            self.priority = priorities
        if self.rule is not None or self.priority is not None:
            self.attention = 1

    def __dealloc__(self):
        if self.timer.index >= 0:
            self.deadlines.loop.timers.remove(&self.timer)

    def close(self) -> None:
        """Look at the queue no more, and tell no limit."""
        self.deadlines.loop.timers.remove(&self.timer)
        self.rule = None

    def told_limit(self) -> int:
        """Return the limit that the rule has set; 0 if it is another's of its account, or a fixed one."""
        if self.rule is None or self.siblings is not None and self.siblings[0] is not self:
            return 0
        return self.most_active

    cdef bint may_begin(self, uint8_t rank) noexcept:
        if rank == ALWAYS:
            self.exempt += 1
            return True
        return not self.is_full()

    cdef bint is_full(self) noexcept:
        """Return whether as many run as may."""
        cdef Py_ssize_t active = self.active - self.exempt
        cdef Admission other
        if self.siblings is not None:
            active = 0
            for other in self.siblings:
                active += other.active - other.exempt
        return active >= self.most_active

    cdef bint is_queue_full(self) noexcept:
        """Return whether as many wait as may."""
        cdef Py_ssize_t queued = self.queued
        cdef Admission other
        if self.siblings is not None:
            queued = 0
            for other in self.siblings:
                queued += other.queued
        return queued >= self.most_queued

    cdef int end_with_care(self, uint8_t rank, int64_t started) except -1:
        cdef Py_ssize_t running = self.active - self.exempt
        cdef int64_t now
        self.active -= 1
        if self.most_active and rank == ALWAYS:
            self.exempt -= 1
        elif self.rule is not None and started != NOT_RUN:
            if self.siblings is not None:
                running = sum([(<Admission> other).active - (<Admission> other).exempt
                    for other in self.siblings]) + 1
            now = monotonic_ns()
            self.set_limit(self.rule.ended(now / 1e9, (now - started) / 1e9, running))
        return self.offer()

    cdef int set_limit(self, Py_ssize_t most) except -1:
        cdef Admission other
        self.most_active = most
        if self.siblings is not None:
            for other in self.siblings:
                other.most_active = most
        return 0

    cdef int exempt_now(self, uint8_t* rank) except -1:
        """A request that runs counts no more, where the rule measures requests: it is none now."""
        if self.rule is None or rank[0] == ALWAYS:
            return 0
        rank[0] = ALWAYS
        self.exempt += 1
        return self.offer()

    cdef int offer(self) except -1:
        """Requests may have ended elsewhere: those that wait have their turn."""
        while self.queued and not self.is_full():
            self.active += 1
            if not self.hand_over():
                self.active -= 1
                break
        return 0

    cdef bint queue(self, DeadlineNode* node, Runnable owner, uint8_t rank) except -1:
        """Return whether its owner may wait for its turn."""
        cdef int64_t now = self.deadlines.loop.clock.now
        cdef bint full = self.is_queue_full()
        if full or self.rule is not None and not self.rule.may_wait(now / 1e9, rank):
            self.refused += 1
            self.reached.note(AT_QUEUED if full else AT_REQUESTS, True)
            return False
        self.reached.note(AT_REQUESTS, False)
        self.deadlines.start(node, QUEUE_DEADLINE, owner)
        node.rank = rank
        self.queued += 1
        self.attention += 1
        if self.rule is not None:
            self.rule.waits(now / 1e9)
            if self.timer.index < 0:
                self.deadlines.loop.timers.add(
                    &self.timer, now + <int64_t> (self.rule.patience(NORMAL) * 1e9))
        return True

    cdef int expire(self) except -1:
        """The deadline of one that waited has passed: it will not run."""
        self.refused += 1
        self.reached.note(AT_QUEUE_SECONDS if self.rule is None else AT_REQUESTS, True)
        return self.waits_no_more()

    cdef int waits_no_more(self) except -1:
        self.queued -= 1
        self.attention -= 1
        if self.rule is not None:
            self.rule.waits_no_more(self.deadlines.loop.clock.now / 1e9)
        return 0

    cdef int take_out(self, DeadlineNode* node) except -1:
        """It waits no more."""
        self.waits_no_more()
        self.deadlines.stop(node)
        return 0

    cdef int leave(self, DeadlineNode* node) except -1:
        """The owner of a node that was queued will not run. It may have been given a turn already."""
        if node.kind == QUEUE_DEADLINE:
            return self.take_out(node)
        return self.end(node.rank, NOT_RUN)

    cdef DeadlineNode* next_one(self) except? NULL:
        """Return the node of the request whose turn is next; NULL if none waits."""
        cdef bint newest = self.rule is not None and self.rule.look(self.deadlines.loop.clock.now / 1e9)
        cdef DeadlineNode* node = self.deadlines.first(QUEUE_DEADLINE)
        cdef DeadlineNode* found = self.deadlines.last(QUEUE_DEADLINE) if newest else node
        if self.priority is None:
            return found
        while node != NULL:
            if node.rank < found.rank or newest and node.rank == found.rank:
                found = node
            node = next_of(node)
        return found

    cdef bint hand_over(self) except -1:
        """Return whether another one is there to have the turn."""
        cdef DeadlineNode* node = self.next_one()
        if node == NULL:
            return False
        owner = <Runnable> node.place.owner
        self.take_out(node)
        self.deadlines.loop.push(owner)
        return True

    cdef int shed(self) except -1:
        """Refuse those that have waited for longer than the rule allows."""
        cdef Loop loop = self.deadlines.loop
        cdef int64_t now = monotonic_ns()
        cdef DeadlineNode* node
        self.rule.look(now / 1e9)
        node = self.late_one(now)
        while node != NULL:
            owner = <object> node.place.owner       # it may let itself go meanwhile
            self.deadlines.stop(node)
            self.deadlines.expire(loop, owner, QUEUE_DEADLINE)
            node = self.late_one(now)
        node = self.deadlines.first(QUEUE_DEADLINE)
        if node != NULL and self.timer.index < 0:
            loop.timers.add(&self.timer, max(
                now + LOOK_AGAIN, self.deadlines.began(node) + <int64_t> (self.rule.patience(NORMAL) * 1e9)))
        return 0

    cdef DeadlineNode* late_one(self, int64_t now) except? NULL:
        """Return a node of one of them; NULL if there is none."""
        cdef int64_t[RANKS] patience
        cdef DeadlineNode* node
        cdef int rank
        for rank in range(RANKS):
            patience[rank] = <int64_t> (self.rule.patience(rank) * 1e9)
        node = self.deadlines.first(QUEUE_DEADLINE)
        while node != NULL:
            if now - self.deadlines.began(node) >= patience[node.rank]:
                return node
            if self.priority is None:               # all others have waited for less
                return NULL
            node = next_of(node)
        return NULL


cdef enum:
    LOOK_AGAIN = 5000000    # ns between two looks at the queue at least
