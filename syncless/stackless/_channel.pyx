# cython: binding=False, always_allow_keywords=False, embedsignature=True, embedsignature.format=clinic
"""Channels: tasklets exchange values, within a thread or between threads."""

cimport cython
from collections import deque

from cpython.object cimport PyObject

from syncless._core.linked cimport Node
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport READY, STANDS_IN, BaseTasklet, Meeting, StandIn
from syncless._core.wait.select cimport Case
from syncless._core.wait.waitqueue cimport is_queued, queue_add, queue_pop, queue_remove, WaitQueue, waits
from syncless.stackless._arguments cimport at_most, required
from syncless.stackless._tasklet cimport tasklet
from syncless.stackless._thread cimport IN_CHANNEL, Thread, bomb, exception_of, here, leave as give_way, pause

from syncless._core.scheduler import set_case_maker

cdef object channel_callback = None
cdef object ABSENT = object()


cdef int call_back(channel self, BaseTasklet me, int direction, object value, bint blocks) except -1:
    """Report an action before it happens. The value to send is the tasklet's tempval meanwhile."""
    if not isinstance(me, tasklet):
        channel_callback(self, me, direction > 0, blocks)
        return 0
    value, (<tasklet> me).tempval = (<tasklet> me).tempval, value
    try:
        channel_callback(self, me, direction > 0, blocks)
    finally:
        (<tasklet> me).tempval = value
    return 0


cdef object received(object value):
    if type(value) is bomb:
        (<bomb> value)._raise()
    return value


