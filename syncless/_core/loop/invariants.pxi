"""Invariants between any two steps of the engine, each as it is written where its field is declared.

Debug builds check it in census() (tests/core/test_invariants.py).
"""


cdef int broken(str promise) except -1:
    raise AssertionError("the engine has broken a promise: " + promise)


cdef Py_ssize_t check_list(LinkedList* row) except -1:
    """Return the number of its nodes."""
    cdef Node* node = row.first
    cdef Node* before = NULL
    cdef Py_ssize_t count = 0
    while node != NULL:
        if node.owner == NULL or node.before != before:
            broken("neighbours in a list know each other")
        count += 1
        before, node = node, node.after
    if row.last != before:
        broken("a list knows its last node")
    return count


cdef int check_queue(WaitQueue* queue) except -1:
    cdef Node* node = queue.first
    check_list(queue)
    while node != NULL:
        if node != &(<BaseTasklet> node.owner).place:
            broken("a waiter stands in a queue with its own node")
        node = node.after
    return 0


cdef int check_timers(TimerHeap timers) except -1:
    cdef Py_ssize_t i
    for i in range(timers.count):
        if timers.heap[i].index != i:
            broken("a timer knows its place in the heap")
        if i and timers.heap[(i - 1) >> 1].when > timers.heap[i].when:
            broken("no timer in the heap is earlier than the one above it")
    return 0


cdef set check_ready(ReadyQueue* queue):
    """Return the addresses of the tasklets in it that go on, as numbers."""
    cdef size_t i
    cdef set ready = set()
    if queue.count > queue.mask + 1 or queue.mask & (queue.mask + 1):
        broken("the ready queue is no longer than its ring, whose size is a power of two")
    for i in range(queue.count):
        item = <object> item_at(queue, i)
        if not isinstance(item, Runnable):
            broken("the ready queue holds Runnables")
        if isinstance(item, BaseTasklet):
            if (<BaseTasklet> item).state not in (NEW, READY, DONE):
                broken("a tasklet in the ready queue is new, ready, or was killed there")
            if (<BaseTasklet> item).state == READY:
                if <size_t> <PyObject*> item in ready:
                    broken("a ready tasklet is in the ready queue once")
                ready.add(<size_t> <PyObject*> item)
    return ready


cdef int check_scheduler(Scheduler loop) except -1:
    cdef Node* node = loop.live.first
    cdef BaseTasklet tasklet
    cdef Py_ssize_t parked = 0, surely_parked = 0, ready = 0
    cdef set in_ring = check_ready(&loop.ready)
    check_timers(loop.timers)
    if check_list(&loop.live) != loop.live_count:
        broken("live tasklets are counted")
    if loop.current is not None and loop.current.state != RUNNING and not loop.closed:
        broken("the current tasklet is running")
    while node != NULL:
        tasklet = <BaseTasklet> node.owner
        if tasklet.loop is not loop:
            broken("a live tasklet belongs to the loop that lists it")
        if tasklet.state == DONE and not loop.closed:
            broken("no live tasklet has ended")
        if tasklet.state == READY:
            ready += 1
            if loop.orphan is None and <size_t> <PyObject*> tasklet not in in_ring:
                broken("a ready tasklet is in the ready queue")
        elif tasklet.state in (PARKED, COVERED, COVERED_READY):
            parked += 1
            # a tasklet of Stackless that was taken out of the run queue is not in park()
            surely_parked += tasklet.waiting_on is not None or tasklet.timer.index >= 0
        node = node.after
    if loop.orphan is None and not surely_parked <= loop.parked_count <= parked + ready:
        broken("tasklets in park() are counted: those that wait, and those that go on from there")
    if not 0 <= loop.mutual_count <= loop.parked_count:
        broken("those that wait for one another are some of those that wait")
    if loop.carriers.idle_count > loop.carriers.count:
        broken("idle carriers are some of all")
    return 0


def check(Scheduler loop not None) -> None:
    """Raise AssertionError if a promise is broken, in any build."""
    check_scheduler(loop)
