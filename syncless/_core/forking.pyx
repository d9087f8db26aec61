"""The state of a child after a fork: a loop with a fresh poller, and of the parent's tasklets only the one
that forked.

All others are left as they are and never run: their `finally` blocks belong to the parent. If a tasklet other
than the main one has forked, it is the *orphan*, and the process ends with it, as with a thread that forks.

Fact: Python calls what others have registered for the child (threading's is one) before _after_fork_in_child.
It takes locks. Danger: the patched locks give way when a poll is due; tasklets of the parent would run here,
and take connections and events away from it. Decision: the C library tells of the child first, and no poll is
due until begin_child. Guarded by tests/core/test_forking.py.

A library in C that forks by itself tells Python nothing, so begin_child is never called. Such a child has no
loop, so the calls that patch_native() has changed wait in libc, as without it.
"""

import os
import sys

from cpython.ref cimport Py_INCREF

from syncless._core.clock cimport monotonic_ns
from syncless._core.loop cimport Loop, Watcher
from syncless._core.scheduler cimport DONE, BaseTasklet, polled
from syncless._core.threadloop cimport peek_loop, put_off_polls, set_forked

cdef extern from "<pthread.h>":
    int pthread_atfork(void (*before)() noexcept nogil, void (*in_parent)() noexcept nogil,
                       void (*in_child)() noexcept nogil)


cdef int begin_child(Loop loop) except -1:
    cdef list watchers = loop.fds.watchers()
    loop.event_pos = loop.event_count = 0
    loop.polling = False
    loop.fds.abandon()
    loop.poller.open()
    polled(&loop.clock, monotonic_ns())
    loop.forked = True
    loop.hear_signals()
    for watcher in watchers:
        (<Watcher> watcher).forked(loop)
    current = loop.current
    loop.ready.count = loop.pre_poll_count = 0
    loop.timers.clear()
    for tasklet in loop.tasklets():
        if tasklet is not current and tasklet is not loop.main:
            (<BaseTasklet> tasklet).state = DONE
            Py_INCREF(tasklet)              # its frames live on its carrier and must not be unwound here
            loop.release(tasklet)
    if current is not loop.main:
        loop.orphan = current
    loop.parked_count = loop.mutual_count = loop.jobs = 0
    return 0


def _after_fork_in_child() -> None:
    cdef Loop loop = peek_loop()
    set_forked(False)
    if loop is not None:
        begin_child(loop)


cdef void note_fork() noexcept nogil:
    """In the child, before anything else."""
    set_forked(True)
    put_off_polls()


pthread_atfork(NULL, NULL, note_fork)
os.register_at_fork(after_in_child=_after_fork_in_child)


cdef extern from *:
    """
    #include <signal.h>
    #include <unistd.h>
    #ifdef __linux__
    #include <sys/prctl.h>
    #endif

    static volatile unsigned orphan_seconds;

    static void end_in(unsigned seconds) {
        signal(SIGALRM, SIG_DFL);
        alarm(seconds);
    }

    static void orphaned(int number) {
        (void)number;
        end_in(orphan_seconds);
    }

    static void watch_parent(unsigned seconds) {
    #ifdef __linux__
        struct sigaction action = {.sa_handler = orphaned, .sa_flags = SA_RESTART};
        orphan_seconds = seconds;
        sigaction(SIGRTMAX, &action, NULL);
        prctl(PR_SET_PDEATHSIG, SIGRTMAX, 0, 0, 0);
    #else
        (void)seconds;
    #endif
    }
    """
    void watch_parent(unsigned seconds)
    void end_in(unsigned seconds)
    unsigned orphan_seconds


def end_after_parent(unsigned int seconds) -> None:
    """SIGALRM kills this process some seconds after its parent has ended, whatever C code it is in then.
    SIGRTMAX tells of that end (PR_SET_PDEATHSIG, prctl(2): forgotten when the user changes). Linux only."""
    watch_parent(seconds)


def end_within(unsigned int seconds) -> None:
    """SIGALRM kills this process some seconds from now, even if it was to live until its parent ends."""
    global orphan_seconds
    orphan_seconds = seconds
    end_in(seconds)


cdef void end_process(BaseException exception) noexcept:
    """The orphan has ended in the child, where nothing else exists: so does the process."""
    code = 0
    if isinstance(exception, SystemExit):
        code = exception.code if isinstance(exception.code, int) else 0 if exception.code is None else 1
    elif exception is not None:
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    os._exit(code)
