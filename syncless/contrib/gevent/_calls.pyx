"""Calls: what is due in a hub, called in rounds, and the watchers that programs use most.

Takes functions that are due, and times and descriptors that make one due. Gives calls, in the hub. Native,
because each wait of gevent's makes several. loop.py and watchers.py have the rest.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t

from syncless._core.clock cimport monotonic_ns
from syncless._core.loop cimport Loop, Watcher as Watched
from syncless._core.poll.now cimport is_ready
from syncless._core.poll.poller cimport READ, WRITE
from syncless._core.threadloop cimport get_loop
from syncless._core.timers cimport timer_init
from syncless._core.wait.sync cimport Event
from syncless.contrib.gevent._turns cimport Turns

from greenlet import greenlet

cdef extern from "fcntl.h":
    int fcntl(int fd, int command, ...) nogil
    int F_GETFD

cdef extern from "Python.h":
    object PyErr_SetFromErrno(object kind)

cdef object is_begun = greenlet.__bool__        # gevent's own type answers otherwise
cdef object is_dead = greenlet.dead.__get__
# Modules of the functions of gevent that raise in greenlets from the hub, see Loop.instead_of(). Where gevent
# is compiled, those of killall() have a name that the compiler made.
cdef frozenset OF_GREENLETS = frozenset({"gevent.greenlet", "gevent._gevent_cgreenlet", "cfunc.to_py"})
cdef double LATEST = 9e9            # s; times beyond it would not fit into 64 bits of nanoseconds


cdef class Callback:
    """Callback(callback, args)\n--\n\nA call that is due in the next round. Stopping it drops it."""

    def __init__(self, callback, args):
        self.callback = callback
        self.args = args

    def stop(self) -> None:
        """Drop the call if it has not begun."""
        self.callback = self.args = None

    close = stop

    def __bool__(self):
        return self.args is not None

    @property
    def pending(self) -> bool:
        return self.callback is not None

    @property
    def active(self) -> bool:
        return self.callback is not None

    def __repr__(self):
        return f"<callback of {self.callback!r} with {self.args!r}>"


cdef bint may_begin(function) except -1:
    """Return whether the function is the switch() of a greenlet that has not begun."""
    own = getattr(function, "__self__", None)
    return (
        isinstance(own, greenlet) and not is_begun(own) and not is_dead(own)
        and function.__name__ == "switch")


cdef class Calls:
    """The base of Loop."""

    def __cinit__(self, *args, **kwargs):
        self.turns = Turns()
        self.over = Event()
        self.engine = get_loop()
        self.callbacks = []
        self.due = []
        self.active = set()
        self.rounds = []
        self.descriptors = {}

    @property
    def called(self):
        return self.turns.called

    # -- what is due -----------------------------------------------------------------------------------------

    def run_callback(self, func, *args) -> Callback:
        """Call func(*args) in the hub, in the next round."""
        if getattr(func, "__module__", None) in OF_GREENLETS:
            func, args = self.instead_of(func, args)
        return self.add(func, args)

    def run_callback_threadsafe(self, func, *args) -> Callback:
        """Like run_callback(), from any thread."""
        return self.add(func, args)

    cdef Callback add(self, object function, tuple args):
        cdef Callback call = Callback.__new__(Callback)
        call.callback = function
        call.args = args
        self.callbacks.append(call)
        if not self.turns.called.flag:
            self.turns.called.set()
        return call

    cpdef make_due(self, Watcher watcher):
        """Call its function in the next round."""
        if not watcher.due:
            watcher.due = True
            self.due.append(watcher)
        if not self.turns.called.flag:
            self.turns.called.set()

    cdef int count(self, Py_ssize_t change) except -1:
        """As many more active watchers keep the loop alive."""
        self.turns.counted += change
        if change > 0:
            self.over.flag = False
        elif self.turns.counted == 0:
            self.turns.called.set()         # the hub looks whether anything is left
        return 0

    @property
    def pendingcnt(self) -> int:
        return len(self.due) + len(self.callbacks) - self.first

    def note_round(self, Watcher watcher, bint active) -> None:
        """It is called in each round, or is not any more."""
        if active:
            self.rounds.append(watcher)
            self.turns.called.set()
        elif watcher in self.rounds:
            self.rounds.remove(watcher)

    def is_alive(self) -> bool:
        """Return whether anything is left to do, or to wait for."""
        return self.turns.counted > 0 or len(self.due) > 0 or len(self.callbacks) > self.first

    def run(self, nowait=False, once=False) -> None:
        """Call what is due, round after round: in the hub's greenlet, and wait between the rounds."""
        cdef bint more
        while not self.ended:
            self.turns.called.flag = False
            self.iteration += 1
            self.run_round()
            if nowait:
                return
            if self.turns.counted == 0 and not self.is_alive():
                self.end()
            more = self.turns.called.flag or len(self.rounds) > 0
            self.turns.rest(more, len(self.rounds) > 0)
            if once:
                return

    cdef int run_round(self) except -1:
        cdef Callback call
        cdef Watcher watcher
        cdef list due = self.due    # what becomes due meanwhile comes after the next round's callbacks
        cdef list rounds = self.rounds[:] if self.rounds else None      # greenlets may begin others meanwhile
        cdef Py_ssize_t left = len(self.callbacks) - self.first
        if due:
            self.due = []
        while left > 0 and self.first < len(self.callbacks):
            call = <Callback> self.callbacks[self.first]
            left -= 1
            self.first += 1
            if self.first == len(self.callbacks):
                self.callbacks = []
                self.first = 0
            callback, args = call.callback, call.args
            if callback is None:
                continue
            if not self.begins(callback, args, call):
                call.callback = None
                self.call(callback, args)
                call.args = None
            self.turns.give_turns()
        for watcher in rounds or ():
            if watcher.active:
                watcher.fire()
                self.turns.give_turns()
        if due is self.due:
            return 0
        if len(due) > 1:
            due.sort(key=_urgency)
        for watcher in due:
            watcher.due = False
            if watcher.active:
                watcher.fire()
                self.turns.give_turns()
        return 0

    cdef bint begins(self, object function, tuple args, object source) except -1:
        """Return whether the call lets a greenlet begin, which is done then. `source`: the watcher or
        Callback that is pending until it has begun, or None."""
        if self.turns.hub is None or not may_begin(function):
            return False
        self.turns.begin(function.__self__, args, source)
        return True

    cdef int call(self, object function, tuple args) except -1:
        """Call the function; gevent hears of its exception."""
        try:
            function(*args)
        except BaseException as error:
            self.handle_error(function, type(error), error, error.__traceback__)
        return 0

    # -- times and descriptors -------------------------------------------------------------------------------

    def timer(self, double after, double repeat=0.0, bint ref=True, priority=None) -> Timer:
        cdef Timer made = Timer.__new__(Timer, self, ref, priority)
        if repeat < 0.0:
            raise ValueError(f"repeat must be positive or zero: {repeat!r}")
        made._after = after
        made._repeat = repeat
        return made

    def io(self, int fd, int events, bint ref=True, priority=None) -> Io:
        cdef Io made = Io.__new__(Io, self, ref, priority)
        if fd < 0:
            raise ValueError(f"fd must be non-negative: {fd!r}")
        if events & ~(READ | WRITE):
            raise ValueError(f"illegal event mask: {events!r}")
        if fcntl(fd, F_GETFD) < 0:
            PyErr_SetFromErrno(OSError)
        made._fd = fd
        made._events = events
        return made

    def closing_fd(self, int fd) -> bool:
        """Make the watchers of a descriptor that is about to be closed due. Return whether there are any."""
        cdef Descriptor descriptor = self.descriptors.get(fd)
        if descriptor is None:
            return False
        descriptor.forget()
        descriptor.tell(READ | WRITE)
        return len(descriptor.watchers) > 0

    def begin_anew(self) -> None:
        """In the child of a fork: watchers wait for what they have waited for."""
        for watcher in list(self.active):
            if isinstance(watcher, (Timer, Io)):
                watcher.rejoin()


