"""Kills, timeouts and exceptions at every switch point: nothing is lost, nothing stays locked, every
`finally` runs once."""

import random
import time

import pytest

import syncless
from syncless import (
    AsyncResult,
    BoundedSemaphore,
    Channel,
    Condition,
    Event,
    Lock,
    Pool,
    Queue,
    RLock,
    Semaphore,
    TaskGroup,
    TaskletExit,
    Timeout,
    deadline,
    join_all,
    putting,
    select,
    sending,
    sleep,
    spawn,
)
from syncless.io import socket
from syncless.stackless import channel

pytestmark = pytest.mark.virtual_time


class Interrupted(Exception):
    """Raised from outside."""


class World:
    """The objects that tasklets share."""

    def __init__(self):
        self.lock, self.rlock, self.semaphore, self.condition = Lock(), RLock(), Semaphore(2), Condition()
        self.queue, self.small, self.channel, self.event = Queue(), Queue(1), Channel(), Event()
        self.small.put(object())
        self.bounded, self.plain, self.pool, self.old = (
            BoundedSemaphore(1),
            Condition(Lock()),
            Pool(2),
            channel(),
        )
        self.entered = self.left = self.inside = 0
        self.received = []

    # each is a piece of code that waits, at several points

    def locks(self):
        with self.lock:
            sleep(0)
            with self.rlock, self.rlock:
                sleep(0)
            with self.semaphore:
                sleep(0.001)

    def conditions(self):
        with self.condition:
            self.condition.wait(0.002)
            self.condition.notify()

    def critical(self):
        with self.lock, self.bounded:
            assert self.inside == 0
            self.inside += 1
            try:
                sleep(0)
            finally:
                self.inside -= 1
        with self.plain:
            self.plain.wait(0.001)
            self.plain.notify()

    def timed(self):
        if self.rlock.acquire(timeout=0.0005):
            try:
                sleep(0.0003)
            finally:
                self.rlock.release()

    def results(self):
        result = AsyncResult()
        other = spawn(lambda: (sleep(0.0005), result.set(1)))
        try:
            result.get(timeout=0.0006)
        finally:
            other.join()

    def old_channels(self):
        item = object()
        other = spawn(lambda: self.received.append(self.old.receive()))
        try:
            with deadline(0.003):
                self.old.send(item)
        finally:
            other.kill()

    def queues(self):
        item = object()
        self.received.append(self.small.get(timeout=0.01))
        sleep(0)
        self.small.put(item, timeout=0.01)

    def channels(self):
        item = object()
        other = spawn(lambda: self.received.append(self.channel.receive(timeout=0.01)))
        try:
            self.channel.send(item, timeout=0.01)
        finally:
            other.join()

    def selecting(self):
        item = object()
        index, value = select(
            [self.queue, putting(self.small, item), sending(self.channel, item), self.event], timeout=0.005
        )
        if index == 0:
            self.received.append(value)

    def groups(self):
        with TaskGroup() as group:
            group.spawn(sleep, 0.001)
            group.spawn(self.locks)

    def pools(self):
        assert Pool(2).map(lambda number: (sleep(0), number)[1], range(4)) == [0, 1, 2, 3]
        self.pool.apply(sleep, 0)

    def sockets(self):
        a, b = socket.socketpair()
        with a, b:
            a.settimeout(0.005)
            other = spawn(b.sendall, b"x" * 10)
            try:
                assert a.recv(100) == b"x" * 10
                with pytest.raises(TimeoutError):
                    a.recv(1)
            finally:
                other.join()

    def deadlines(self):
        with Timeout(0.002, False), deadline(5):
            self.event.wait()

    def joins(self):
        inner = spawn(sleep, 0.001)
        try:
            inner.join(0.0005)
            join_all([inner])
        finally:
            inner.kill()

    def piece(self, name):
        self.entered += 1
        try:
            getattr(self, name)()
        finally:
            self.left += 1

    def check(self):
        """In any case, all is free again and every item is in one place."""
        assert self.entered == self.left
        assert not self.lock.locked() and self.semaphore.value == 2 and not self.rlock._is_owned()
        with deadline(5), self.rlock, self.condition:
            pass
        assert (
            self.bounded.value == 1
            and not self.plain._lock.locked()
            and self.inside == 0
            and self.pool.free_count() == 2
        )
        assert self.channel.balance == self.old.balance == 0
        left = []
        for queue in (self.queue, self.small):
            while not queue.empty():
                left.append(queue.get())
        return left


PIECES = [
    "locks",
    "conditions",
    "critical",
    "timed",
    "results",
    "old_channels",
    "queues",
    "channels",
    "selecting",
    "groups",
    "pools",
    "sockets",
    "deadlines",
    "joins",
]
EXPECTED = (Interrupted, TimeoutError, syncless.Full, syncless.Empty)


