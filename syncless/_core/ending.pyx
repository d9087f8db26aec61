"""How a thread's tasklets end when the thread does, its own function having returned.

TaskletExit is raised in all of them. They get some turns, but no time to wait, so that their `finally` blocks
run and what they were given goes to others. A tasklet that still waits then has ended, too: it is never run
again, and those that wait for its end are told.
"""

from cpython.object cimport PyObject

from syncless._core.linked cimport Node
from syncless._core.scheduler cimport (
    DONE, NEW, READY, BaseTasklet, Meeting, Scheduler, next_pending, take_first,
)

from syncless._core.exits import TaskletExit
from syncless._core.uncaught import tell_uncaught

cdef enum:
    LAST_TURNS = 64         # that tasklets get to end in
    GIVING_BACK = 16        # more, for those that have been given something, to give it back


cdef int end_tasklets(Scheduler loop) except -1:
    """Runs them to their ends, as far as they come. The main tasklet calls it."""
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
    """Whether a tasklet holds what it was given and has not gone on with."""
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
