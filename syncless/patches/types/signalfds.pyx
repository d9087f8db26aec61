"""Descriptors that tell of blocked signals (signalfd, Linux)."""

cdef extern from *:
    """
    #include "syncless_config.h"
    #include <errno.h>
    #include <signal.h>
    #if SYNCLESS_SIGNALFD
    #include <sys/signalfd.h>
    static int syncless_signalfd(const sigset_t *signals) {
        return signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
    }
    #else
    static int syncless_signalfd(const sigset_t *signals) {
        (void) signals;
        errno = ENOSYS;
        return -1;
    }
    #endif
    """
    ctypedef struct sigset_t:
        pass
    int sigemptyset(sigset_t* signals)
    int sigaddset(sigset_t* signals, int number)
    int syncless_signalfd(const sigset_t* signals)


def pending_descriptor(numbers) -> int:
    """A new descriptor that is readable while one of these signals is pending; -1 if none can be had. The
    signals stay pending."""
    cdef sigset_t signals
    sigemptyset(&signals)
    for number in numbers:
        sigaddset(&signals, number)
    return syncless_signalfd(&signals)
