"""A wait of the thread by itself: in a destructor while the interpreter ends, when no other tasklet runs.

Fact: no other OS thread runs Python code then, either. Danger: a destructor that joins a thread, or waits for
a lock or a queue, gets nothing, and the process lives on until its timeout: psycopg's pool waits 5 seconds
for each of its threads. Decision: a wait that only other code could end is over at once if it has a timeout;
a wait for time or for a descriptor takes its time. Guarded by tests/patches/test_interpreter_ends.py.
"""

from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t

from syncless._core.clock cimport NEVER, monotonic_ns
from syncless._core.poll.poller cimport READ

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events, revents
    int poll(pollfd* fds, unsigned long count, int milliseconds)
    int POLLIN, POLLOUT


cdef inline bint wait_alone(int fd, int bit, int64_t deadline) except -1:
    """Whether the descriptor is ready before the deadline; -1 if there is only the time to wait for."""
    cdef pollfd one
    cdef int found
    cdef int64_t left = 0
    one.fd = fd
    one.events = POLLIN if bit == READ else POLLOUT
    if fd < 0 and deadline == NEVER:
        raise RuntimeError("nothing can end this wait any more: the interpreter is ending")
    while True:
        if deadline != NEVER:
            left = max(0, deadline - monotonic_ns())
        with nogil:
            found = poll(
                &one, 1, -1 if deadline == NEVER else <int> min((left + 999999) // 1000000, 86400000))
        if found > 0 or (found < 0 and errno != EINTR):
            return True
        if deadline != NEVER and monotonic_ns() >= deadline:
            return False
