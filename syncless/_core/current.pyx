"""The running tasklet: its actions (it asks for itself, sleeps, yields, parks), and its waits for a
descriptor or in the queue of an object. current.pxd says which door to a wait to use when.

A wait puts the tasklet into a wait queue, parks it, and takes it out again if it was not woken. So when one
returns, whatever the outcome, the tasklet stands in no queue.
"""


from os import environ

from libc.errno cimport EBADF
from libc.stdint cimport int64_t, uint16_t, uint64_t
from libc.string cimport strerror

from syncless._core.alone cimport wait_alone
from syncless._core.clock cimport deadline_after
from syncless._core.cpython.compat cimport Py_IsFinalizing
from syncless._core.loop cimport FdEntry, Loop
from syncless._core.poll.now cimport is_ready
from syncless._core.poll.poller cimport READ, WRITE
from syncless._core.scheduler cimport (
    DEBUG_BUILD, SHIELDED, TIMED_OUT, WOKEN, BaseTasklet, failed, is_poll_due, next_pending, unchecked_park,
)
from syncless._core.threadloop cimport get_loop, peek_loop
from syncless._core.wait.waitqueue cimport WaitQueue, is_queued, queue_add, queue_remove

from syncless._core import nonblockingtext

cdef int wait_in(WaitQueue* queue, const char* why, object on, int64_t deadline) except -1:
    """Park the running tasklet in the queue, which lives in `on`. As park(): WOKEN, TIMED_OUT or what was
    thrown.

    When it raises, the tasklet's `handed_over` says whether it had been woken: the waker counts on it.
    """
    cdef Loop loop = get_loop()
    cdef BaseTasklet tasklet = loop.current
    cdef int outcome
    if tasklet is not None:
        tasklet.handed_over = False
        queue_add(queue, tasklet)
    loop.mutual_count += 1
    outcome = unchecked_park(loop, why, on, deadline)
    loop.mutual_count -= 1
    if tasklet is not None:
        if is_queued(tasklet):
            queue_remove(queue, tasklet)
    return failed() if outcome < 0 else outcome


cdef int wait_fd(Loop loop, int fd, int bit, int64_t deadline, const char* why, object on) except -1:
    """Park until the descriptor is ready. The caller has just met EAGAIN, and tells the table to forget the
    descriptor when it closes it."""
    cdef FdEntry* entry
    cdef BaseTasklet tasklet = loop.current
    cdef int outcome
    if Py_IsFinalizing():
        return WOKEN if wait_alone(fd, bit, deadline) else TIMED_OUT
    if tasklet is not None:
        loop.fds.arm(fd, bit)
        entry = &loop.fds.entries[fd]
        queue_add(&entry.readers if bit & READ else &entry.writers, tasklet)
    outcome = unchecked_park(loop, why, on, deadline)
    if tasklet is not None and is_queued(tasklet):
        entry = &loop.fds.entries[fd]               # the table may have moved
        queue_remove(&entry.readers if bit & READ else &entry.writers, tasklet)
    return failed() if outcome < 0 else outcome


cdef int wait_foreign_fd(Loop loop, int fd, int bits, int64_t deadline) except -1:
    """Park until a descriptor that somebody else may close or change is ready: armed for this wait only.
    OSError (EBADF) if a function of the patch closes it meanwhile."""
    cdef uint16_t closed = loop.fds.entry(fd).closed
    cdef int outcome
    try:
        loop.fds.arm_for_wait(fd, bits)
    except PermissionError:
        return WOKEN                        # epoll and kqueue refuse regular files: they are always ready
    try:
        outcome = wait_fd(loop, fd, bits, deadline, "descriptor", fd)
    finally:
        loop.fds.disarm_after_wait(fd)
    if loop.fds.entries[fd].closed != closed:
        raise OSError(EBADF, strerror(EBADF).decode())
    return outcome


def wait_readable(fd, timeout=None) -> bool:
    """Park the tasklet until the descriptor (an int or an object with fileno()) can be read without blocking.

    `timeout` is in seconds; None waits forever. Return False after the timeout. The descriptor need not be a
    socket of syncless.
    """
    cdef int number = fd if isinstance(fd, int) else fd.fileno()
    return wait_foreign_fd(get_loop(), number, READ, deadline_after(timeout)) == WOKEN


def wait_writable(fd, timeout=None) -> bool:
    """Park the tasklet until the descriptor can be written without blocking; see wait_readable()."""
    cdef int number = fd if isinstance(fd, int) else fd.fileno()
    return wait_foreign_fd(get_loop(), number, WRITE, deadline_after(timeout)) == WOKEN


def current() -> BaseTasklet | None:
    """Return the running tasklet. The result is the main tasklet in code that was not spawned, and None in a
    callback of the loop."""
    return get_loop().current


def tasklets() -> list:
    """Return all live tasklets of this thread, oldest first."""
    return get_loop().tasklets()


