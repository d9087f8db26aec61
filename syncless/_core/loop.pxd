"""The loop's table of contents. How it works is told in loop.pyx, and before that in scheduler.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t

from syncless._core.observers cimport Observer
from syncless._core.poll.poller cimport Poller, PollEvent
from syncless._core.scheduler cimport Runnable, Scheduler
from syncless._core.wait.waitqueue cimport WaitQueue

cdef class Loop


cdef class Watcher(Runnable):
    """Something that is told, at the base of the loop, when its descriptor is ready."""
    cdef int on_ready(self, Loop loop, int bits) except -1
    cdef int forked(self, Loop loop) except -1


cdef struct FdEntry:
    uint32_t gen  # grows when the number is forgotten, so that late events of its last owner are told apart
    uint8_t armed                   # the directions that the poller will report
    WaitQueue readers
    WaitQueue writers
    PyObject* watcher               # borrowed: a Watcher gets all events of the descriptor


cdef class Loop(Scheduler):
    cdef Poller poller
    cdef FdEntry* fds
    cdef int fd_capacity
    cdef PollEvent* events          # the last poll's; any leader goes on at event_pos
    cdef int event_pos, event_count
    cdef readonly object thread_id
    cdef object __weakref__
    cdef bint forked
    cdef public Py_ssize_t jobs     # calls in real threads that tasklets of this loop wait for
    cdef public object when_idle    # called with the loop before it waits with nothing ready, or None
    cdef public bint idle_or_not    # it is called before each poll

    cdef int wait_fd(self, int fd, int bit, int64_t deadline, const char* why, object on) except -1
    cdef int wait_foreign_fd(self, int fd, int bits, int64_t deadline) except -1
    cdef FdEntry* entry(self, int fd) except NULL
    cdef int watch(self, int fd, Watcher watcher) except -1
    cdef int arm(self, int fd, FdEntry* entry, int bits) except -1
    cdef int arm_for_wait(self, int fd, int bits) except -1
    cdef int disarm_after_wait(self, int fd) noexcept
    cdef int forget_fd(self, int fd) except -1
    cdef int observe(self, Observer observer) except -1
    cdef int unobserve(self, Observer observer) except -1

    cdef bint may_wake(self, Py_ssize_t others) noexcept
    cdef int run_before_poll(self) except -1
    cdef int _start(self) except -1
    cdef int _hear_signals(self) except -1
    cdef int _after_fork(self) except -1
    cdef int _close(self) except -1


cdef int wait_in(WaitQueue* queue, const char* why, object on, int64_t deadline) except -1
cdef object loops                   # WeakValueDictionary: thread id -> Loop
cdef Loop get_loop()
cdef Loop peek_loop()
cpdef bint may_park() noexcept
cdef Loop loop_of(object where)
cdef int take_turns() except -1
