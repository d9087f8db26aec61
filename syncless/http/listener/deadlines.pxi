"""Deadlines: a node in each owner, a list for each kind, one timer for all.

Those of a kind have equal lengths: each list is in the order of expiry, starting one is a relink, and only
the first of each list can be due.
"""


cdef void look(void* owner) noexcept:
    """The timer's callback."""
    cdef Deadlines deadlines = <Deadlines> owner
    cdef int64_t next_one = deadlines.expire_due(monotonic_ns())
    if next_one >= 0:
        try:
            deadlines.due_by(next_one)
        except MemoryError as error:
            deadlines.loop.report("a connection's deadline", error)


@cython.final
@cython.no_gc_clear      # __dealloc__ needs the loop
cdef class Deadlines:
    def __cinit__(self, Loop loop not None):
        self.loop = loop
        timer_init(&self.timer, look, <void*> self)

    def __dealloc__(self):
        if self.timer.index >= 0:
            self.loop.timers.remove(&self.timer)

    cdef void allow(self, int kind, int64_t ns) noexcept:
        """How long deadlines of a kind are. Set before the first of them is started."""
        self.lists[kind].length = ns

    cdef int start(self, DeadlineNode* node, int kind, object owner) except -1:
        """Start the time of that kind for the node, in place of the one that runs. `owner`: the object in
        which the node lies (borrowed)."""
        if node.kind != NO_DEADLINE:
            self.stop(node)
        node.kind = kind
        node.when = self.loop.clock.now + self.lists[kind].length
        append(&self.lists[kind].nodes, &node.place, <PyObject*> owner)
        if self.timer.index < 0 or node.when < self.timer.when:
            self.due_by(node.when)
        return 0

    cdef int go_on(self, DeadlineNode* node, int kind, int64_t when, object owner) except -1:
        """As start(), for a time that another Deadlines has begun, and that ends as it would have there."""
        cdef LinkedList* nodes = &self.lists[kind].nodes
        cdef DeadlineNode* before = <DeadlineNode*> nodes.last
        node.kind = kind
        node.when = when
        if before != NULL and (<DeadlineNode*> nodes.first).when > when:
            before = NULL                       # as most of many that come one by one, the last first
        while before != NULL and before.when > when:
            before = <DeadlineNode*> before.place.before
        insert_behind(nodes, &before.place if before != NULL else NULL, &node.place, <PyObject*> owner)
        return self.due_by(when)

    cdef void stop(self, DeadlineNode* node) noexcept:
        if node.kind != NO_DEADLINE:
            remove(&self.lists[node.kind].nodes, &node.place)
            node.kind = NO_DEADLINE

    cdef int64_t began(self, DeadlineNode* node) noexcept:
        """When the node's deadline was started, ns."""
        return node.when - self.lists[node.kind].length

    cdef Py_ssize_t count(self) noexcept:
        """Return how many nodes are in the lists."""
        cdef Py_ssize_t nodes = 0
        cdef int kind
        for kind in range(KINDS):
            nodes += self.count_kind(kind)
        return nodes

    cdef Py_ssize_t count_kind(self, int kind) noexcept:
        """Return how many are in that kind's list."""
        cdef Py_ssize_t nodes = 0
        cdef DeadlineNode* node = self.first(kind)
        while node != NULL:
            nodes += 1
            node = next_of(node)
        return nodes

    cdef int due_by(self, int64_t when) except -1:
        """The timer fires then at the latest."""
        if self.timer.index < 0 or when < self.timer.when:
            self.loop.timers.remove(&self.timer)
            self.loop.timers.add(&self.timer, when)
        return 0

    cdef int64_t expire_due(self, int64_t now) noexcept:
        """Stop and expire all that are due. Return when the next one is, or -1."""
        cdef DeadlineNode* node
        cdef int64_t earliest = -1
        cdef int kind
        for kind in range(KINDS):
            while True:
                node = self.first(kind)
                if node == NULL or node.when > now:
                    break
                owner = <object> node.place.owner         # it may let itself go meanwhile
                self.stop(node)
                try:
                    self.expire(self.loop, owner, kind)
                except BaseException as error:
                    self.loop.report("a connection's deadline", error)
        for kind in range(KINDS):
            node = self.first(kind)
            if node != NULL and (earliest < 0 or node.when < earliest):
                earliest = node.when
        return earliest

    cdef void close(self) noexcept:
        """No more expires. It is started by the next start()."""
        self.loop.timers.remove(&self.timer)
