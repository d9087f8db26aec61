"""Timeout: bounds whatever a block of code waits for (as gevent's class of that name)."""

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport INT64_MAX, int64_t

from syncless._core.clock cimport NEVER, deadline_after, monotonic_ns
from syncless._core.loop cimport Loop
from syncless._core.recorder cimport time_went
from syncless._core.scheduler cimport BaseTasklet, Thrown, take_back
from syncless._core.tasklet cimport Tasklet
from syncless._core.threadloop cimport get_loop
from syncless._core.timers cimport Timer, timer_init


cdef Thrown throw_in_time(BaseTasklet target, object exception):
    """Throw the exception, where a clock has rung, so that stop_throwing() can take it back."""
    cdef Thrown thrown = Thrown.__new__(Thrown)
    thrown.exception = exception
    target = stand_in_for(target)
    target.loop.throw(target, thrown)
    return thrown


cdef int stop_throwing(BaseTasklet target, Thrown thrown) except -1:
    """Take it back if it has not been raised."""
    return take_back(stand_in_for(target), thrown)


cdef BaseTasklet stand_in_for(BaseTasklet target):
    """Another may stand for the main tasklet by now, see syncless.stackless."""
    return target.loop.main if isinstance(target, Tasklet) and (<Tasklet> target).is_main else target


cdef object step_of(BaseTasklet target):
    return (<Tasklet> target).step() if isinstance(target, Tasklet) else None


cdef object not_around_await():
    return RuntimeError("a Timeout or deadline does not end an await: use asyncio.timeout() around it")


cdef void time_is_over(void* owner) noexcept:
    cdef Timeout timeout = <Timeout> owner
    Py_DECREF(timeout)
    if timeout.step is not None and step_of(timeout.target) is not timeout.step:
        timeout.target.loop.report(timeout, not_around_await())
        return
    timeout.thrown = throw_in_time(timeout.target, timeout if timeout.other is None else timeout.other)


cdef bint only_bounds(Loop loop, list waiters) noexcept:
    """Return whether each timer of the loop is a Timeout of one of these tasklets."""
    cdef Py_ssize_t i
    cdef Timer* timer
    for i in range(loop.timers.count):
        timer = loop.timers.heap[i]
        if timer.fire != time_is_over or stand_in_for((<Timeout> timer.owner).target) not in waiters:
            return False
    return True