def _urgency(Watcher watcher):
    return -(watcher._priority or 0)


cdef class Watcher:
    """Watcher(loop, ref=True, priority=None)\n--\n\nThe base of all. It is active from start() to stop()."""

    def __cinit__(self, Calls loop not None, *args, **options):
        self.loop = loop

    def __init__(self, loop, bint ref=True, priority=None):
        self._ref = ref
        self._priority = priority

    def start(self, callback, *args) -> None:
        """Call callback(*args) in the hub at each event from now on."""
        self.start_with(callback, args)

    cdef int start_with(self, object callback, tuple args) except -1:
        if not callable(callback):
            raise TypeError(f"a watcher calls a function, not {callback!r}")
        self._callback = callback
        self._args = args
        if not self.active:
            self.active = True
            self.loop.active.add(self)
            if self._ref:
                self.loop.count(1)
            self.begin()
        return 0

    cpdef stop(self):
        """Call nothing any more."""
        self._callback = self._args = None
        if self.active:
            self.active = False
            self.loop.active.discard(self)
            self.end()
            if self._ref:
                self.loop.count(-1)

    def close(self) -> None:
        """Stop it for good."""
        self.stop()

    cpdef fire(self):
        """Call the function: in the hub."""
        callback, args = self._callback, self._args
        if callback is not None and not self.loop.begins(callback, args, None):
            self.loop.call(callback, args)

    cpdef begin(self):
        """Called when it becomes active."""

    cpdef end(self):
        """Called when it is active no more."""

    def feed(self, int revents, callback, *args) -> None:
        """Call callback(*args) in the next round, as if its event had come."""
        self._callback = callback
        self._args = args
        if not self.active:
            self.active = True
            self.loop.active.add(self)
            if self._ref:
                self.loop.count(1)
        self.loop.make_due(self)

    @property
    def pending(self) -> bool:
        return self.due

    @property
    def callback(self):
        return self._callback

    @callback.setter
    def callback(self, callback):
        if callback is not None and not callable(callback):
            raise TypeError(f"a watcher calls a function, not {callback!r}")
        self._callback = callback

    @property
    def args(self):
        return self._args

    @args.setter
    def args(self, args):
        if args is not None and not isinstance(args, tuple):
            raise TypeError("args must be a tuple or None")
        self._args = args

    @property
    def ref(self) -> bool:
        return self._ref

    @ref.setter
    def ref(self, bint ref):
        if self.active and ref != self._ref:
            self.loop.count(1 if ref else -1)
        self._ref = ref

    @property
    def priority(self) -> int:
        return self._priority or 0

    @priority.setter
    def priority(self, priority):
        self.must_rest("priority")
        self._priority = priority

    cdef int must_rest(self, str what) except -1:
        """Raise AttributeError if it is active: it does not change what it watches then."""
        if self.active:
            raise AttributeError(f"the {what} of an active watcher cannot be changed")
        return 0

    def _format(self) -> str:
        return ""

    def __repr__(self):
        text = f"<{type(self).__name__.lower()} at {id(self):#x}{self._format()}"
        if self.active:
            text += " active"
        if self.due:
            text += " pending"
        if self._callback is not None:
            text += f" callback={self._callback!r} args={self._args!r}"
        return text + ">"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