cdef class channel(Meeting):
    """channel()\n--\n\n\
    A meeting point of a sender and a receiver. The first of the two waits for the other.

    If a receiver is killed or interrupted before its turn, the next receiver gets its value. Until then, the
    channel keeps the value, which counts in `balance` like a sender.
    """
    cdef WaitQueue senders          # both are in use only while a select() would either send or receive
    cdef WaitQueue receivers
    cdef object kept  # deque of values whose senders have gone on, or None; then no receiver waits
    cdef Py_ssize_t waits           # senders that wait and values kept, less the receivers that wait
    cdef int _preference
    cdef bint _schedule_all
    cdef readonly bint closing
    cdef object __weakref__

    def __cinit__(self, *_, **__):
        self._preference = -1

    def __init__(self, *args, **kwargs):
        """Arguments are for subclasses, as in Stackless."""

    cdef Py_ssize_t look(self) noexcept:
        """Return the balance."""
        self.first(1)
        self.first(-1)
        return self.waits

    cdef PyObject* first(self, int direction) noexcept:
        """Return the first waiting sender (1) or receiver (-1), or NULL. A killed tasklet that has not left
        yet does not count."""
        cdef WaitQueue* line = self.line(direction)
        while line.first != NULL and not waits(<BaseTasklet> line.first.owner):
            self.leaves(<BaseTasklet> line.first.owner, direction)
        return line.first.owner if line.first != NULL else NULL

    cdef WaitQueue* line(self, int direction) noexcept:
        return &self.senders if direction > 0 else &self.receivers

    cdef void leaves(self, BaseTasklet one, int direction) noexcept:
        """Its wait is over without a partner."""
        queue_remove(self.line(direction), one)
        self.waits -= direction
        if isinstance(one, Case):
            (<Case> one).counted = False

    cdef int left_by(self, BaseTasklet one) except -1:
        cdef Node* first = &one.place
        if is_queued(one):
            while first.before != NULL:
                first = first.before
            self.leaves(one, 1 if first == self.senders.first else -1)
        return 0

    cdef bint meets(self, int direction) noexcept:
        """Return whether it need not wait."""
        return self.first(-direction) != NULL or direction < 0 and self.kept is not None

    @property
    def balance(self):
        """The number of waiting tasklets: positive for senders, negative for receivers."""
        return self.look()

    cdef object action(self, int direction, object value):
        cdef Thread state = here()
        cdef Loop loop = state.loop
        cdef BaseTasklet me = loop.current, target
        cdef bint meets = self.meets(direction), yields
        if channel_callback is not None:
            call_back(self, me, direction, value, not meets)
            meets = self.meets(direction)
        if not meets:
            return self.wait_for_other(state, me, direction, value)
        if direction < 0 and self.kept is not None:
            return self.take_kept()
        yields = me is not None and (self._schedule_all or self._preference == -direction)
        if state.switch_trap and yields:
            raise RuntimeError("switch_trap")
        target = queue_pop(self.line(-direction))
        self.waits += direction
        value, target.value = target.value, value
        if (
            target.state == STANDS_IN or target.loop is not loop or self._preference != -direction
            or self._schedule_all
        ):
            self.meet(target)
        else:
            target.state = READY
            target.handed_over = True
            loop.push_first(target)
        if target.state == STANDS_IN or target.loop is not loop:
            return value
        if yields:
            self.let_run(state, me, direction, value)
        return value

    cdef int let_run(self, Thread state, BaseTasklet me, int direction, object value) except -1:
        """The partner runs first. An exception thrown meanwhile keeps this tasklet from its value."""
        try:
            give_way(state, me, True)
        except BaseException:
            if direction < 0:
                self.give_back(value)
            raise
        return 0

    cdef int meet(self, BaseTasklet target) except -1:
        """It goes on with target.value, at the end of its run queue."""
        if target.state == STANDS_IN:               # of a tasklet in select()
            return (<StandIn> target).taken(target.value)
        target.state = READY
        target.handed_over = True
        return target.loop.push(target)

    cdef int give_back(self, object value) except -1:
        """A receiver ended before it took its value."""
        cdef BaseTasklet target
        cdef PyObject* first = self.first(-1)
        if first != NULL:
            target = <BaseTasklet> first
            queue_remove(&self.receivers, target)
            self.waits += 1
            target.value = value
            return self.meet(target)
        if self.kept is None:
            self.kept = deque()
        self.kept.append(value)
        self.waits += 1
        return 0

    cdef object take_kept(self):
        value = self.kept.popleft()
        if not self.kept:
            self.kept = None
        self.waits -= 1
        return value

    cdef object wait_for_other(self, Thread state, BaseTasklet me, int direction, object value):
        if me is None:
            raise RuntimeError(
                "the event loop itself cannot wait for a channel: let it spawn a tasklet instead")
        if isinstance(me, tasklet) and (<tasklet> me).block_trap:
            raise RuntimeError("this tasklet does not like to be blocked.")
        if self.closing:
            raise ValueError("Send/receive operation on a closed channel")
        if state.switch_trap:
            raise RuntimeError("switch_trap")
        me.value = value
        me.handed_over = False
        queue_add(self.line(direction), me)
        self.waits += direction
        try:
            pause(state, me, IN_CHANNEL, self)
        except BaseException:
            value, me.value = me.value, None
            if is_queued(me):
                self.leaves(me, direction)
            elif me.handed_over and direction < 0:
                self.give_back(value)
            raise
        value, me.value = me.value, None
        return value

    def send(self, value):
        """Wait for a receiver, and pass it the value."""
        self.action(1, value)

    def receive(self):
        """Wait for a sender, and return its value or raise its exception. Raise ValueError if the channel is
        closed."""
        return received(self.action(-1, None))

    @cython.embedsignature(False)
    def send_exception(self, exc=ABSENT, *args):
        """send_exception($self, exc, *args)\n--\n\n\
        Raise exc(*args) in the receiver."""
        if exc is ABSENT:
            required("send_exception", "exc")
        if not (isinstance(exc, type) and issubclass(exc, BaseException)):
            raise TypeError("channel.send_exception() argument 1 must be an exception class")
        self.action(1, bomb(exc, args))

    @cython.embedsignature(False)
    def send_throw(self, exc=ABSENT, val=None, tb=None, *excess):
        """send_throw($self, exc, val=None, tb=None)\n--\n\n\
        Raise the exception in the receiver, like throw()."""
        at_most("send_throw", 3, excess)
        if exc is ABSENT:
            required("send_throw", "exc")
        self.action(1, bomb(type(exception_of(exc, val, tb)), exception_of(exc, val, tb), tb))

    def send_sequence(self, seq):
        """Send each item. Return their number."""
        count = 0
        for value in seq:
            self.action(1, value)
            count += 1
        return count

    def __iter__(self):
        return self

    def __next__(self):
        if self.closing and not self.meets(-1):
            raise StopIteration
        return self.receive()

    def clear(self):
        """Kill all tasklets that wait for the channel, in order, and drop the values that it keeps."""
        cdef Node* place
        cdef list waiting = []
        for direction in (1, -1):
            place = self.line(direction).first
            while place != NULL:
                waiting.append(<BaseTasklet> place.owner)
                place = place.after
        if self.kept is not None:
            self.waits -= len(self.kept)
            self.kept = None
        for each in waiting:
            if waits(<BaseTasklet> each):           # one that was killed before it may have met it
                each = (<Case> each).selection.owner if isinstance(each, Case) else each
                each.kill()

    def close(self):
        """Refuse further waits. Tasklets that already wait can still exchange values."""
        self.closing = True

    def open(self):
        self.closing = False

    @property
    def closed(self):
        """Whether close() was called and no tasklet waits any longer."""
        return self.closing and self.look() == 0

    @property
    def queue(self):
        """The first waiting tasklet, or None."""
        cdef PyObject* first = self.first(1)
        if first == NULL:
            first = self.first(-1)
        return <object> first if first != NULL else None

    @property
    def preference(self):
        """Which tasklet runs next when two meet: -1 the receiver, 1 the sender, 0 the last to arrive."""
        return self._preference

    @preference.setter
    def preference(self, value):
        if not isinstance(value, int):
            raise TypeError("preference must be set to an integer")
        self._preference = (value > 0) - (value < 0)

    @property
    def schedule_all(self):
        """Whether the second to come yields, too, with any preference."""
        return self._schedule_all

    @schedule_all.setter
    def schedule_all(self, value):
        if not isinstance(value, int):
            raise TypeError("schedule_all must be set to a bool or integer")
        self._schedule_all = bool(value)

    def __reduce__(self):
        if self.look():
            raise TypeError("a channel with waiting tasklets cannot be pickled")
        return _restored, (self._preference, self._schedule_all, self.closing)

    def __repr__(self):
        return f"<channel at {id(self):#x}, balance {self.look()}{', closing' if self.closing else ''}>"


