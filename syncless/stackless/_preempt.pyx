"""run(timeout): a tasklet that runs too many bytecodes in one turn is taken from the processor."""

from syncless._core.bytecodes cimport BytecodeLimit
from syncless._core.cpython.counting cimport interpreter_checks, others_are_traced, traced_again
from syncless._core.scheduler cimport BaseTasklet
from syncless.stackless._tasklet cimport tasklet
from syncless.stackless._thread cimport PAUSED, Thread, end_run, pause


cdef class Preemption(BytecodeLimit):
    """Of one call of run(). Hard: the tasklet is paused where the interpreter would let another thread run,
    and run() returns it. Soft: run() goes on at its next switch."""
    cdef Thread state
    cdef BaseTasklet runner
    cdef bint soft

    cdef int exceeded(self, BaseTasklet running) except -1:
        cdef int tracing
        if running is self.runner or self.state.switch_trap or (
            isinstance(running, tasklet) and (<tasklet> running).atomic
        ):
            return 0                            # asked again before its next bytecode
        if not self.soft and not interpreter_checks():
            return 0                            # `one.count += 1` is done whole
        if not end_run(self.state, self.runner):
            return 0                            # it is over already, or another run() within it is not
        self.left = self.limit
        if self.soft:
            return 0
        self.state.interrupted = running
        tracing = others_are_traced()
        try:
            pause(self.state, running, PAUSED, None)
        finally:
            traced_again(tracing)
        return 0


cdef BytecodeLimit preemption(Thread state, BaseTasklet runner, timeout, bint soft, bint in_all):
    made = Preemption(timeout, in_all)
    made.state, made.runner, made.soft = state, runner, soft
    return made