cdef void deadline_passed(void* owner) noexcept:
    cdef Timer timer = <Timer> owner
    timer.held = False
    timer.loop.make_due(timer)
    Py_DECREF(timer)


cdef class Timer(Watcher):
    """Some seconds have passed, once or again and again."""

    def __cinit__(self, loop, bint ref, priority):
        self._ref = ref
        self._priority = priority
        timer_init(&self.deadline, deadline_passed, <void*> self)

    def start(self, callback, *args, update=True) -> None:
        self.start_with(callback, args)

    cpdef begin(self):
        self.set(self._after)

    cdef int set(self, double seconds) except -1:
        cdef int64_t wait = <int64_t> (min(max(seconds, 0.0), LATEST) * 1e9)
        self.loop.engine.timers.add(&self.deadline, monotonic_ns() + wait)
        self.held = True
        Py_INCREF(self)                     # until it fires or is unset
        return 0

    cdef int unset(self) except -1:
        self.loop.engine.timers.remove(&self.deadline)
        if self.held:
            self.held = False
            Py_DECREF(self)
        return 0

    cpdef end(self):
        self.unset()

    cpdef fire(self):
        callback, args = self._callback, self._args
        if callback is not None and self.loop.begins(callback, args, self):
            return
        if self._repeat:
            self.unset()
            self.set(self._repeat)
        else:
            self.stop()
        if callback is not None:
            self.loop.call(callback, args)

    def again(self, callback, *args, update=True) -> None:
        """Begin anew, with the time of the repetition."""
        cdef double after = self._after
        if self.active:
            self.unset()
            self._callback, self._args = callback, args
            if self._repeat:
                self.set(self._repeat)
            else:
                self.stop()
        elif self._repeat:
            self._after = self._repeat
            try:
                self.start_with(callback, args)
            finally:
                self._after = after

    def rejoin(self) -> None:
        """In the child of a fork, which has cleared all deadlines: it has its own again."""
        if self.held and self.deadline.index < 0:
            self.loop.engine.timers.add(&self.deadline, self.deadline.when)

    @property
    def at(self) -> float:
        return self.deadline.when / 1e9 if self.held else 0.0

    @property
    def after(self) -> float:
        return self._after

    @property
    def repeat(self) -> float:
        return self._repeat


