"""O_NONBLOCK for the moment of one call, where the call has no flag of its own that forbids waiting.

Fact: the mode belongs to the open file description, which others may share. Decision: it is set for the call
only, which does not wait, and restored at once. Price: three system calls more.
"""

from libc.errno cimport errno
from posix.fcntl cimport F_GETFL, F_SETFL, O_NONBLOCK, fcntl

cdef extern from *:
    """
    #include <errno.h>
    #ifndef SYNCLESS_SET_ERRNO
    #define SYNCLESS_SET_ERRNO
    static inline void syncless_set_errno(int error) { errno = error; }
    #endif
    """
    void set_errno "syncless_set_errno" (int error) noexcept nogil


cdef inline int begin_nonblocking(int fd) noexcept nogil:
    """Returns what end_nonblocking() is to be given."""
    cdef int flags = fcntl(fd, F_GETFL)
    if flags < 0 or flags & O_NONBLOCK:
        return -1                       # nothing to restore
    fcntl(fd, F_SETFL, flags | O_NONBLOCK)
    return flags


cdef inline void end_nonblocking(int fd, int flags) noexcept nogil:
    """The descriptor is as before; errno stays."""
    cdef int error
    if flags >= 0:
        error = errno
        fcntl(fd, F_SETFL, flags)
        set_errno(error)


cdef inline bint never_blocks(int fd) noexcept nogil:
    """Whether its owner has set O_NONBLOCK."""
    cdef int flags = fcntl(fd, F_GETFL)
    return flags != -1 and (flags & O_NONBLOCK) != 0
