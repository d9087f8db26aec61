# cython: binding=False, always_allow_keywords=False, embedsignature=True, embedsignature.format=clinic
"""schedule() and run(), and facts about a thread.

run(timeout): a tasklet that runs too many bytecodes in one turn is taken from the processor."""

cimport cython

from syncless._core.bytecodes cimport BytecodeLimit
from syncless._core.cpython.counting cimport interpreter_checks, others_are_traced, traced_again
from syncless._core.scheduler cimport READY, BaseTasklet, pass_turn
from syncless.stackless._arguments cimport at_most
from syncless.stackless._tasklet cimport tasklet
from syncless.stackless._thread cimport (
    IN_RUN, PAUSED, Thread, end_run, here, leave, leave_run, number_of_thread, other_threads, pause,
    run_queue, running, threads,
)


cdef class Preemption(BytecodeLimit):
    """Of one call of run(). Hard: the tasklet is paused where the interpreter would let another thread run,
    and run() returns it. Soft: run() goes on at its next switch."""
    cdef Thread state
    cdef BaseTasklet runner
    cdef bint soft

    cdef int exceeded(self, BaseTasklet present) except -1:
        cdef int tracing
        if present is self.runner or self.state.switch_trap or (
            isinstance(present, tasklet) and (<tasklet> present).atomic
        ):
            return 0                            # asked again before its next bytecode
        if not self.soft and not interpreter_checks():
            return 0                            # `one.count += 1` is done whole
        if not end_run(self.state, self.runner):
            return 0                            # it is over already, or another run() within it is not
        self.left = self.limit
        if self.soft:
            return 0
        self.state.interrupted = present
        tracing = others_are_traced()
        try:
            pause(self.state, present, PAUSED, None)
        finally:
            traced_again(tracing)
        return 0


cdef BytecodeLimit preemption(Thread state, BaseTasklet runner, timeout, bint soft, bint in_all):
    made = Preemption(timeout, in_all)
    made.state, made.runner, made.soft = state, runner, soft
    return made


cdef object ABSENT = object()


@cython.embedsignature(False)
def schedule(retval=ABSENT, *excess):
    """schedule(retval=...)\n--\n\n\
    Lets the other ready tasklets run once. Returns `retval`, or the present tasklet."""
    cdef Thread state = here()
    at_most("schedule", 1, excess)
    cdef BaseTasklet me = running(state)
    hold(me, retval)
    me.state = READY
    state.loop.push(me)
    pass_turn(state.loop, me)
    return held(me, retval)


@cython.embedsignature(False)
def schedule_remove(retval=ABSENT, *excess):
    """schedule_remove(retval=...)\n--\n\n\
    As schedule(), but pauses the present tasklet until it is inserted again."""
    cdef Thread state = here()
    at_most("schedule_remove", 1, excess)
    cdef BaseTasklet me = running(state)
    hold(me, retval)
    leave(state, me, False)
    return held(me, retval)


cdef inline void hold(BaseTasklet me, object retval) noexcept:
    """Others may change it meanwhile."""
    if isinstance(me, tasklet):
        (<tasklet> me).tempval = me if retval is ABSENT else retval


cdef inline object held(BaseTasklet me, object retval):
    if not isinstance(me, tasklet):
        return me if retval is ABSENT else retval
    retval, (<tasklet> me).tempval = (<tasklet> me).tempval, None
    return retval


@cython.embedsignature(False)
def run(timeout=0, threadblock=False, soft=False, ignore_nesting=False, totaltimeout=False, *excess):
    """run(timeout=0, threadblock=False, soft=False, ignore_nesting=False, totaltimeout=False)\n--\n\n\
    Runs the others until none is ready and none waits for input, output or a time. Raises what no tasklet
    has caught.

    `timeout`: a tasklet that runs more bytecodes than this in one turn is paused at its next call, jump back
    or beginning of a function, and returned; with `soft` run() ends at its next switch instead, and returns
    None. `totaltimeout`: in all their turns together.
    `threadblock`: while tasklets wait for channels, waits for another thread that may meet them.
    `ignore_nesting` changes nothing: a tasklet can be interrupted at any depth. Within a run() that has a
    timeout, further ones have none.
    """
    cdef Thread state = here()
    cdef BaseTasklet me = running(state)
    cdef BytecodeLimit limit = None
    at_most("run", 5, excess)
    if timeout and state.runners[0] is None:
        limit = preemption(state, me, timeout, soft, totaltimeout)
        limit.start()                       # RuntimeError if a debugger traces
        state.runners[0] = me
    state.runners.append(me)
    state.awaits_threads += bool(threadblock)
    try:
        pause(state, me, IN_RUN, None)
    finally:
        if limit is not None:
            limit.stop()
            state.runners[0] = None
        state.awaits_threads -= bool(threadblock)
        leave_run(state, me)
        interrupted, state.interrupted = state.interrupted, None
    return interrupted


def getcurrent():
    """The running tasklet."""
    return here().loop.current


def getmain():
    """This thread's main tasklet."""
    return here().loop.main


def getruncount():
    """How many tasklets are in the run queue, the running one included."""
    return len(run_queue(here().loop))


def getcurrentid():
    """A number that identifies the running tasklet."""
    return id(here().loop.current)


class _ThreadNotFound(RuntimeError, ValueError):
    """A RuntimeError like all errors here, and a ValueError because an argument is wrong."""


@cython.embedsignature(False)
def get_thread_info(thread_id=None, flags=0, *excess):
    """get_thread_info(thread_id=None, flags=0)\n--\n\n\
    (main tasklet, current tasklet, run count) of a thread, by default this one. RuntimeError, which is a
    ValueError, too, if there is no such thread.

    `flags` with bit 30 adds three figures of Stackless's C stacks, of which there are none here: always 0,
    0 and None. Bit 31 adds a list: the tasklet whose run() has a timeout, or None, and all that are in
    run(). It stays up to date, and must not be changed.
    """
    cdef Thread state = here()
    at_most("get_thread_info", 2, excess)
    thread_id = number_of_thread(thread_id)
    if thread_id != -1 and thread_id != state.loop.thread_id:
        if thread_id not in threads:
            raise _ThreadNotFound("Thread id not found")
        state = threads[thread_id]
    info = state.loop.main, state.loop.current, len(run_queue(state.loop))
    if flags & 1 << 30:
        info += 0, 0, None
    if flags & 1 << 31:
        info += state.runners,
    return info


def getthreads():
    """The ids of the threads that have tasklets, this one first."""
    mine = here().loop.thread_id
    other_threads(None)
    return [mine, *(each for each in threads if each != mine)]


def switch_trap(delta=0):
    """While the sum of all deltas is not 0, a switch raises RuntimeError. Returns the sum as it was."""
    cdef Thread state = here()
    before = state.switch_trap
    state.switch_trap += delta
    return before


class atomic:
    """with atomic(): the tasklet must not be preempted."""

    def __enter__(self):
        self._tasklet = getcurrent()
        if self._tasklet is not None:  # a callback of the loop belongs to no tasklet, and is not preempted
            self._before = self._tasklet.set_atomic(True)

    def __exit__(self, *error):
        if self._tasklet is not None:
            self._tasklet.set_atomic(self._before)


def getdebug():
    """Whether this is a debugging build of Stackless's interpreter: False."""
    return False


def getuncollectables():
    """The objects that Stackless could not free: none."""
    return []


def enable_softswitch(flag):
    """Greenlets switch on the C stack, always. Returns False."""
    return False