def _restored(preference, schedule_all, closing):
    made = channel()
    made.preference, made.schedule_all = preference, schedule_all
    if closing:
        made.close()
    return made


def set_channel_callback(callback):
    """Call callback(channel, tasklet, sending, willblock) before each action on a channel; None stops that.
    Return the previous callback."""
    global channel_callback
    if callback is not None and not callable(callback):
        raise TypeError("channel callback must be callable")
    before, channel_callback = channel_callback, callback
    return before


def get_channel_callback():
    """Return the current callback, or None."""
    return channel_callback


cdef class _ChannelCase(Case):
    """A channel in syncless.select()."""
    cdef object item
    cdef int direction

    cdef bint ready(self) noexcept:
        cdef channel source = <channel> self.source
        return source.meets(self.direction) or source.closing

    cdef object take(self):
        value = (<channel> self.source).action(self.direction, self.item)
        return received(value) if self.direction < 0 else None

    cdef int enter(self) except -1:
        cdef BaseTasklet owner = self.selection.owner
        if isinstance(owner, tasklet) and (<tasklet> owner).block_trap:
            raise RuntimeError("this tasklet does not like to be blocked.")
        self.queue = (<channel> self.source).line(self.direction)
        self.value = self.item
        (<channel> self.source).waits += self.direction
        return Case.enter(self)

    cdef int unmet(self) except -1:
        (<channel> self.source).waits -= self.direction
        return 0

    cdef int undo(self, object value) except -1:
        return (<channel> self.source).give_back(value) if self.direction < 0 else 0

    cdef object result(self, object value):
        return received(value) if self.direction < 0 else None


def _case(channel source, value=ABSENT):
    made = _ChannelCase(source)
    made.direction = -1 if value is ABSENT else 1
    made.item = None if value is ABSENT else value
    return made


set_case_maker(channel, _case)
