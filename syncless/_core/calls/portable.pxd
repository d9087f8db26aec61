"""System calls and flags that not every system has, and what stands in for them (syncless_config.h); calls on
a blocking descriptor that must not wait.

O_NONBLOCK for the moment of one call, where the call has no flag of its own that forbids waiting. Fact: the
mode belongs to the open file description, which others may share. Decision: it is set for the call only,
which does not wait, and restored at once. Price: three system calls more.
"""

from libc.errno cimport errno
from posix.fcntl cimport F_GETFL, F_SETFL, O_NONBLOCK, fcntl
from posix.types cimport off_t

cdef extern from *:
    """
    #include "syncless_config.h"
    #include <errno.h>
    #include <fcntl.h>
    #include <sys/types.h>
    #include <sys/socket.h>
    #include <sys/time.h>
    #include <unistd.h>
    #include <signal.h>
    #if SYNCLESS_SENDFILE
    #include <sys/sendfile.h>
    #endif
    #if SYNCLESS_SIGNALFD
    #include <sys/signalfd.h>
    #endif

    #ifndef SYNCLESS_SYSTEM
    #define SYNCLESS_SYSTEM
    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0      /* the interpreter ignores SIGPIPE */
    #endif
    #ifndef MSG_FASTOPEN
    #define MSG_FASTOPEN 0
    #endif
    #if SYNCLESS_ERRQUEUE
    #define SYNCLESS_MSG_ERRQUEUE MSG_ERRQUEUE
    #else
    #define SYNCLESS_MSG_ERRQUEUE 0
    #endif

    /* Nanoseconds for which a blocking call on the descriptor waits; 0: for ever, or it is no socket. */
    static inline long long syncless_kernel_limit(int fd, int writing) {
        struct timeval limit = {0, 0};
        socklen_t size = sizeof limit;
        if (getsockopt(fd, SOL_SOCKET, writing ? SO_SNDTIMEO : SO_RCVTIMEO, &limit, &size))
            return 0;
        return limit.tv_sec * 1000000000LL + limit.tv_usec * 1000LL;
    }

    /* A connection whose descriptor is not inherited, and does not block if that is asked for. */
    static inline int syncless_accept_connection(int listener, void *address, socklen_t *length, int blocks) {
    #if SYNCLESS_ACCEPT4
        return accept4(listener, address, length, SOCK_CLOEXEC | (blocks ? 0 : SOCK_NONBLOCK));
    #else
        int fd = accept(listener, address, length);
        if (fd >= 0) {
            int flags = fcntl(fd, F_GETFL);
            fcntl(fd, F_SETFD, FD_CLOEXEC);
            fcntl(fd, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
        }
        return fd;
    #endif
    }

    /* Bytes of a file into a socket, from an offset that goes on; ENOSYS: copy them. */
    static inline ssize_t syncless_send_file(int out, int file, off_t *offset, size_t count) {
    #if SYNCLESS_SENDFILE
        return sendfile(out, file, offset, count);
    #else
        errno = ENOSYS;
        return -1;
    #endif
    }

    /* A descriptor that is readable while one of these signals is pending. */
    static inline int syncless_signal_descriptor(const sigset_t *signals) {
    #if SYNCLESS_SIGNALFD
        return signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
    #else
        (void) signals;
        errno = ENOSYS;
        return -1;
    #endif
    }
    #endif
    """
    ctypedef struct sigset_t:
        pass
    int sigemptyset(sigset_t* signals)
    int sigaddset(sigset_t* signals, int number)
    int signal_descriptor "syncless_signal_descriptor" (const sigset_t* signals)
    int MSG_NOSIGNAL, MSG_FASTOPEN
    int MSG_ERRQUEUE "SYNCLESS_MSG_ERRQUEUE"
    long long kernel_limit "syncless_kernel_limit" (int fd, bint writing) nogil
    int accept_connection "syncless_accept_connection" (int listener, void* address, unsigned int* length,
                                                        bint blocks) noexcept nogil
    ssize_t sendfile "syncless_send_file" (int out, int file, off_t* offset, size_t count) noexcept nogil


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
