"""A timer of the processor time of the calling OS thread, which sends it a signal: POSIX timer_create(2) with
CLOCK_THREAD_CPUTIME_ID and Linux's SIGEV_THREAD_ID.

While the thread waits, the timer stands still. It is not inherited by the child of a fork, and ends with a
program that another one replaces.
"""

from libc.errno cimport errno
from libc.stdint cimport int64_t
from libc.string cimport strerror

cdef extern from *:
    """
    #include "syncless_config.h"
    #include <errno.h>
    #include <signal.h>
    #include <string.h>
    #include <time.h>
    #include <unistd.h>
    #if SYNCLESS_CPUTIMER
    #include <sys/syscall.h>
    #ifndef sigev_notify_thread_id
    #define sigev_notify_thread_id _sigev_un._tid
    #endif
    typedef timer_t syncless_timer;
    static int syncless_make_timer(int number, syncless_timer *made) {
        struct sigevent event;
        memset(&event, 0, sizeof event);
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = number;
        event.sigev_notify_thread_id = (int) syscall(SYS_gettid);
        return timer_create(CLOCK_THREAD_CPUTIME_ID, &event, made);
    }
    static int syncless_set_timer(syncless_timer timer, long long nanoseconds) {
        struct itimerspec each;
        each.it_value.tv_sec = each.it_interval.tv_sec = nanoseconds / 1000000000;
        each.it_value.tv_nsec = each.it_interval.tv_nsec = nanoseconds % 1000000000;
        return timer_settime(timer, 0, &each, NULL);
    }
    #else
    typedef int syncless_timer;
    static int syncless_make_timer(int number, syncless_timer *made) { return errno = ENOSYS, -1; }
    static int syncless_set_timer(syncless_timer timer, long long nanoseconds) { return errno = ENOSYS, -1; }
    #endif
    """
    ctypedef struct syncless_timer:
        pass
    int syncless_make_timer(int number, syncless_timer* made)
    int syncless_set_timer(syncless_timer timer, long long nanoseconds)


cdef class ProcessorTimer:
    """ProcessorTimer(number): sends that signal. Stopped at first. OSError where there is no such timer."""
    cdef syncless_timer timer

    def __cinit__(self, int number):
        if syncless_make_timer(number, &self.timer):
            raise OSError(errno, strerror(errno).decode())

    def set(self, int64_t nanoseconds) -> None:
        """Send it each time that the thread has used so much processor time; 0 stops the timer."""
        if syncless_set_timer(self.timer, nanoseconds):
            raise OSError(errno, strerror(errno).decode())
