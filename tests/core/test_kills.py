"""Kills, timeouts and exceptions at every switch point: nothing is lost, nothing stays locked, every `finally` runs once."""

import random

import pytest

import syncless
from syncless import (
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


class Interrupted(Exception):
    """Raised from outside."""


class World:
    """What tasklets share."""

    def __init__(self):
        self.lock, self.rlock, self.semaphore, self.condition = Lock(), RLock(), Semaphore(2), Condition()
        self.queue, self.small, self.channel, self.event = Queue(), Queue(1), Channel(), Event()
        self.small.put(object())
        self.entered = self.left = 0
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
        index, value = select([self.queue, putting(self.small, item), sending(self.channel, item), self.event], timeout=0.005)
        if index == 0:
            self.received.append(value)

    def groups(self):
        with TaskGroup() as group:
            group.spawn(sleep, 0.001)
            group.spawn(self.locks)

    def pools(self):
        assert Pool(2).map(lambda number: (sleep(0), number)[1], range(4)) == [0, 1, 2, 3]

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
        """Whatever happened, all is free again and every item is in one place."""
        assert self.entered == self.left
        assert not self.lock.locked() and self.semaphore.value == 2 and not self.rlock._is_owned()
        with deadline(5), self.rlock, self.condition:
            pass
        assert self.channel.balance == 0
        left = []
        for queue in (self.queue, self.small):
            while not queue.empty():
                left.append(queue.get())
        return left


PIECES = ["locks", "conditions", "queues", "channels", "selecting", "groups", "pools", "sockets", "deadlines", "joins"]


@pytest.mark.parametrize("how", [TaskletExit, Interrupted])
@pytest.mark.parametrize("piece", PIECES)
def test_a_tasklet_is_ended_at_each_of_its_switch_points(piece, how, reports):
    """The victim, beside another that does the same, after its first switch, its second, and so on until it ends by itself."""
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
    assert all(isinstance(error, (Interrupted, TimeoutError, syncless.Full, syncless.Empty)) for _, error in reports), reports


@pytest.mark.parametrize("seed", range(20))
def test_random_lives(seed, reports):
    """Tasklets that do random pieces within random timeouts, while others kill some of them at random moments."""
    dice = random.Random(seed)
    world = World()

    def live():
        for _ in range(6):
            try:
                with dice.choice([Timeout(dice.random() * 0.004, False), Timeout(None), deadline(5), deadline(dice.random() * 0.004)]):
                    world.piece(dice.choice(PIECES))
            except (TimeoutError, syncless.Full, syncless.Empty, Interrupted):
                pass

    tasklets = [spawn(live) for _ in range(12)]

    def reap():
        for _ in range(8):
            sleep(dice.random() * 0.003)
            dice.choice(tasklets).kill(dice.choice([TaskletExit, Interrupted]), block=dice.random() < 0.5)

    reaper = spawn(reap)
    assert len(join_all([*tasklets, reaper], timeout=30)) == 13
    for tasklet in syncless.tasklets():
        assert tasklet.name == "main" or tasklet.join(5), tasklet
    left = world.check()
    assert len(set(map(id, world.received))) == len(world.received), "an item was received twice"
    assert not {id(item) for item in left} & {id(item) for item in world.received}, "an item was received and is still there"
