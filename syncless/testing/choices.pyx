"""The choices of a schedule: what comes next, where the engine may choose.

Takes: a seed, or the choices of an earlier run that were not the usual ones. Gives: decisions, at the seams
that `explorer` of _core/scheduler.pxd names, and before the bytecodes of threads. It must not know what is
tested, nor which time it is: search.py and virtualtime.py, to be read next.

A choice has a kind, a number (how many of that kind there were before) and a value; 0 is the usual one:

| kind | where | values |
|---|---|---|
| order | several tasklets are ready | the place of the next one, in the order in which they became so |
| call | a call that need not wait, while another tasklet is ready | 1: the others come first; 2: see below |
| code | a bytecode of a thread's own code, while another tasklet is ready | the same |
| tie | timeouts are over, and other timers | 0: these come first; 1: all at once; 2 ...: that timeout |
| net | something is sent in a network in memory | 0: it arrives; 1 ...: a fault, see network.py |

With 2 a tasklet is *held back*: it goes on when no other one is ready. Each kind has numbers of its own, so
that one choice more or less does not shift the meaning of all later ones.

A seed alone fixes a run. One of three has few choices at places that it draws; one gives each tasklet a
priority, with few places at which one loses it (as PCT does, and how often it finds a fault that needs d such
places can be calculated); one chooses at random, seldom or often.

Who asks again and again, and never waits, must not keep the others from running, whatever is chosen: after 64
turns without a poll, or CODE_TURN bytecodes without a turn of another one, it is held back, and there is one.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport strcmp

from syncless._core.bytecodes cimport BytecodeLimit
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport (
    PARKED, RUNNING, SHIELDED, BaseTasklet, Observer, PollClock, ReadyQueue, Runnable, Scheduler,
    explorer, item_at, polled,
)
from syncless._core.threadloop cimport get_loop
from syncless._core.timers cimport Timer

import sys

from syncless._core.cpython.counting import count_only

cdef enum:
    ORDER, CALL, CODE, TIE, NET, KINDS

cdef enum:
    CODE_TURN = 10000           # bytecodes
    MOST_TIES = 64              # timers of one moment among which one is chosen
    SCALES = 10                 # places are drawn among the first 4, 8, 16 ... of a kind, small ones rather

cdef uint64_t NO_MORE = 1 << 62     # the number of a choice that never comes

cdef Choices active = None      # those of the loop whose tasklets are scheduled


cdef class Choices:
    """Those of one run: drawn from the seed, or `given`, the usual ones elsewhere."""
    cdef uint64_t state                 # of the random numbers
    cdef uint64_t[KINDS] counts, next_at
    cdef uint64_t[KINDS] one_in         # how many choices there are for an unusual one; drawn at random
    cdef list given                     # for each kind the (number, value) that come, the next one last
    cdef bint has_priorities
    cdef dict seen                      # serial of a tasklet -> its place in the order of first choices
    cdef set held_back                  # serials
    cdef Loop loop
    cdef BaseTasklet body               # whose own code is that of a thread
    cdef uint64_t since                 # bytecodes since its last turn began
    cdef Preempting preempting
    cdef readonly list taken            # the (kind, number, value) of unusual ones

    def __init__(self, seed=None, given=()):
        cdef int kind
        cdef uint64_t before
        self.taken, self.held_back, self.seen, self.given = [], set(), {}, None
        if seed is None:
            self._give(given)
            return
        self.state = <uint64_t> (seed + 1) * <uint64_t> 0x9E3779B97F4A7C15
        for _ in range(4):
            self.any_of(2)              # the first numbers of small seeds are alike
        if seed % 3 == 2:
            self.one_in = [[1, 2, 4][self.any_of(3)], [2, 8, 40][self.any_of(3)],
                           [4, 20, 100, 600][self.any_of(4)], 2, 1]
            for kind in range(NET):
                self.next_at[kind] = self.any_of(2 * self.one_in[kind] - 1)
            before = self.state
            self.one_in[NET] = [2, 8, 30][self.any_of(3)]
            self.next_at[NET] = self.any_of(2 * self.one_in[NET] - 1)
            self.state = before         # what a network draws shifts nothing else
            return
        self.has_priorities = seed % 3 == 1
        scale = 4 << min(self.any_of(SCALES), self.any_of(SCALES))
        places = [self._any_place(scale) for _ in range(1 + self.any_of(3))]
        before = self.state
        places += [(NET, self.any_of(2 << self.any_of(5)), 1 + self.any_of(6)) for _ in range(self.any_of(3))]
        self.state = before
        self._give(places)

    def _any_place(self, uint64_t scale):
        """Draw a place at which something unusual is chosen, and what."""
        cdef list kinds = [CALL, CODE, CODE] if self.has_priorities else [CODE, CODE, CODE, CALL, ORDER, TIE]
        cdef int kind = kinds[self.any_of(len(kinds))]
        if kind == CALL or kind == CODE:
            return kind, self.any_of(scale), [1, 2, 2][self.any_of(3)]
        return kind, self.any_of(scale), 1 + self.any_of(6)

    def _give(self, choices):
        """The (kind, number, value) of unusual ones; the usual ones elsewhere."""
        cdef int kind
        self.given = [[] for _ in range(KINDS)]
        for kind, number, value in sorted(set(choices), reverse=True):
            self.given[kind].append((number, value))
        for kind in range(KINDS):
            self.foresee(kind)

    cdef int foresee(self, int kind) except -1:
        """Note which choice of the kind is the next that is given."""
        cdef list left = self.given[kind]
        self.next_at[kind] = left[len(left) - 1][0] if left else NO_MORE
        return 0

    cdef uint64_t any_of(self, uint64_t count) noexcept:
        """Return a number below the count: xorshift64*."""
        self.state ^= self.state >> 12
        self.state ^= self.state << 25
        self.state ^= self.state >> 27
        return ((self.state * <uint64_t> 0x2545F4914F6CDD1D) >> 33) % count

    cdef uint64_t decide(self, int kind, uint64_t options) except? 0:
        """Return one of that many values; 0 is the usual one."""
        cdef uint64_t number = self.counts[kind], value = 0
        self.counts[kind] += 1
        if number < self.next_at[kind]:
            return 0
        if self.given is None:
            self.next_at[kind] = number + 1 + self.any_of(2 * self.one_in[kind] - 1)
            value = self.any_of(options)
            if value == 0:
                return 0
        else:
            value = self.given[kind].pop()[1]
            value = 1 + (value - 1) % (options - 1)
            self.foresee(kind)
            while self.next_at[kind] <= number:     # another one for this place
                self.given[kind].pop()
                self.foresee(kind)
        self.taken.append((kind, number, value))
        return value

    @property
    def made(self) -> int:
        """How many choices there were."""
        return sum(self.counts)

    @property
    def preempts(self) -> bool:
        """Whether threads are stopped between bytecodes: no debugger or tool is in the way."""
        return self.preempting is not None

    # -- which tasklet is the next -------------------------------------------------------------------------

    cdef uint64_t priority_of(self, BaseTasklet tasklet) except? 0:
        """It depends on how many others were seen before, not on its serial, which another run lacks."""
        cdef uint64_t mixed = self.seen.setdefault(tasklet.serial, len(self.seen))
        mixed = (mixed + self.state) * <uint64_t> 0x9E3779B97F4A7C15
        return (mixed ^ mixed >> 29) * <uint64_t> 0xBF58476D1CE4E5B9 >> 32

    cdef int choose(self, Scheduler loop) except -1:
        cdef ReadyQueue* queue = &loop.ready
        cdef size_t i, at = 0
        cdef uint64_t place = 0, candidates = 0, best = 0, chosen = 0, priority
        cdef bint all_are_held = True
        cdef PyObject* item
        if queue.count == 0 or not isinstance(<object> item_at(queue, 0), BaseTasklet):
            return 0                                # work of the engine's own keeps its place
        for i in range(queue.count):
            if not self.is_held(item_at(queue, i)):
                all_are_held = False
                candidates += 1
        if all_are_held:
            self.held_back.clear()
            candidates = queue.count
        if candidates > 1:
            if self.has_priorities:
                chosen = 0
                for i in range(queue.count):
                    if (all_are_held or not self.is_held(item_at(queue, i))):
                        if isinstance(<object> item_at(queue, i), BaseTasklet):
                            priority = self.priority_of(<BaseTasklet> item_at(queue, i))
                            if priority > best:
                                best, chosen = priority, place
                        place += 1
                if chosen:
                    self.taken.append((<int> ORDER, self.counts[ORDER], chosen))
                self.counts[ORDER] += 1
            else:
                chosen = self.decide(ORDER, candidates)
        place = 0
        for i in range(queue.count):
            if all_are_held or not self.is_held(item_at(queue, i)):
                if place == chosen:
                    at = i
                    break
                place += 1
        item = item_at(queue, at)
        for i in range(at, 0, -1):                  # those before it keep their order
            queue.ring[(queue.head + i) & queue.mask] = item_at(queue, i - 1)
        queue.ring[queue.head] = item
        if self.held_back and isinstance(<object> item, BaseTasklet):
            self.held_back.discard((<BaseTasklet> item).serial)
        self.since = 0
        return 0

    cdef bint is_held(self, PyObject* item) except -1:
        if not self.held_back or not isinstance(<object> item, BaseTasklet):
            return False
        return (<BaseTasklet> item).serial in self.held_back

    # -- whether a tasklet goes on -------------------------------------------------------------------------

    cdef bint due(self, PollClock* clock) except -1:
        cdef BaseTasklet me = self.loop.current
        cdef uint64_t value
        clock.turns_left -= 1
        if clock.turns_left <= 0:
            if me is not None and self.loop.ready.count:
                self.held_back.add(me.serial)
            return True
        if me is None or me.state != RUNNING or self.loop.ready.count == 0:
            return False                            # the engine asks, or there are no others
        value = self.decide(CALL, 3)
        if value == 2:
            self.held_back.add(me.serial)
        return value != 0

    cdef int before_bytecode(self, BaseTasklet me) except -1:
        cdef uint64_t value
        cdef int before
        if self.loop.current is not me or not (me is self.body or me.sets_own):
            return 0
        self.since += 1
        if self.since > CODE_TURN:
            self.since, self.loop.clock.turns_left, value = 0, 0, 2
        elif self.loop.ready.count:
            value = self.decide(CODE, 3)
        else:
            return 0
        if value == 0 or is_inside_ours():
            return 0
        if value == 2:
            self.held_back.add(me.serial)
        before, me.shielded = me.shielded, SHIELDED
        try:
            self.loop.yield_()
        finally:
            me.shielded = before
        return 0

    # -- from when to when ---------------------------------------------------------------------------------

    def start(self, BaseTasklet body not None, own) -> None:
        """This thread's tasklets are scheduled so from now on. own(file name): whether it is of the program,
        whose threads are stopped between bytecodes; the body's too. None: no thread is."""
        global active
        if active is not None:
            raise RuntimeError("a schedule is already active")
        self.loop, self.body = get_loop(), body
        polled(&self.loop.clock, self.loop.clock.now)       # as many turns until the next as in all runs
        active = self
        explore()
        if own is not None:
            self.preempting = Preempting(1, True)
            count_only(own)
            try:
                self.preempting.start()
            except RuntimeError:                    # a debugger, or coverage
                self.preempting = None
                count_only(None)

    def stop(self) -> None:
        """The usual choices from now on."""
        global active
        if active is self:
            if self.preempting is not None:
                self.preempting.stop()
                count_only(None)
            active = None
            explore()


