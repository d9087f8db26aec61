"""The loop's table of contents. How it works is told in loop.pyx, and before that in scheduler.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t

from syncless._core.poll.poller cimport PollEvent, Poller
from syncless._core.scheduler cimport DEBUG_BUILD, Observer, Runnable, Scheduler
from syncless._core.wait.waitqueue cimport WaitQueue

cdef struct FdEntry:
    uint32_t gen  # grows when the number is forgotten, so that late events of its last owner are told apart
    uint8_t armed                   # the directions that the poller will report
    uint16_t closed                 # how often a function of the patch closed it while a tasklet waited
    WaitQueue readers
    WaitQueue writers
    PyObject* watcher               # borrowed: a Watcher gets all events of the descriptor


cdef class FdTable:
    cdef Poller poller
    cdef FdEntry* entries           # by descriptor
    cdef int capacity

    cdef inline FdEntry* entry(self, int fd) except NULL:
        """The descriptor's place in the table. The pointer is good until the next call of entry()."""
        return &self.entries[fd] if 0 <= fd < self.capacity else self.new_entry(fd)

    cdef FdEntry* new_entry(self, int fd) except NULL
    cdef int arm(self, int fd, int bits) except -1
    cdef int arm_for_wait(self, int fd, int bits) except -1
    cdef int disarm_after_wait(self, int fd) noexcept
    cdef int watch(self, int fd, object watcher) except -1
    cdef int forget(self, int fd) except -1
    cdef int close_under_waiters(self, int fd) except -1
    cdef int arm_all(self) except -1
    cdef int abandon(self, bint waking) except -1
    cdef bint is_watching(self) noexcept
    cdef list watchers(self)


cdef int check_scheduler(Scheduler loop) except -1
cdef int check_queue(WaitQueue* queue) except -1


cdef int64_t trim(Scheduler loop, int64_t timeout) except -2


cdef class Loop


cdef class Watcher(Runnable):
    """Something that is told, at the base of the loop, when its descriptor is ready."""
    cdef int on_ready(self, Loop loop, int bits) except -1
    cdef int forked(self, Loop loop) except -1
    cdef int loop_ended(self, Loop loop) except -1
    cdef bint has_an_end(self) except -1


cdef class Loop(Scheduler):
    cdef Poller poller
    cdef FdTable fds                # the waiters for each descriptor
    cdef PollEvent* events          # the last poll's; any leader goes on at event_pos
    cdef int event_pos, event_count
    cdef PyObject** pre_poll        # due before the next poll, owned
    cdef Py_ssize_t pre_poll_count, pre_poll_capacity
    cdef readonly object thread_id
    cdef object __weakref__
    cdef bint hears_signals         # its thread is the interpreter's main one
    cdef int64_t slack              # ns, see timer_slack
    cdef int64_t slept              # ns, without the sleep under way, see idle_seconds()
    cdef public Py_ssize_t jobs     # calls in real threads that tasklets of this loop wait for
    cdef public object when_idle    # called with the loop before it waits with nothing ready, or None
    cdef public bint idle_or_not    # it is called before each poll
    # called with the loop before it sleeps although it is hopeless(), or None; gives seconds after which it
    # is called again, or None
    cdef public object when_stuck

    cdef int observe(self, Observer observer) except -1
    cdef int unobserve(self, Observer observer) except -1

    cdef bint may_wake(self, Py_ssize_t others, bint timers) noexcept
    cdef set endless                # of check_watchers()

    cdef int check_watchers(self) except -1
    cdef int before_poll(self, Runnable item) except -1
    cdef int run_before_poll(self) except -1
    cdef int start(self) except -1
    cdef int wake_for_signals(self) except -1
    cdef int leave_poller(self) except -1
    cdef int find_again(self) except -1
