"""Which loop a thread has: made when the thread first uses syncless, ended when the thread ends, and begun
anew in the child of a fork.

Takes a thread. Gives its Loop, through a thread-local pointer for the running one, through a table for
others. Next to read: current.pyx.

The end of a thread: its own function has returned, and TaskletExit is raised in all its tasklets. They get
some turns, but no time to wait, so that their `finally` blocks run and what they were given goes to others. A
tasklet that still waits then has ended, too: it is never run again, and those that wait for its end are told.

A child after a fork has a loop with a fresh poller, once it polls: most children end before. Of the parent's
tasklets it has only the one that forked.
All others are left as they are and never run: their `finally` blocks belong to the parent. If a tasklet other
than the main one has forked, it is the *orphan*, and the process ends with it, as with a thread that forks.

Fact: a library in C that forks by itself tells Python nothing, so no hook is called (see forkhooks.py).
Danger: tasklets of the parent run in the child, which takes connections and events away from it. Decision:
the C library tells of the child first. The thread has no loop then, and its first look for one begins the
child. Price: none; a look that finds a loop is as before. The calls that patch_native() has changed do not
look, so they wait in libc until then. Guarded by tests/core/test_forking.py.
"""

import os
import sys
import threading
from weakref import WeakValueDictionary

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

from syncless._core cimport scheduler
from syncless._core.clock cimport monotonic_ns
from syncless._core.cpython.compat cimport Py_IsFinalizing, in_main_interpreter
from syncless._core.linked cimport Node
from syncless._core.loop cimport Loop, Watcher
from syncless._core.scheduler cimport (
    COVERED, COVERED_READY, DONE, NEW, READY, BaseTasklet, Meeting, Scheduler, next_pending, polled,
    take_first,
)

from syncless._core.cpython import forkhooks
from syncless._core.exits import TaskletExit
from syncless._core.exits import tell_uncaught

cdef enum:
    LAST_TURNS = 64         # that tasklets get to end in
    GIVING_BACK = 16        # more, for those that have been given something, to give it back


cdef int end_tasklets(Scheduler loop) except -1:
    """Run them to their ends, as far as they come. The main tasklet calls it."""
    cdef int turn
    cdef BaseTasklet tasklet
    told = set()
    loop.ending = True
    for turn in range(LAST_TURNS + GIVING_BACK):
        if turn >= LAST_TURNS and not anything_granted(loop):
            break
        for tasklet in loop.tasklets():
            # one that was spawned by the last words of another
            if tasklet is loop.main or tasklet.state == NEW and turn:
                continue
            if tasklet.serial not in told or turn >= LAST_TURNS and tasklet.state == READY:
                told.add(tasklet.serial)
                loop.throw(tasklet, TaskletExit())
        let_them_run(loop)
    retire(loop)
    for tasklet in loop.tasklets():
        if tasklet is not loop.main:
            tell(loop, tasklet)
    loop.main.state = DONE
    return tell(loop, loop.main)


cdef int let_them_run(Scheduler loop) except -1:
    """One turn. An exception that arrives in the main tasklet has nowhere to go: its code is over."""
    while loop.main.pending is not None:
        lost(loop, next_pending(loop.main))
    if loop.ready.count:
        try:
            loop.yield_()
        except BaseException as error:
            lost(loop, error)
    return 0


cdef int lost(Scheduler loop, BaseException error) except -1:
    """As at the end of a threading.Thread, nobody is told of SystemExit; nor of a Timeout that was not
    cancelled."""
    if isinstance(error, (Exception, KeyboardInterrupt)):
        tell_uncaught("a thread that ends", error)
    return 0


cdef bint anything_granted(Scheduler loop) noexcept:
    """Return whether a tasklet holds what it was given and has not gone on with."""
    cdef Node* one = loop.live.first
    while one != NULL:
        if (<BaseTasklet> one.owner).state == READY and (<BaseTasklet> one.owner).handed_over:
            return True
        one = one.after
    return False


cdef void retire(Scheduler loop) noexcept:
    """None of them runs again, and nobody can give it anything."""
    cdef Node* one = loop.live.first
    loop.closed = True
    while one != NULL:
        if one.owner != <PyObject*> loop.main:
            (<BaseTasklet> one.owner).state = DONE
        one = one.after


cdef int tell(Scheduler loop, BaseTasklet tasklet) except -1:
    """Those that wait for its end, and the object for which it waited, if that counts those that wait."""
    loop.current = None                 # a callback that waits would wait for ever
    try:
        if isinstance(tasklet.waiting_on, Meeting):
            (<Meeting> tasklet.waiting_on).left_by(tasklet)
        tasklet.end_with_thread(loop)
    except BaseException as error:
        lost(loop, error)
    loop.current = loop.main
    return 0