cpdef bint may_park() noexcept:
    """Return whether the caller is a tasklet, which parks; False at the base of the loop, and in a thread
    without a loop, which blocks."""
    cdef Loop loop = peek_loop()
    return loop is not None and loop.current is not None


cdef int take_turns() except -1:
    """For what never waits and may be called again and again: lets the others run when a poll is due."""
    cdef Loop loop = peek_loop()
    if loop is not None and loop.current is not None and is_poll_due(&loop.clock):
        loop.yield_()
    return 0


cdef int take_turns_on(int fd, int bit) except -1:
    """Before a call on a descriptor, which must not starve the others if it is always ready: when a poll is
    due, they come first. One that is not ready in that direction is going to wait anyway, and does so at
    once: how long turns took must not show in the order of a program that only waits. `bit` 0: only the call
    itself will tell."""
    cdef Loop loop = peek_loop()
    if loop is not None and loop.current is not None and is_poll_due(&loop.clock) and (
            not bit or is_ready(fd, bit)):
        loop.yield_()
    return 0


def give_way() -> None:
    """For what never waits and may be called again and again: lets the others run when a poll is due."""
    take_turns()


def uninterrupted(function, *args, **kwargs):
    """function(*args, **kwargs), whose waits raise nothing that is thrown at the current tasklet, which keeps
    it for its next wait after that; but KeyboardInterrupt is raised. For what must be done whatever
    happens."""
    cdef BaseTasklet me = peek_loop().current if may_park() else None
    cdef int before
    if me is None:
        return function(*args, **kwargs)
    before, me.shielded = me.shielded, SHIELDED
    try:
        return function(*args, **kwargs)
    finally:
        me.shielded = before


def directly(function, *args, **kwargs):
    """function(*args, **kwargs), in which no call parks or yields; a call that waits blocks the thread. For
    what promises not to wait, and for steps that others must not see half done. A debug build asserts that
    no tasklet has run in between."""
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me
    cdef uint64_t before
    if loop is None:
        return function(*args, **kwargs)
    before, me = loop.switched, begin_still(loop)
    try:
        return function(*args, **kwargs)
    finally:
        end_still(loop, me, before)


cdef int end_still(Loop loop, BaseTasklet me, uint64_t before) except -1:
    """The other half of begin_still(). `before`: loop.switched at that time."""
    if me is not None:
        loop.current, loop.still = me, None
    if DEBUG_BUILD and loop.switched != before:
        raise AssertionError("a step that promised not to wait has let other tasklets run: see directly()")
    return 0


cpdef object next_thrown():
    """Return the first exception that was thrown at the current tasklet and is not raised yet, which the
    caller raises; or None."""
    cdef BaseTasklet me = peek_loop().current if may_park() else None
    return None if me is None or me.pending is None or me.shielded else next_pending(me)


cdef class ThrownHere:
    """``with ThrownHere() as thrown``: a list of the exceptions that the current tasklet raises in the block
    because they are thrown at it."""

    def __cinit__(self):
        self.thrown = []

    def __enter__(self):
        self.tasklet = peek_loop().current if may_park() else None
        if self.tasklet is not None:
            self.before, self.tasklet.raised = self.tasklet.raised, self.thrown
        return self.thrown

    def __exit__(self, *error):
        if self.tasklet is not None:
            self.tasklet.raised = self.before
            if self.before is not None:
                self.before.extend(self.thrown)


def sleep(seconds=0) -> None:
    """Park the tasklet for that many seconds (int or float). 0 only yields to other ready tasklets."""
    cdef Loop loop = get_loop()
    cdef int64_t deadline
    if seconds == 0:
        loop.yield_()
        return
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    deadline = deadline_after(seconds)
    loop.park("sleep", None, deadline)


cdef const char* IN_PARK = "wake()"


def park(why="wake()", timeout=None):
    """Park the current tasklet until wake(tasklet, value) is called. Return (True, value), or (False, None)
    after `timeout` seconds."""
    cdef Loop loop = get_loop()
    cdef BaseTasklet tasklet = loop.current
    if not isinstance(why, str) and why is not None:
        raise TypeError(f"why must be a str, not {type(why).__name__}")
    if timeout is not None and Py_IsFinalizing():
        return False, None              # nobody is left to wake it
    if loop.park(IN_PARK, why, deadline_after(timeout)) == WOKEN:
        value, tasklet.value = tasklet.value, None
        return True, value
    return False, None


def wake(BaseTasklet tasklet not None, value=None) -> bool:
    """Wake a tasklet that waits in park(), and pass it the value. Any thread may call wake(). Return False if
    the tasklet does not wait in park()."""
    if tasklet.why != IN_PARK:
        return False                    # a waiter for a lock or a socket must not go on without it
    return get_loop().wake(tasklet, value) == 1


nonblockingtext.set_directly(directly)

if DEBUG_BUILD and environ.get("SYNCLESS_EXPLORE"):
    from syncless._core.explore import explore
    explore(int(environ["SYNCLESS_EXPLORE"]))
