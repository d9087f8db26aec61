"""Observers that measure: BytecodeLimit, how many bytecodes a tasklet runs in one turn, counted exactly; and
the processor time that each tasklet uses.

A limit stands on cpython/counting.pyx, which calls it before each bytecode. Python code is several times
slower while one is on. CPU time is measured while debug.measure_cpu() is on, for one system call per switch.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from syncless._core.clock cimport CLOCK_THREAD_CPUTIME_ID, clock_ns
from syncless._core.cpython.counting cimport (
    FLAG_PER_GREENLET, begin_counting, end_counting, follow_trace, prepare_stack,
)
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport RUNNING, BaseTasklet, Observer
from syncless._core.threadloop cimport get_loop, peek_loop

cdef int64_t NEVER_AGAIN = 1 << 62          # in this turn


cdef int one_more(PyObject* thread) except -1:
    """A bytecode is going to be run in this thread, whose Loop is given, or NULL."""
    cdef Loop loop = <Loop> thread if thread != NULL else peek_loop()
    cdef BytecodeLimit each
    if loop is None or loop.limits is None or loop.current is None or loop.current.state != RUNNING:
        return 0
    for item in <list> loop.limits:
        each = <BytecodeLimit> item
        each.left -= 1
        if each.left < 0:
            each.exceeded(loop.current)
            break                           # the list may be another one
    return 0


cdef class _Follower(Observer):
    """Before 3.12. Stays for good: a tasklet that stopped while a limit was on, or before, goes on with or
    without being traced as it is now."""

    cdef int begins(self, object tasklet) except -1:
        follow_trace()
        return 0


cdef bint follows(Loop loop) except -1:
    return (loop.observers is not None
        and any([isinstance(each, _Follower) for each in loop.observers.observers]))


cdef class BytecodeLimit(Observer):
    """exceeded() is called when a tasklet of this thread has run more than `limit` bytecodes in one turn;
    with `in_all`, when all have."""

    def __init__(self, int64_t limit, bint in_all=False):
        if limit < 1:
            raise ValueError(f"the limit must be at least 1 bytecode, not {limit}")
        self.limit = self.left = limit
        self.in_all = in_all
        self.known = {}

    cdef int exceeded(self, BaseTasklet tasklet) except -1:
        """Called before each further bytecode, until it sets `left` anew or the turn ends."""
        return 0

    cdef int begins(self, object tasklet) except -1:
        if not self.in_all:
            self.left = self.limit
        prepare_stack(self.known)
        return 0

    def start(self) -> None:
        """Count in this thread from now on."""
        cdef Loop loop = get_loop()
        if self.loop is not None:
            raise RuntimeError("this limit is already active")
        begin_counting(one_more, <PyObject*> loop, loop.limits is None)
        if FLAG_PER_GREENLET and not follows(loop):
            loop.observe(_Follower())
        self.loop = loop
        self.left = self.limit
        self.known.clear()
        loop.limits = [self, *(loop.limits or ())]
        loop.observe(self)

    def stop(self) -> None:
        """No more; harmless if it is not on."""
        cdef Loop loop = self.loop
        if loop is None:
            return
        self.loop = None
        loop.limits = [other for other in loop.limits if other is not self] or None
        loop.unobserve(self)
        end_counting(loop.limits is None)


cdef class TurnLimit(BytecodeLimit):
    """report(tasklet) is called, once for each turn that has more bytecodes."""
    cdef object report

    def __init__(self, limit, report):
        BytecodeLimit.__init__(self, limit)
        self.report = report

    cdef int exceeded(self, BaseTasklet tasklet) except -1:
        self.left = NEVER_AGAIN
        self.report(tasklet)
        return 0


cdef class CpuTime(Observer):
    """Adds to each tasklet of this thread what it uses."""
    cdef int64_t since
    cdef bint running
    cdef Loop loop

    cdef int begins(self, object tasklet) except -1:
        if not self.running:                # else it gave way, and nobody else was ready
            self.since = clock_ns(CLOCK_THREAD_CPUTIME_ID)
            self.running = True
        return 0

    cdef int stops(self, object tasklet) except -1:
        (<BaseTasklet> tasklet).cpu += clock_ns(CLOCK_THREAD_CPUTIME_ID) - self.since
        self.running = False
        return 0

    def start(self) -> None:
        """In this thread, from now on."""
        self.loop = get_loop()
        self.since = clock_ns(CLOCK_THREAD_CPUTIME_ID)
        self.running = self.loop.current is not None
        self.loop.observe(self)

    def stop(self) -> None:
        if self.loop is not None:
            self.loop.unobserve(self)
            self.loop = None