cdef BaseTasklet yielding = None    # in each call in which it may


def yields_always(BaseTasklet tasklet) -> BaseTasklet | None:
    """This tasklet yields from now on in each call that need not wait; None: none does. Return the one that
    did so before."""
    global yielding
    before, yielding = yielding, tasklet
    explore()
    return before


def is_shielded(BaseTasklet tasklet not None) -> bool:
    """Return whether its wait goes on, whatever is thrown at it."""
    return tasklet.shielded == SHIELDED


cdef int explore() except -1:
    """Be asked while there is something to choose."""
    explorer.most_events = 256
    if active is None and yielding is None:
        explorer.due, explorer.choose = NULL, NULL
    else:
        explorer.due, explorer.choose = is_due, choose_first
    return 0


cdef bint is_due(PollClock* clock) noexcept:
    if (yielding is not None and yielding.state == RUNNING and yielding.loop.current is yielding
            and clock == &yielding.loop.clock):
        return True
    if active is not None and clock == &active.loop.clock:
        return active.due(clock)
    clock.turns_left -= 1                           # another thread's
    return clock.turns_left <= 0


cdef void choose_first(Scheduler loop) noexcept:
    if active is not None and loop is active.loop and not explorer.keeps_order:
        active.choose(loop)


cdef class Preempting(BytecodeLimit):
    """Is called before each bytecode of the program's own code."""

    cdef int exceeded(self, BaseTasklet tasklet) except -1:
        return 0 if active is None else active.before_bytecode(tasklet)