cdef class Io(Watcher):
    """A descriptor can be read, written, or either.

    Fact: a wait of gevent's starts a watcher and stops it again. Decision: the descriptor stays registered
    with the poller from the first start() of a watcher to its close(): the first and the last wait of each
    watcher cost a system call. Danger: its number may be another descriptor's by then. That one has a
    watcher of its own, whose first start() registers the number anew, as with libev.
    """

    def __cinit__(self, loop, bint ref, priority):
        self._ref = ref
        self._priority = priority

    def start(self, callback, *args, pass_events=False) -> None:
        self.pass_events = pass_events
        self.start_with(callback, args)

    cpdef begin(self):
        self.came = 0
        try:
            if self.descriptor is None:
                self.attach()
                self.descriptor.watchers.append(self)
                self.descriptor.register()
            else:
                self.descriptor.watchers.append(self)
                if self.descriptor.is_registered():
                    self.descriptor.look(self._events)
                else:
                    self.descriptor.register()
        except PermissionError:             # a regular file is always ready
            self.descriptor.tell(self._events)
        except BaseException:
            self.close()
            raise

    cpdef end(self):
        if self.descriptor is not None and self in self.descriptor.watchers:
            self.descriptor.watchers.remove(self)

    cdef int attach(self) except -1:
        cdef Descriptor descriptor = self.loop.descriptors.get(self._fd)
        if descriptor is None:
            descriptor = Descriptor.__new__(Descriptor)
            descriptor.calls = self.loop
            descriptor.fd = self._fd
            descriptor.watchers = []
            self.loop.descriptors[self._fd] = descriptor
        descriptor.attached += 1
        descriptor.wanted |= self._events
        self.descriptor = descriptor
        return 0

    cdef int leave(self) except -1:
        cdef Descriptor descriptor = self.descriptor
        if descriptor is None:
            return 0
        self.descriptor = None
        descriptor.attached -= 1
        if not descriptor.attached:
            self.loop.descriptors.pop(self._fd, None)
            descriptor.forget()
        return 0

    def __del__(self):
        self.leave()

    def close(self) -> None:
        self.stop()
        self.leave()

    cpdef fire(self):
        cdef int came = self.came
        self.came = 0
        self.call_with(came)
        if self.active and self.descriptor is not None:
            if fcntl(self._fd, F_GETFD) < 0:    # it was closed: who waits for it learns that by a last call
                self.call_with(READ | WRITE)
                self.close()
            elif self.descriptor.is_registered():
                self.descriptor.look(self._events)

    cdef int call_with(self, int came) except -1:
        callback, args = self._callback, self._args
        if callback is not None and self.pass_events:
            args = (came, *args)
        if callback is not None and not self.loop.begins(callback, args, None):
            self.loop.call(callback, args)
        return 0

    def feed(self, int revents, callback, *args) -> None:
        self.came |= revents
        Watcher.feed(self, revents, callback, *args)

    def rejoin(self) -> None:
        """In the child of a fork, whose poller knows no descriptor: it knows this one again."""
        if self.descriptor is not None and not self.descriptor.is_registered():
            self.descriptor.register()

    @property
    def fd(self) -> int:
        return self._fd

    @fd.setter
    def fd(self, int fd):
        self.must_rest("descriptor")
        self.leave()
        self._fd = fd

    @property
    def events(self) -> int:
        return self._events

    @events.setter
    def events(self, int events):
        self.must_rest("events")
        self.leave()
        self._events = events

    @property
    def events_str(self) -> str:
        return "|".join([name for bit, name in ((READ, "READ"), (WRITE, "WRITE")) if self._events & bit])

    def _format(self) -> str:
        return f" fd={self._fd} events={self.events_str}"


cdef class Descriptor(Watched):
    """The Io watchers of a descriptor, for which the engine watches it."""

    cdef bint is_registered(self) noexcept:
        cdef Loop engine = self.calls.engine
        return self.fd < engine.fds.capacity and engine.fds.entries[self.fd].watcher == <PyObject*> self

    cdef int register(self) except -1:
        """The poller reports whether it is ready now, and each time that it becomes so."""
        self.calls.engine.fds.arm_for_wait(self.fd, self.wanted)
        self.calls.engine.fds.entry(self.fd).watcher = <PyObject*> self
        return 0

    cdef int forget(self) except -1:
        if self.is_registered():
            self.calls.engine.fds.entries[self.fd].watcher = NULL
            self.calls.engine.fds.disarm_after_wait(self.fd)
        return 0

    cdef int look(self, int bits) except -1:
        """Tell if it is ready now; and later, when it becomes so."""
        cdef int ready = 0
        self.calls.engine.fds.arm(self.fd, bits)        # for a poller whose every report is the last one
        if bits & READ and is_ready(self.fd, READ):
            ready |= READ
        if bits & WRITE and is_ready(self.fd, WRITE):
            ready |= WRITE
        return self.tell(ready) if ready else 0

    cdef int tell(self, int bits) except -1:
        cdef Io watcher
        for watcher in self.watchers:
            if watcher._events & bits:
                watcher.came |= watcher._events & bits
                self.calls.make_due(watcher)
        return 0

    cdef int on_ready(self, Loop loop, int bits) except -1:
        return self.tell(bits & (READ | WRITE))