cdef int end_carriers(Scheduler loop) except -1:
    """Ends starters and idle carriers; drops what is in the ready queue. In a child after a fork nobody is
    told of anything."""
    retire(loop)
    for tasklet in loop.tasklets():
        (<BaseTasklet> tasklet).state = DONE
        loop.release(tasklet)
    while loop.ready.count:
        take_first(&loop.ready)
    loop.timers.clear()
    return loop.carriers.end()


cdef extern from *:
    """
    /* Which Loop this thread has. The reference is owned by the thread's state dict. */
    static __thread PyObject *syncless_tls_loop;
    /* In a child that has not begun: the parent's, of this thread, which has forked. */
    static __thread PyObject *syncless_parents_loop;
    """
    PyObject* syncless_tls_loop
    PyObject* syncless_parents_loop

cdef extern from "Python.h":
    PyObject* PyThreadState_GetDict()

cdef object loops = WeakValueDictionary()       # thread id -> Loop


cdef class _LoopOwner:
    """Lives in the thread's state dict; when the thread ends, so does its loop."""
    cdef Loop loop

    def __dealloc__(self):
        end_loop(self.loop)


cdef int end_loop(Loop loop) except -1:
    """The thread ends."""
    global syncless_tls_loop
    cdef PyObject* ending = <PyObject*> loop
    # then the process ends and takes all with it; no code may run any more
    if loop.closed or Py_IsFinalizing():
        return 0
    if syncless_tls_loop == ending:     # not in a child after a fork, which clears away the other threads
        end_tasklets(loop)
        end_watchers(loop)
        syncless_tls_loop = NULL
    end_carriers(loop)
    loop.poller.close()
    return 0


cdef int end_watchers(Loop loop) except -1:
    """Tell each watcher, and run what is due before a poll: it refers to the loop."""
    run_before_last_poll(loop)          # sends the responses that are finished
    for watcher in loop.fds.watchers():
        try:
            (<Watcher> watcher).loop_ended(loop)
        except BaseException as error:
            loop.report("the end of a thread", error)
    return run_before_last_poll(loop)


cdef int run_before_last_poll(Loop loop) except -1:
    while loop.pre_poll_count:
        try:
            loop.run_before_poll()
        except BaseException as error:
            loop.report("the end of a thread", error)
    return 0


cdef Loop peek_loop():
    """This thread's loop, or None if it has not used syncless yet, or runs code of a subinterpreter.

    Fact: subinterpreters share the built-in types, and with them what is patched in place, and run in the
    threads of others. Danger: their code would wait in a loop of the main interpreter, and start its threads.
    Decision: for them there is no loop. Guarded by
    tests/patches/test_patches.py::test_subinterpreters_are_left_alone.
    """
    if syncless_tls_loop != NULL and in_main_interpreter():
        return <Loop> syncless_tls_loop
    if syncless_parents_loop != NULL and in_main_interpreter():
        return begin_child()
    return None


cdef bint has_loop() noexcept nogil:
    """Return whether this thread has one that runs its tasklets. The GIL need not be held."""
    return syncless_tls_loop != NULL


cdef Loop get_loop():
    """Return this thread's loop, which the first call creates."""
    global syncless_tls_loop
    cdef Loop loop
    cdef _LoopOwner owner
    if syncless_tls_loop != NULL:
        return <Loop> syncless_tls_loop
    if syncless_parents_loop != NULL:
        return begin_child()
    if Py_IsFinalizing():
        raise RuntimeError("the interpreter is ending, and this thread has not used syncless before")
    loop = Loop()
    loop.start()
    scheduler.new_main(loop)
    owner = _LoopOwner()
    owner.loop = loop
    kept = PyThreadState_GetDict()
    if kept == NULL:
        raise MemoryError
    (<dict> kept)["syncless"] = owner
    syncless_tls_loop = <PyObject*> loop
    loops[loop.thread_id] = loop
    return loop


def current_loop() -> Loop:
    """Return this thread's loop, which the first call creates."""
    return get_loop()


def all_loops() -> list:
    """Return the loops of all threads, the oldest first."""
    return list(loops.values())


cdef Loop loop_of(object where):
    """Return a Loop, or that of a threading.Thread or of a thread's number. Raise LookupError if the thread
    has none."""
    cdef Loop loop
    if isinstance(where, Loop):
        return where
    number = where if isinstance(where, int) else where.ident if isinstance(where, threading.Thread) else None
    if number is None and not isinstance(where, threading.Thread):
        raise TypeError(f"expected a Loop, a Thread or a thread ident, not {type(where).__name__}")
    loop = loops.get(number)
    if loop is None or loop.ending or loop.closed:
        raise LookupError("that thread has not used syncless yet, or has ended")
    return loop