cdef set beginnings = set()
cdef str ours = __file__.rpartition("testing")[0]


def begins_here(code) -> None:
    """A function of ours with this code runs the program: what has called it is neither ours nor its."""
    beginnings.add(code)


cdef bint is_inside_ours() except -1:
    """Whether code of ours is on the stack above the program's: it relies on running alone between two
    waits, also where it calls the program's."""
    cdef bint ends_in_ours = False, any_ours = False
    frame = sys._getframe()
    while frame is not None and frame.f_code not in beginnings:
        if frame.f_code.co_filename.startswith(ours):
            ends_in_ours = True
        else:
            any_ours = any_ours or ends_in_ours
            ends_in_ours = False
        frame = frame.f_back
    return any_ours


def choose_fault(uint64_t options) -> int:
    """Return 0, the usual one, or which of so many things happens to something that is sent."""
    if active is None or options < 2 or active.loop is not get_loop():
        return 0
    return active.decide(NET, options)


# -- time ----------------------------------------------------------------------------------------------------


cdef class Quiet(Runnable):
    """Calls when_quiet(loop) where nothing is ready, no event has come, and the loop would sleep. It stands
    in the ready queue meanwhile, so that the poll does not wait."""
    cdef object when_quiet

    def __init__(self, when_quiet):
        self.when_quiet = when_quiet

    cdef int turn(self, Scheduler loop) except -1:
        if loop.ready.count == 0:
            self.when_quiet(loop)
        return 0

    def look(self, Loop loop not None) -> None:
        """The next poll does not wait."""
        loop.push(self)


