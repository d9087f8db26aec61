"""The engine's table of contents. The life of a loop turn and of a carrier is told in loop.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t

from syncless._core.greenlet cimport PyGreenlet
from syncless._core.poller cimport Poller, PollEvent
from syncless._core.timers cimport Timer, TimerHeap

cdef enum State:
    NEW         # not started; in the ready queue if `queued`
    READY       # in the ready queue, to go on where it stopped
    RUNNING
    PARKED      # waits; only wake(), throw() or its deadline make it ready
    DONE

cdef enum Outcome:
    WOKEN = 0
    TIMED_OUT = 1

cdef class Loop


cdef class Runnable:
    """Something that the loop runs at its base when its turn comes."""
    cdef int run(self, Loop loop) except -1


cdef class Watcher(Runnable):
    """Something that is told, at the base of the loop, when its descriptor is ready."""
    cdef int on_ready(self, Loop loop, int bits) except -1


cdef class BaseTasklet(Runnable):
    """The part of a tasklet that the engine knows."""
    cdef Loop loop
    cdef PyGreenlet* carrier        # owned: the greenlet on which it stopped; NULL while it runs or is new
    cdef int state
    cdef int outcome                # why park() returned
    cdef object value               # handed over by wake()
    cdef object pending             # an exception to raise where it stopped
    cdef object waiting_on          # the object that it waits for, if there is one
    cdef const char* why            # what it waits for, in words; NULL while it does not wait
    cdef int64_t since              # when it began to wait, ns
    cdef Timer timer                # the deadline of the present wait
    cdef PyObject* next_waiter      # borrowed: neighbours in the queue of what it waits for
    cdef PyObject* prev_waiter
    cdef bint queued                # in such a queue
    cdef bint granted               # see wait_in()
    cdef PyObject* older            # borrowed: neighbours in the loop's list of live tasklets
    cdef PyObject* newer


cdef struct WaitQueue:              # first in, first out; borrowed: a parked tasklet keeps itself alive
    PyObject* head
    PyObject* tail


cdef inline void queue_add(WaitQueue* queue, BaseTasklet tasklet) noexcept:
    tasklet.prev_waiter = queue.tail
    tasklet.next_waiter = NULL
    tasklet.queued = True
    if queue.tail != NULL:
        (<BaseTasklet> queue.tail).next_waiter = <PyObject*> tasklet
    else:
        queue.head = <PyObject*> tasklet
    queue.tail = <PyObject*> tasklet


cdef inline void queue_remove(WaitQueue* queue, BaseTasklet tasklet) noexcept:
    if tasklet.prev_waiter != NULL:
        (<BaseTasklet> tasklet.prev_waiter).next_waiter = tasklet.next_waiter
    else:
        queue.head = tasklet.next_waiter
    if tasklet.next_waiter != NULL:
        (<BaseTasklet> tasklet.next_waiter).prev_waiter = tasklet.prev_waiter
    else:
        queue.tail = tasklet.prev_waiter
    tasklet.next_waiter = tasklet.prev_waiter = NULL
    tasklet.queued = False


cdef inline BaseTasklet queue_pop(WaitQueue* queue):
    """The first of a queue that is not empty."""
    tasklet = <BaseTasklet> queue.head
    queue_remove(queue, tasklet)
    return tasklet


cdef struct FdEntry:
    uint32_t gen                    # grows when the number is forgotten, so that late events of its last owner are told apart
    uint8_t armed                   # the directions that the poller will report
    WaitQueue readers
    WaitQueue writers
    PyObject* watcher               # borrowed: a Watcher gets all events of the descriptor


cdef class Loop:
    cdef readonly BaseTasklet main
    cdef BaseTasklet current        # None while the loop itself runs
    cdef BaseTasklet orphan         # in a child: the tasklet that forked, if it was not main; the process ends with it
    cdef Poller poller
    cdef TimerHeap timers
    cdef int64_t now                # ns; as fresh as the last poll or switch
    # ready queue: a ring of owned references to Runnables
    cdef PyObject** ring
    cdef size_t ring_head, ring_count, ring_mask
    # what is due before the next poll, owned
    cdef PyObject** late
    cdef Py_ssize_t late_count, late_room
    # fairness: a poll is due when either is used up
    cdef int credits
    cdef int64_t polled_at
    # descriptors
    cdef FdEntry* fds
    cdef int fd_room
    cdef PollEvent* events          # the last poll's; any leader goes on at event_pos
    cdef int event_pos, event_count
    # carriers
    cdef PyGreenlet** idle          # owned
    cdef Py_ssize_t idle_count, idle_room, carrier_count
    cdef PyGreenlet* spawner
    cdef PyGreenlet* main_greenlet
    cdef PyObject* newest           # borrowed: list of live tasklets
    cdef Py_ssize_t live_count
    cdef readonly Py_ssize_t parked_count
    cdef readonly object thread_id
    cdef bint polling               # in Poller.wait() with the GIL released
    cdef bint closed
    cdef bint forked

    cdef int push(self, Runnable item) except -1
    cdef int before_poll(self, Runnable item) except -1
    cdef int park(self, const char* why, object on, int64_t deadline) except -1
    cdef int wake(self, BaseTasklet tasklet, object value) except -1
    cdef int throw(self, BaseTasklet tasklet, object exception) except -1
    cdef int yield_(self) except -1
    cdef int wait_fd(self, int fd, int bit, int64_t deadline, const char* why, object on) except -1
    cdef int wait_foreign_fd(self, int fd, int bits, int64_t deadline) except -1
    cdef FdEntry* entry(self, int fd) except NULL
    cdef int watch(self, int fd, Watcher watcher) except -1
    cdef int arm(self, int fd, FdEntry* entry, int bits) except -1
    cdef int forget_fd(self, int fd) except -1
    cdef void adopt(self, BaseTasklet tasklet) noexcept
    cdef void release(self, BaseTasklet tasklet) noexcept
    cdef int report(self, object where, BaseException error) except -1

    cdef Runnable _pop(self)
    cdef bint _poll_due(self) noexcept
    cdef int _leave(self, BaseTasklet tasklet) except -1
    cdef int _switch(self, PyGreenlet* target) except -1
    cdef PyGreenlet* _next_carrier(self, BaseTasklet leaving) except? NULL
    cdef int _run_next(self) except -1
    cdef int _rest(self, PyGreenlet* target) except -1
    cdef int _lead(self) except -1
    cdef int _dispatch(self) except -1
    cdef int _poll(self) except -1
    cdef int _trim(self) except -1
    cdef int _check_signals(self) except -1
    cdef int _hear_signals(self) except -1
    cdef int _start(self) except -1
    cdef int _after_fork(self) except -1
    cdef int _close(self) except -1


cdef int wake_all(WaitQueue* queue) except -1
cdef int wait_in(WaitQueue* queue, const char* why, object on, int64_t deadline) except -1
cdef Loop get_loop()
cdef Loop peek_loop()
cdef int64_t deadline_after(object seconds) except -2