def unexpected(reports):
    """The reports that are neither a kill nor a time that was over."""
    found = [error for _, error in reports]
    while any(hasattr(error, "exceptions") for error in found):
        found = [part for error in found for part in getattr(error, "exceptions", [error])]
    return [error for error in found if not isinstance(error, EXPECTED)]


@pytest.mark.parametrize("how", [TaskletExit, Interrupted])
@pytest.mark.parametrize("piece", PIECES)
def test_a_tasklet_is_ended_at_each_of_its_switch_points(piece, how, reports):
    """The victim, beside another that does the same, after its first switch, its second, and so on until it
    ends by itself."""
    for point in range(200):
        world = World()
        victim, other = spawn(world.piece, piece), spawn(world.piece, piece)
        for turn in range(1, 10_000):
            if victim.done() or victim.switches > point:
                break
            sleep(0 if turn % 20 else 0.0005)
        by_itself = victim.done()
        victim.kill(how)
        assert victim.done()
        other.join()
        for tasklet in syncless.tasklets():
            assert tasklet.name == "main" or tasklet.join(5)
        world.check()
        if by_itself:
            break
    else:
        pytest.fail("it has more than 200 switch points")
    assert point >= 1
    assert not unexpected(reports)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kind", [Lock, RLock, Semaphore, Condition])
def test_waiter_killed_or_late_in_the_turn_of_the_release_gets_nothing(kind, late):
    """Its turn to leave the queue has not come when the lock is released: it is the next one's, and is given
    back once."""
    lock, held = kind() if kind is not Semaphore else Semaphore(1), []

    def hold():
        with lock:
            sleep(0.0005 if late else 0)

    def take(timeout):
        if lock.acquire(timeout=timeout):
            held.append(timeout)
            lock.release()

    holder, victim, other = spawn(hold), spawn(take, 0.001 if late else 5), spawn(take, 6)
    sleep(0)
    if late:
        time.sleep(
            0.01
        )  # both times are over when the loop looks next: first the holder's, then the victim's
    else:
        victim.kill(block=False)
    assert join_all([holder, victim, other], timeout=5)
    assert holder.exception() is None and other.exception() is None and held == [6]
    if kind is Semaphore:
        assert lock.value == 1
    else:
        assert lock.acquire(blocking=False)
        assert other.done() and spawn(lock.acquire, False).result() is False
        lock.release()


@pytest.mark.parametrize("when", ["before", "after", "late"])
@pytest.mark.parametrize("lock", [RLock, Lock])
def test_a_notification_is_not_lost_with_a_killed_waiter(lock, when):
    condition, heard = Condition(lock()), []

    def wait(name, timeout):
        with condition:
            heard.append((name, condition.wait(timeout)))

    def notify():
        if when == "late":
            sleep(0.0005)
        else:
            for _ in range(10):
                sleep(0)
        if when != "before":
            with condition:
                condition.notify()

    notifier = spawn(notify)
    first, second = (
        spawn(wait, "first", 0.001 if when == "late" else 5),
        spawn(wait, "second", 0.2 if when == "late" else 5),
    )
    sleep(0)
    if when == "late":
        time.sleep(0.01)  # the notifier's turn comes first, and then that of whose time is over too
        assert join_all([notifier, first], timeout=5) and heard == [("first", True)]
        second.kill()
        return
    while not notifier.done() and when == "after":
        sleep(0)
    if when == "before":
        first.kill(block=False)
        with condition:
            condition.notify()
    else:
        first.kill(block=False)
    assert join_all([first, second], timeout=5) and heard == [("second", True)]
    notifier.join()
    assert condition.acquire(blocking=False)
    condition.release()


@pytest.mark.parametrize("lock", [RLock, Lock])
def test_a_notification_is_not_lost_while_its_receiver_waits_for_the_lock(lock):
    condition, heard = Condition(lock()), []

    def wait(name):
        with condition:
            heard.append((name, condition.wait(5)))

    first, second = spawn(wait, "first"), spawn(wait, "second")
    sleep(0)
    with condition:
        condition.notify()
        sleep(0.001)
        first.kill(block=False)
        sleep(0.001)
    assert join_all([first, second], timeout=2) and heard == [("second", True)]


@pytest.mark.parametrize("lock", [RLock, Lock])
def test_waiter_killed_twice_in_a_condition_releases_its_lock_once(lock):
    condition, ended = Condition(lock()), []

    def wait():
        try:
            with condition:
                condition.wait()
        except BaseException as error:
            ended.append(type(error))

    victim = spawn(wait)
    sleep(0)
    with condition:
        condition.notify()
        for error in (Interrupted, TaskletExit, Interrupted):  # it waits for the lock from the second on
            victim.kill(error, block=False)
            sleep(0.001)
        assert not victim.done()
    assert victim.join(5) and ended == [Interrupted]
    assert condition.acquire(blocking=False) and condition.acquire(blocking=False) is (lock is RLock)