cdef extern from "<pthread.h>":
    int pthread_atfork(void (*before)() noexcept nogil, void (*in_parent)() noexcept nogil,
                       void (*in_child)() noexcept nogil)


cdef int begin_in_child(Loop loop) except -1:
    cdef list watchers = loop.fds.watchers()
    cdef list deadlines = []
    cdef BaseTasklet one
    cdef bint on_top = loop.top is not None and loop.current is loop.top
    loop.event_pos = loop.event_count = 0
    loop.polling = False
    for one in loop.tasklets() if on_top else ():       # a handler has forked: the main tasklet is below it
        if one.state == COVERED and one.timer.index >= 0:
            deadlines.append((one, one.timer.when))
    loop.fds.abandon(on_top)
    loop.leave_poller()
    polled(&loop.clock, monotonic_ns())
    for watcher in watchers:
        (<Watcher> watcher).forked(loop)
    current = loop.current
    loop.ready.count = loop.pre_poll_count = 0
    loop.timers.clear()
    for one, when in deadlines:
        loop.timers.add(&one.timer, when)
    for tasklet in loop.tasklets():
        if on_top and (<BaseTasklet> tasklet).state in (COVERED, COVERED_READY):
            continue
        if tasklet is not current and tasklet is not loop.main:
            (<BaseTasklet> tasklet).state = DONE
            Py_INCREF(tasklet)              # its frames live on its carrier and must not be unwound here
            loop.release(tasklet)
    if not on_top:
        loop.top = None
        if current is not loop.main:
            loop.orphan = current
    loop.parked_count = loop.mutual_count = loop.jobs = 0
    return 0


def _after_fork_in_child() -> None:
    global syncless_tls_loop, syncless_parents_loop
    if syncless_parents_loop != NULL:
        syncless_tls_loop, syncless_parents_loop = syncless_parents_loop, NULL
        begin_in_child(<Loop> syncless_tls_loop)


cdef Loop begin_child():
    """Something looks for the loop before the hooks have been called, or in a child in which none is."""
    _after_fork_in_child()
    forkhooks.begin_child()
    forkhooks.look()                    # who has asked for the loop may have looked before
    return <Loop> syncless_tls_loop


cdef int forks = 0


cdef void set_aside() noexcept nogil:
    """In the child, before anything else."""
    global syncless_tls_loop, syncless_parents_loop, forks
    forks += 1
    if syncless_tls_loop != NULL:
        syncless_parents_loop, syncless_tls_loop = syncless_tls_loop, NULL


pthread_atfork(NULL, NULL, set_aside)
forkhooks.at_fork(in_child=_after_fork_in_child)


cdef extern from *:
    """
    #include <signal.h>
    #include <unistd.h>
    #ifdef __linux__
    #include <sys/prctl.h>
    #endif

    /* As the interpreter ends for Ctrl-C: its parent, a shell perhaps, sees why. */
    static void end_by_interrupt(void) {
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
    }

    static volatile unsigned orphan_seconds;

    static void end_in(unsigned seconds) {
        signal(SIGALRM, SIG_DFL);
        alarm(seconds);
    }

    static void orphaned(int number) {
        (void)number;
        end_in(orphan_seconds);
    }

    static void watch_parent(unsigned seconds, int parent) {
    #ifdef __linux__
        struct sigaction action = {.sa_handler = orphaned, .sa_flags = SA_RESTART};
        orphan_seconds = seconds;
        sigaction(SIGRTMAX, &action, NULL);
        prctl(PR_SET_PDEATHSIG, SIGRTMAX, 0, 0, 0);
        if (getppid() != parent)        /* it ended before we asked */
            end_in(seconds);
    #else
        (void)seconds, (void)parent;
    #endif
    }
    """
    void watch_parent(unsigned seconds, int parent)
    void end_in(unsigned seconds)
    void end_by_interrupt()
    unsigned orphan_seconds


def end_after_parent(unsigned int seconds, int parent) -> None:
    """SIGALRM kills this process some seconds after its parent has ended, whatever code it is in then.
    SIGRTMAX tells of that end (PR_SET_PDEATHSIG, prctl(2): forgotten when the user changes). Linux only."""
    watch_parent(seconds, parent)


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
    if isinstance(exception, KeyboardInterrupt):
        end_by_interrupt()
    os._exit(code)