cdef class Timeout(BaseException):
    """Timeout(seconds=None, exception=None)\n--\n\nAn exception that interrupts a tasklet after a time limit.

    ::

        with Timeout(5):            # raises this Timeout after 5 seconds inside the block
            page = fetch(url)

        with Timeout(5, False):     # leaves the block silently after 5 seconds
            page = fetch(url)

        with Timeout(5, KeyError("slow")):      # raises that instead
            page = fetch(url)

    It is a BaseException, so that ``except Exception`` inside the block does not swallow it. ``seconds`` is
    an int or float; None never fires.
    """
    def __cinit__(self):
        timer_init(&self.timer, time_is_over, <void*> self)

    def __init__(self, seconds=None, exception=None):
        self.seconds = seconds
        self.exception = exception
        self.other = None
        if exception is not None and exception is not False:
            self.other = exception() if isinstance(exception, type) else exception

    def start(self) -> None:
        """Start the clock for the current tasklet. Raise RuntimeError if the clock already runs, or in a
        callback of the loop, where there is no tasklet."""
        self._start()

    cdef int _start(self) except -1:
        cdef Loop loop = get_loop()
        cdef int64_t when = deadline_after(self.seconds)
        if self.timer.index >= 0:
            raise RuntimeError("this timeout has already been started")
        if loop.current is None:
            raise RuntimeError("a timeout needs a tasklet to interrupt; a callback of the loop has none")
        if when != NEVER:
            loop.timers.add(&self.timer, when)
            Py_INCREF(self)             # the heap owns a reference while it is set
        if self.thrown is not None:
            self._take_back()
        self.target = loop.current
        self.step = step_of(self.target)
        return 0

    cdef int _begin(self) except -1:
        """Call start() of a subclass, which may have its own."""
        if type(self) is Timeout:
            return self._start()
        self.start()
        return 0

    cdef int _take_back(self) except -1:
        """It has rung; its tasklet may not have been there yet."""
        thrown, self.thrown = self.thrown, None
        return stop_throwing(self.target, thrown)

    @classmethod
    def start_new(cls, seconds=None, exception=None):
        """Return a started Timeout; cancel() ends it."""
        cdef Timeout timeout = cls(seconds, exception)
        timeout._begin()
        return timeout

    def cancel(self) -> None:
        """Stop the clock; harmless if it is not running. An expired timeout that has not been raised yet is
        dropped."""
        self.stop()

    cdef int stop(self) except -1:
        if self.timer.index >= 0:
            self.target.loop.timers.remove(&self.timer)
            Py_DECREF(self)
        elif self.thrown is not None:
            self._take_back()
        self.target = self.step = None
        return 0

    def close(self) -> None:
        """The same as cancel()."""
        self.cancel()

    @property
    def pending(self) -> bool:
        """Whether the clock runs."""
        return self.timer.index >= 0

    def __enter__(self):
        if self.timer.index < 0:
            self._begin()
        return self

    cdef bint replaces(self, object value) except -1:
        """It has rung, and a call of a C library was broken off for it. The library could not raise it, and
        may have raised an error of its own."""
        if self.thrown is None or not stand_in_for(self.target).broken_off:
            return False
        return self.thrown.exception is not None and (value is None or isinstance(value, Exception))

    cdef int end(self, object kind) except -1:
        """The block is left. Raise RuntimeError if there was an await in it: other tasks ran in its
        tasklet."""
        cdef bint awaited = self.step is not None and (
            get_loop().current is not self.target or step_of(self.target) is not self.step)
        self.cancel()
        if awaited and kind is None:
            raise not_around_await()
        return 0

    def __exit__(self, kind, value, trace):
        cdef bint late = self.replaces(value)
        self.end(kind)
        if late and self.exception is not False:
            raise (self if self.other is None else self.other) from value
        return (late or value is self) and self.exception is False

    def __str__(self):
        if self.seconds is None:
            return "no time limit"
        return f"{self.seconds} second{'' if self.seconds == 1 else 's'}"


cdef bint broke_off(Timeout timeout, object value) except -1:
    return timeout.replaces(value)


cdef str time_in(Timeout timeout):
    """Where the time of a request's block went, see recorder.pyx."""
    cdef BaseTasklet tasklet = get_loop().current
    if tasklet is None or timeout.seconds is None:
        return ""
    return time_went(tasklet, timeout.timer.when - <int64_t> (timeout.seconds * 1e9))


cdef int end_block(Timeout timeout, object kind) except -1:
    return timeout.end(kind)


class deadline(Timeout):
    """``with deadline(5):`` bounds every wait in the block, and raises TimeoutError outside the block.

    Deadlines nest: each has its own clock, so an inner one never outlives an outer one. Code in the block
    that catches Exception does not swallow the deadline.
    """

    def __init__(self, seconds):
        super().__init__(seconds)

    def __exit__(self, kind, value, trace):
        late = broke_off(self, value)
        end_block(self, kind)
        if late or value is self:
            error = TimeoutError(f"the deadline of {self} has passed{time_in(self)}")
            raise error from (value if late else None)
        return False

    @staticmethod
    def remaining():
        """Return the seconds until the first clock of the current tasklet expires: a deadline, a Timeout or
        the server's ``request_seconds``. Return 0.0 if one has already expired, None if no clock runs. The
        call looks at each timer of the loop."""
        return remaining_seconds(get_loop())


cdef object remaining_seconds(Loop loop):
    cdef int64_t first = INT64_MAX
    cdef BaseTasklet target
    cdef Timer* timer
    for i in range(loop.timers.count):
        timer = loop.timers.heap[i]
        if timer.fire == time_is_over:
            target = (<Timeout> timer.owner).target
            if timer.when < first and stand_in_for(target) is loop.current:
                first = timer.when
    return None if first == INT64_MAX else max(first - monotonic_ns(), 0) / 1e9