def next_deadline_of(Loop loop not None) -> int | None:
    """Return when its first timer fires, ns. Where a timeout is over just then, and something else happens,
    too, choose what comes first: the rest does 1 ns later."""
    cdef Py_ssize_t i, ties = 0
    cdef int64_t when
    if loop.timers.count == 0:
        return None
    when = loop.timers.heap[0].when
    for i in range(loop.timers.count):
        ties += loop.timers.heap[i].when == when
    if ties > 1 and ties <= MOST_TIES and active is not None and loop is active.loop:
        put_off(loop, when, ties)
        put_off_callbacks(loop, when)
    return when


cdef int put_off_callbacks(Loop loop, int64_t when) except -1:
    """Of timers of one moment that wake no tasklet, but call something (asyncio's), choose the first one: the
    others fire 1 ns later, when there is a choice among them again."""
    cdef Timer* found[MOST_TIES]
    cdef Timer* each
    cdef Py_ssize_t i, j, count = 0
    cdef uint64_t value
    for i in range(loop.timers.count):
        each = loop.timers.heap[i]
        if each.when != when or each.fire == active.body.timer.fire:
            continue
        for j in range(count, 0, -1):               # in the order in which they were set
            if found[j - 1].order < each.order:
                break
            found[j] = found[j - 1]
        else:
            j = 0
        found[j] = each
        count += 1
    if count < 2:
        return 0
    value = active.decide(TIE, count)
    if value == 0:
        return 0
    for i in range(count):
        if i != <Py_ssize_t> value:
            loop.timers.remove(found[i])
            loop.timers.add(found[i], when + 1)
    return 0


def set_aside_timers(Loop loop not None) -> list:
    """Take the timeouts of tasklets that wait now out of the loop, until put_back_timers()."""
    cdef BaseTasklet each
    cdef list aside = []
    for each in loop.tasklets():
        if each.timer.index >= 0:
            aside.append((each, each.timer.when))
            loop.timers.remove(&each.timer)
    return aside


def put_back_timers(Loop loop not None, list aside not None) -> None:
    cdef BaseTasklet each
    for each, when in aside:
        if each.state == PARKED and each.timer.index < 0:
            loop.timers.add(&each.timer, when)


cdef int put_off(Loop loop, int64_t when, Py_ssize_t ties) except -1:
    cdef BaseTasklet each
    cdef list waiters = [
        each for each in loop.tasklets()
        if (<BaseTasklet> each).timer.index >= 0 and (<BaseTasklet> each).timer.when == when]
    cdef list timeouts = [each for each in waiters if strcmp((<BaseTasklet> each).why, b"sleep") != 0]
    cdef uint64_t value
    if not timeouts:
        return 0
    value = active.decide(TIE, 2 + len(timeouts))
    first = None if value < 2 else timeouts[value - 2]
    if value == 1 or value == 0 and len(timeouts) == ties:
        return 0
    for each in waiters if value else timeouts:
        if each is not first:
            loop.timers.remove(&each.timer)
            loop.timers.add(&each.timer, when + 1)
    return 0


def awaited_descriptors(Loop loop not None) -> list[int]:
    """Return those that may wake it."""
    cdef int fd
    return [
        fd for fd in range(loop.fds.capacity)
        if loop.fds.entries[fd].watcher != NULL or loop.fds.entries[fd].readers.first != NULL
        or loop.fds.entries[fd].writers.first != NULL]


# -- what happens --------------------------------------------------------------------------------------------


cdef class Watch(Observer):
    """stopped(tasklet) is called in a tasklet that yields, waits or has ended; went_on(tasklet) in one that
    begins or goes on. Nothing that they call waits."""
    cdef object stopped, went_on
    cdef Loop loop

    def __init__(self, stopped, went_on):
        self.stopped, self.went_on = stopped, went_on

    cdef int begins(self, object tasklet) except -1:
        self.went_on(tasklet)
        return 0

    cdef int stops(self, object tasklet) except -1:
        self.stopped(tasklet)
        return 0

    def start(self) -> None:
        """In this thread, from now on."""
        self.loop = get_loop()
        self.loop.observe(self)

    def stop(self) -> None:
        self.loop.unobserve(self)
