"""Waits of the running tasklet: for a descriptor, or in the queue of an object. waits.pxd says when to
use which.

Each puts the tasklet into a wait queue, parks it, and takes it out again if it was not woken. So when one
returns, whatever the outcome, the tasklet stands in no queue.
"""

from libc.errno cimport EBADF
from libc.stdint cimport int64_t, uint16_t
from libc.string cimport strerror

from syncless._core.alone cimport wait_alone
from syncless._core.carriers cimport failed
from syncless._core.clock cimport deadline_after
from syncless._core.cpython.compat cimport Py_IsFinalizing
from syncless._core.fdtable cimport FdEntry
from syncless._core.loop cimport Loop
from syncless._core.poll.poller cimport READ, WRITE
from syncless._core.scheduler cimport TIMED_OUT, WOKEN, BaseTasklet, unchecked_park
from syncless._core.threadloop cimport get_loop
from syncless._core.wait.waitqueue cimport WaitQueue, is_queued, queue_add, queue_remove


cdef int wait_in(WaitQueue* queue, const char* why, object on, int64_t deadline) except -1:
    """Parks the running tasklet in the queue, which lives in `on`. As park(): WOKEN, TIMED_OUT or what was
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
    """Parks until the descriptor is ready. The caller has just met EAGAIN, and tells the table to forget the
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
    """Parks until a descriptor that somebody else may close or change is ready: armed for this wait only.
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
    """Parks the tasklet until the descriptor (an int or an object with fileno()) can be read without
    blocking.

    `timeout` in seconds; None waits for ever. Returns False when it passed. The descriptor may belong to
    anybody.
    """
    cdef int number = fd if isinstance(fd, int) else fd.fileno()
    return wait_foreign_fd(get_loop(), number, READ, deadline_after(timeout)) == WOKEN


def wait_writable(fd, timeout=None) -> bool:
    """Parks the tasklet until the descriptor can be written without blocking; see wait_readable()."""
    cdef int number = fd if isinstance(fd, int) else fd.fileno()
    return wait_foreign_fd(get_loop(), number, WRITE, deadline_after(timeout)) == WOKEN
