"""Storms: kills and time limits over every primitive, and threads that end while they are handed things. See
storm.py."""

import json
import os
import pathlib
import random
import subprocess
import sys
import threading

import pytest

import syncless
from syncless import (
    AsyncResult,
    Channel,
    Condition,
    JoinableQueue,
    Queue,
    Semaphore,
    TaskletExit,
    putting,
    select,
    sending,
    sleep,
    spawn,
    spawn_in,
)
from syncless._core.poll.backends import BACKENDS
from syncless.stackless import channel
from tests import virtualtime
from tests.waiting import eventually

ROOT = pathlib.Path(__file__).parent.parent.parent
STORMS = int(os.environ.get("SYNCLESS_TEST_STORMS", "400"))
"""In each part that is slow; fewer where all is slower."""


@pytest.mark.parametrize(
    ("part", "storms"),
    [
        (0, min(100, STORMS)),
        pytest.param(1, STORMS, marks=pytest.mark.slow),
        pytest.param(2, STORMS, marks=pytest.mark.slow),
    ],
)
def test_nothing_is_lost_doubled_or_misdelivered_in_a_storm(part, storms):
    first = part * 1_000_000
    done = subprocess.run(
        virtualtime.program("tests.core.storm", first, first + storms),
        cwd=ROOT,
        env={**os.environ, "SYNCLESS_LOOP": next(iter(BACKENDS))},
        capture_output=True,
        text=True,
        timeout=300,  # seconds; it takes two
    )
    assert done.returncode == 0, f"in the last of these storms: {done.stderr[-2000:]}"
    told = json.loads(done.stdout)
    assert not told["faults"], f"by seed: {told['faults']}"
    assert told["hits"] > 15 * storms and told["values"] > 10 * storms and told["interrupts"] > storms


class Feeder:
    """Primitives that ending threads wait for, and values that they are handed."""

    def __init__(self, dice):
        self.dice, self.lock = dice, threading.Lock()
        self.queues = [Queue(), Queue(1), JoinableQueue(2)]
        self.channels = [Channel(), channel(), channel()]
        self.channels[1].preference, self.channels[2].preference = 0, 1
        self.permits, self.condition, self.never = Semaphore(0), Condition(), syncless.Event()
        self.given, self.got, self.acquired, self.released = [], [], [], 0
        self.made, self.results, self.told = [], [], []

    # -- in the threads

    def takes(self, dice):
        """Takes things for ever; some go on doing so when they are killed."""
        stubborn, kind = dice.random() < 0.3, dice.randrange(5)
        source = dice.choice(self.queues if kind < 2 else self.channels)
        while True:
            try:
                if kind == 0:
                    self.got.append(source.get())
                elif kind == 2:
                    self.got.append(source.receive())
                elif kind == 4:
                    with self.condition:
                        self.condition.wait()
                else:
                    index, value = select([source, self.permits, self.never])
                    (self.got, self.acquired)[index].append(value)
            except TaskletExit:
                if not stubborn:
                    raise

    def watch(self, tasklet):
        result = AsyncResult()
        tasklet.add_done_callback(result)
        tasklet.add_done_callback(self.told.append)
        self.made.append(tasklet)
        self.results.append(result)

    def body(self, dice, loops):
        loops.append(syncless.current_loop())
        for _ in range(5):
            self.watch(spawn(self.takes, dice))
        for _ in range(dice.randrange(30)):
            sleep(0 if dice.random() < 0.8 else 0.0005)

    # -- where they are fed

    def give(self, loops):
        item, kind = len(self.given), self.dice.randrange(5)
        if kind == 0:
            self.permits.release()
            self.released += 1
        elif kind == 1 and self.condition.acquire(blocking=False):
            self.condition.notify()
            self.condition.release()
        elif kind == 2:
            try:
                self.watch(spawn_in(self.dice.choice(loops), self.takes, random.Random(item)))
            except RuntimeError:
                pass  # that thread has ended
        else:
            pipe = self.dice.choice(self.channels)
            case = putting(self.dice.choice(self.queues), item) if kind == 3 else sending(pipe, item)
            if select([case], timeout=0)[0] is not None:
                self.given.append(item)

    def rest(self):
        """The values that are left when all threads have ended."""
        for items in self.queues:
            while not items.empty():
                self.got.append(items.get())
        for pipe in self.channels:
            while pipe.balance > 0:
                self.got.append(pipe.receive())
            assert pipe.balance == 0
        while self.permits.acquire(blocking=False):
            self.acquired.append(None)


@pytest.mark.parametrize("seed", range(6))
def test_threads_may_end_while_they_are_handed_values(seed):
    """Joiners of their tasklets go on, and other tasklets get the values that were handed to them: nothing
    is lost, nothing doubled."""
    feeder, interval = Feeder(random.Random(seed)), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(max(2, STORMS // 40)):
            loops = []
            threads = [
                threading.Thread(target=feeder.body, args=(random.Random(feeder.dice.random()), loops))
                for _ in range(3)
            ]
            for thread in threads:
                thread.start()
            assert eventually(lambda loops=loops: loops)
            while any(thread.is_alive() for thread in threads):
                feeder.give(loops)
                sleep(0 if feeder.dice.random() < 0.8 else 0.0001)
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert all(
        tasklet.join(60) and result.wait(60)
        for tasklet, result in zip(feeder.made, feeder.results, strict=True)
    ), seed
    assert len(feeder.told) == len(set(feeder.told)) == len(feeder.made), seed
    feeder.rest()
    assert sorted(feeder.got) == feeder.given and len(feeder.acquired) == feeder.released, seed
    assert feeder.condition.acquire(blocking=False)
