"""The part of an asyncio loop with which programs ask for calls: soon, later, or when a descriptor is ready;
and run_forever(), which makes them.

Takes callbacks. Gives handles. How they are called is told in rounds.pyx.
"""

import threading
from selectors import _fileobj_to_fd as number_of

from syncless._core.clock cimport monotonic_ns
from syncless._core.loop cimport Loop
from syncless._core.poll.poller cimport READ, WRITE
from syncless._core.threadloop cimport get_loop, peek_loop
from syncless.asyncio.descriptors cimport Descriptors, ReadyHandle
from syncless.asyncio.handles cimport Handle, TimerHandle
from syncless.asyncio.rounds cimport Rounds


cdef class Callbacks:
    """The base of EventLoop."""

    def __cinit__(self, *args, **kwargs):
        self.rounds = Rounds(self)
        self.descriptors = Descriptors(self.rounds)

    # -- soon, and later -------------------------------------------------------------------------------------

    def call_soon(self, callback, *args, context=None):
        """Calls callback(*args) in the loop's next round, in the given context or a copy of the present one.
        Returns a handle."""
        cdef Handle handle = Handle.__new__(Handle)
        handle.fill(self.rounds, callback, args, context)
        if self.rounds.debug:
            self._check_thread()
            handle.look_at("call_soon")
        self.rounds.append(handle)
        return handle

    def call_soon_threadsafe(self, callback, *args, context=None):
        """As call_soon(), from any thread or signal handler."""
        cdef Handle handle = Handle.__new__(Handle)
        handle.fill(self.rounds, callback, args, context)
        if self.rounds.debug:
            handle.look_at("call_soon_threadsafe")
        self.rounds.append(handle)
        return handle

    def call_later(self, delay, callback, *args, context=None):
        """Calls callback(*args) after `delay` seconds. Returns a handle."""
        if delay is None:
            raise TypeError("delay must not be None")
        return self._call_at(self.time() + delay, callback, args, context, "call_later")

    def call_at(self, when, callback, *args, context=None):
        """Calls callback(*args) when loop.time() is `when`, in seconds. Returns a handle."""
        if when is None:
            raise TypeError("when cannot be None")
        return self._call_at(when, callback, args, context, "call_at")

    def _call_at(self, double when, callback, tuple args, context, method):
        cdef TimerHandle handle = TimerHandle.__new__(TimerHandle)
        handle.fill(self.rounds, callback, args, context)
        if self.rounds.debug:
            self._check_thread()
            handle.look_at(method)
        handle.moment = when
        self.rounds.add_timer(handle)
        return handle

    def time(self):
        """Seconds of the monotonic clock."""
        return monotonic_ns() / 1e9

    # -- when a descriptor is ready --------------------------------------------------------------------------

    def _add_reader(self, fd, callback, *args, context=None):
        return self._follow(fd, READ, callback, args, context)

    def _add_writer(self, fd, callback, *args, context=None):
        return self._follow(fd, WRITE, callback, args, context)

    def _remove_reader(self, fd):
        return not self.rounds.closed and self.descriptors.leave(number_of(fd), READ)

    def _remove_writer(self, fd):
        return not self.rounds.closed and self.descriptors.leave(number_of(fd), WRITE)

    def _follow(self, fd, int bit, callback, tuple args, context):
        cdef ReadyHandle handle = ReadyHandle.__new__(ReadyHandle)
        handle.bit = bit
        handle.fill(self.rounds, callback, args, context)
        if self.rounds.debug:
            handle.look_at("add_reader" if bit == READ else "add_writer")
        number = number_of(fd)
        try:
            self.descriptors.follow(number, handle)
        except BaseException:
            self.descriptors.leave(number, bit)
            raise
        return handle

    # -- running ---------------------------------------------------------------------------------------------

    def run_forever(self):
        """Runs the loop until stop(). The calling tasklet waits; all others go on."""
        cdef Loop engine = get_loop()
        cdef Rounds rounds = self.rounds
        self._check_closed()
        self._check_running()
        if engine.current is None:
            raise RuntimeError(
                "an asyncio loop cannot run in a callback of the engine: spawn a tasklet for it")
        self._set_coroutine_origin_tracking(rounds.debug)
        self._thread_id = threading.get_ident()
        rounds.hooks = self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook
        try:
            rounds.begin_run(engine)
            self.descriptors.join_engine()
            rounds.wait_for_end()
        finally:
            rounds.end_run(None)
            self.descriptors.leave_engine(engine)
            self._thread_id = None
            self._set_coroutine_origin_tracking(False)
        if rounds.failure is not None:
            failure, rounds.failure = rounds.failure, None
            raise failure

    def stop(self):
        """run_forever() returns when the callbacks that are due now have been called."""
        self.rounds.stop()

    def _is_this_threads(self):
        """Whether it runs on the calling thread's engine."""
        return self.rounds.engine is not None and self.rounds.engine is peek_loop()

    def _forked(self):
        """In the child of a fork: the loop does not run, and may be run anew."""
        self.rounds.forked()
        self._thread_id = None

    def _ended(self):
        """close(): nothing is called any more."""
        self.rounds.close()
        self.descriptors.by_number.clear()

    # -- how it behaves --------------------------------------------------------------------------------------

    @property
    def blocking(self):
        """The other callbacks while one of them waits in a call: "park" (they go on), "warn" (they go on, and
        each line of the program that waits so is logged once) or "block" (they wait, too, as in any other
        asyncio loop; tasklets go on)."""
        return "block" if self.rounds.blocks else "warn" if self.rounds.warns else "park"

    @blocking.setter
    def blocking(self, value):
        if value not in ("park", "warn", "block"):
            raise ValueError(f"blocking is 'park', 'warn' or 'block', not {value!r}")
        self.rounds.blocks = value == "block"
        self.rounds.warns = value == "warn"
        self.rounds.told = set()

    def set_debug(self, enabled):
        """In debug mode each call is checked, and handles know where they were made."""
        self.rounds.debug = enabled
        super().set_debug(enabled)

    def get_debug(self):
        """Each future and each task asks for it."""
        return self.rounds.debug

    def set_task_factory(self, factory):
        """Tasks are made by factory(loop, coroutine); None: by asyncio.Task."""
        super().set_task_factory(factory)
        self.rounds.task_factory = factory

    def _check_thread(self):
        if self.rounds.engine is not None and get_loop() is not self.rounds.engine:
            raise RuntimeError(
                "Non-thread-safe operation invoked on an event loop other than the current one")