@pytest.mark.parametrize("late", [False, True])
def test_getter_killed_or_late_in_the_turn_of_the_put_gets_nothing(late, reports):
    queue = Queue(1)
    feeder = spawn(lambda: (sleep(0.0005 if late else 0), queue.put("item")))
    victim = spawn(queue.get, timeout=0.001 if late else 5)
    sleep(0)
    if late:
        time.sleep(0.01)
    else:
        victim.kill(block=False)
    join_all([feeder, victim], timeout=5)
    assert queue.qsize() == 1 and queue.get(block=False) == "item"
    assert isinstance(victim.exception(), syncless.Empty if late else TaskletExit)
    queue.put("first")
    victim, other = spawn(queue.put, "lost"), spawn(queue.put, "second")
    sleep(0)
    victim.kill(block=False)
    assert [queue.get(), queue.get()] == ["first", "second"] and queue.empty()
    assert other.join(5) and victim.join(5)


@pytest.mark.parametrize("make", [Channel, channel])
def test_tasklet_killed_in_the_turn_of_its_partner_is_not_met(make):
    pipe = make()
    got = []
    victim, other = (
        spawn(lambda: got.append(pipe.receive())),
        spawn(lambda: got.append((pipe.receive(), "other"))),
    )
    sleep(0)
    assert pipe.balance == -2
    victim.kill(block=False)
    pipe.send(None)
    other.join()
    assert got == [(None, "other")] and pipe.balance == 0 and victim.done()
    victim, other = spawn(pipe.send, "lost"), spawn(pipe.send, "kept")
    sleep(0)
    assert pipe.balance == 2
    victim.kill(block=False)
    assert pipe.receive() == "kept"
    join_all([victim, other])
    assert pipe.balance == 0


def test_a_value_goes_on_to_the_next_if_its_receiver_is_killed():
    pipe = Channel()
    got = []
    victim, other = spawn(pipe.receive), spawn(lambda: got.append(pipe.receive()))
    sleep(0)
    pipe.send(None)
    victim.kill(block=False)
    join_all([victim, other])
    assert got == [None] and pipe.balance == 0


def test_select_ignores_killed_waiters():
    """Of the dead it takes nothing, and does not take them for somebody who would take something."""
    pipe, old, queue = Channel(), channel(), Queue(1)
    queue.put("full")
    queue_getter = Queue(1)
    victims = [spawn(pipe.send, 1), spawn(old.send, 2), spawn(queue_getter.get)]
    sleep(0)
    for victim in victims:
        victim.kill(block=False)
    queue_getter.put("full")
    assert select([pipe, old, putting(queue_getter, "more"), putting(queue, "more")], timeout=0.001) == (
        None,
        None,
    )
    victims = [spawn(pipe.receive), spawn(old.receive)]
    sleep(0)
    for victim in victims:
        victim.kill(block=False)
    assert select([sending(pipe, 1), sending(old, 2)], timeout=0.001) == (None, None)
    assert pipe.balance == old.balance == 0 and queue.get() == queue_getter.get() == "full"


@pytest.mark.parametrize("seed", range(20))
def test_random_lives(seed, reports):
    """Tasklets that do random pieces within random timeouts, while others kill some of them at random
    moments."""
    dice = random.Random(seed)
    world = World()

    def live():
        for _ in range(6):
            try:
                with dice.choice(
                    [
                        Timeout(dice.random() * 0.004, False),
                        Timeout(None),
                        deadline(5),
                        deadline(dice.random() * 0.004),
                    ]
                ):
                    world.piece(dice.choice(PIECES))
            except EXPECTED:
                pass

    tasklets = [spawn(live) for _ in range(12)]

    def reap():
        for _ in range(40):
            sleep(dice.choice([0, dice.random() * 0.001]))
            dice.choice(tasklets).kill(dice.choice([TaskletExit, Interrupted]), block=dice.random() < 0.2)
            if dice.random() < 0.3:
                tasklets.append(spawn(live))

    spawn(reap).join()
    assert len(join_all(tasklets, timeout=30)) == len(tasklets)
    for tasklet in syncless.tasklets():
        assert tasklet.name == "main" or tasklet.join(5), tasklet
    assert not unexpected(reports)
    left = world.check()
    assert len(set(map(id, world.received))) == len(world.received), "an item was received twice"
    assert not {id(item) for item in left} & {id(item) for item in world.received}, (
        "an item was received and is still there"
    )
