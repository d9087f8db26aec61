"""A storm: tasklets use every primitive, while others throw exceptions at them and nested time limits ring,
often at once.

``python -m tests.core.storm FIRST LAST`` runs the storms of those seeds and prints each failure with its
seed. On the virtual clock the same seed makes the same storm on any machine.

Held to be true, at each wait and at the end:

- An exception that was thrown is raised once, at the next wait of its victim, and in no other tasklet.
- A time limit that has rung is raised at the next wait in its block, once, and never outside it.
- KeyboardInterrupt that leaves a tasklet is raised once in the main tasklet, whatever rings there.
- An item that was put or sent is got once, or is still there; any other is got once at most.
- Locks exclude, and are free in the end; so are permits, places in pools and the counts of channels.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections import Counter
from itertools import count

import syncless
from syncless import (
    AsyncResult,
    Barrier,
    Channel,
    Condition,
    Event,
    JoinableQueue,
    LifoQueue,
    Lock,
    Pool,
    PriorityQueue,
    Queue,
    RLock,
    Semaphore,
    TaskGroup,
    TaskletExit,
    Timeout,
    current,
    deadline,
    join_all,
    putting,
    select,
    sending,
    sleep,
    spawn,
)
from syncless._core.wait.select import set_chance
from syncless.stackless import channel

WORKERS, STEPS, HITS = 10, 12, 100
MS = 0.001


class Hit(Exception):
    """Thrown from outside; `victim` is the life at which it was."""

    def __init__(self, number, victim):
        super().__init__(number)
        self.victim = victim


class Exit(TaskletExit):
    """A kill."""

    def __init__(self, number, victim):
        super().__init__(number)
        self.victim = victim


class Late(Exception):
    """The exception that a Timeout raises in its place."""


EXPECTED = (
    Hit,
    Exit,
    Late,
    Timeout,
    TimeoutError,
    syncless.Full,
    syncless.Empty,
    threading.BrokenBarrierError,
)


class Life:
    """A worker: the limits in which it is, those of them that it has raised, and what was thrown at it and
    not raised yet."""

    def __init__(self, number):
        self.number, self.limits, self.raised, self.thrown, self.groups = number, [], [], [], []

    def owed(self):
        """It must raise at its next wait."""
        return self.thrown or [
            each
            for each in self.limits
            if each.seconds is not None and not each.pending and each not in self.raised
        ]


class Storm:
    def __init__(self, seed):
        self.dice, self.faults, self.numbers = random.Random(seed), [], count()
        self.lives, self.helpers, self.hits = {}, [], 0
        self.locks = [Lock(), Semaphore(1), RLock()]
        self.inside = Counter()
        self.permits, self.event, self.barrier, self.pool = Semaphore(2), Event(), Barrier(2), Pool(2)
        self.conditions, self.tokens = [Condition(), Condition(Lock())], [0, 0]
        self.queues = [Queue(), Queue(1), LifoQueue(2), PriorityQueue(2), JoinableQueue(2)]
        self.channels = [Channel(), channel(), channel(), channel()]
        for each, preference in zip(self.channels[1:], (-1, 0, 1), strict=True):
            each.preference = preference
        self.tried, self.done, self.got = set(), set(), Counter()
        self.interrupts, self.interrupted = set(), Counter()

    def fault(self, text):
        self.faults.append(text)

    # -- one wait, and what it may raise

    def op(self, function, *args, **options):
        """function(), which waits at most once and then raises what it must."""
        me = current()
        life, before = self.lives.get(me), me.switches
        owed = list(life.owed()) if life else []
        try:
            result = function(*args, **options)
        except BaseException as error:
            if life:
                self.note(life, error)
            raise
        if owed and me.switches != before:
            self.fault(f"worker {life.number} waited in {function} although it had to raise {owed}")
        return result

    def note(self, life, error, again=False):
        """It was raised in that life; `again`: it may be one that was noted before, on its way out."""
        error = getattr(error, "timeout", error)
        if isinstance(error, (Hit, Exit)):
            if error in life.thrown:
                life.thrown.remove(error)
            elif not again or error.victim is not life:
                self.fault(
                    f"{error!r} of worker {error.victim.number} was raised in worker {life.number}, or twice"
                )
        elif isinstance(error, Timeout):
            if error not in life.limits or (error in life.raised and not again):
                self.fault(f"worker {life.number} raised {error!r} outside its block, or twice")
            life.raised.append(error)
        elif error not in life.groups and not isinstance(error, EXPECTED):
            self.fault(f"worker {life.number} raised {error!r}")

    def compound(self, function, *args):
        """It waits several times; its exception may come along with others."""
        life = self.lives[current()]
        try:
            return function(*args)
        except BaseException as error:
            todo, seen = [error], set()
            while todo:
                one = todo.pop()
                if one is None or id(one) in seen:
                    continue
                seen.add(id(one))
                todo += [one.__context__, one.__cause__, *getattr(one, "exceptions", ())]
                one = getattr(one, "timeout", one)
                if one in life.thrown or one in life.limits:
                    self.note(life, one, True)
            raise

    # -- actions of workers

    def live(self, life):
        for _ in range(STEPS):
            try:
                self.bounded(life, self.dice.randrange(4))
            except EXPECTED:
                pass
            except BaseException as error:
                if not hasattr(error, "exceptions"):  # those of a group, which compound() has looked at
                    self.fault(f"worker {life.number} raised {error!r}")
        quiet = 0
        while quiet < 3:
            try:
                self.op(sleep, 0)
                quiet += 1
            except EXPECTED:
                pass
        life.over = True

    def bounded(self, life, depth):
        if depth == 0:
            return getattr(self, self.dice.choice(PIECES))()
        seconds = self.dice.choice([None, 0, 1, 1, 2, 2, 3, 5, 8])
        seconds = None if seconds is None else seconds * MS
        kind = self.dice.randrange(4)
        if kind == 0:
            limit = deadline(seconds)
        elif kind == 1:
            late = Late()
            limit = late.timeout = Timeout(seconds, late)
        else:
            limit = Timeout(seconds, None if kind == 2 else False)
        life.limits.append(limit)
        try:
            with limit:
                self.bounded(life, depth - 1)
                if self.dice.random() < 0.3:
                    self.bounded(life, depth - 1)
        finally:
            life.limits.remove(limit)

    def rest(self):
        self.op(sleep, self.dice.choice([0, 0, 1, 2, 3]) * MS)

    def locked(self):
        number = self.dice.randrange(len(self.locks))
        if self.op(self.locks[number].acquire, timeout=self.dice.choice([1, 3, 1000]) * MS):
            try:
                if self.inside[number]:
                    self.fault(f"two hold {self.locks[number]}")
                self.inside[number] += 1
                self.rest()
            finally:
                self.inside[number] -= 1
                self.locks[number].release()

    def permitted(self):
        self.op(self.permits.acquire)
        try:
            self.rest()
        finally:
            self.permits.release()

    def told(self):
        """Tokens are taken by those that hold the condition."""
        number = self.dice.randrange(2)
        condition = self.conditions[number]
        self.op(condition.acquire)
        try:
            if self.dice.random() < 0.5:
                self.tokens[number] += 1
                condition.notify()
            else:
                while not self.tokens[number]:
                    if not self.compound(condition.wait, self.dice.choice([1, 2, 5]) * MS):
                        return
                self.tokens[number] -= 1
        finally:
            condition.release()

    def events(self):
        what = self.dice.randrange(3)
        if what == 0:
            self.event.set()
        elif what == 1:
            self.event.clear()
        else:
            self.op(self.event.wait, self.dice.choice([1, 2, 5]) * MS)

    def barriers(self):
        try:
            self.compound(self.barrier.wait, 2 * MS)
        except threading.BrokenBarrierError:
            self.barrier.reset()

    def new_item(self):
        item = next(self.numbers)
        self.tried.add(item)
        return item

    def puts(self):
        items, item = self.dice.choice(self.queues), self.new_item()
        self.op(items.put, item, timeout=self.dice.choice([1, 3, 1000]) * MS)
        self.done.add(item)

    def gets(self):
        items = self.dice.choice(self.queues)
        self.got[self.op(items.get, timeout=self.dice.choice([1, 3, 1000]) * MS)] += 1
        if isinstance(items, JoinableQueue):
            items.task_done()

    def sends(self):
        pipe, item = self.dice.choice(self.channels), self.new_item()
        self.op(pipe.send, item)
        self.done.add(item)

    def receives(self):
        self.got[self.op(self.dice.choice(self.channels).receive)] += 1

    def selects(self):
        cases, items = [], []
        for _ in range(self.dice.randrange(1, 5)):
            kind, item = self.dice.randrange(6), None
            if kind == 0:
                cases.append(self.dice.choice(self.queues))
            elif kind == 1:
                cases.append(self.dice.choice(self.channels))
            elif kind == 2:
                item = self.new_item()
                cases.append(putting(self.dice.choice(self.queues), item))
            elif kind == 3:
                item = self.new_item()
                cases.append(sending(self.dice.choice(self.channels), item))
            elif kind == 4:
                cases.append(self.permits)
            else:
                cases.append(self.event)
            items.append(item)
        index, value = self.op(select, cases, self.dice.choice([0, 1, 2, 5]) * MS)
        if index is None:
            return
        if items[index] is not None:
            self.done.add(items[index])
        elif value is not None:
            self.got[value] += 1
            if isinstance(cases[index], JoinableQueue):
                cases[index].task_done()
        elif cases[index] is self.permits:
            self.permits.release()

    def results(self):
        result, milliseconds = AsyncResult(), self.dice.choice([0, 1, 2])
        self.helpers.append(spawn(lambda: (sleep(milliseconds * MS), result.set("value"))))
        if self.op(result.get, timeout=self.dice.choice([1, 2, 5]) * MS) != "value":
            self.fault("a result is another one")

    def joins(self):
        helper = spawn(sleep, self.dice.choice([0, 1, 2]) * MS)
        self.helpers.append(helper)
        if self.op(helper.join, self.dice.choice([1, 2, 5]) * MS) != helper.done():
            self.fault("join() returned something else")

    def pools(self):
        if self.dice.random() < 0.5:
            self.compound(self.pool.apply, sleep, self.dice.choice([0, 1, 2]) * MS)
        else:
            self.compound(Pool(2).map, lambda milliseconds: sleep(milliseconds * MS), [0, 1, 2, 1])

    def groups(self):
        def child(milliseconds, fails):
            try:
                sleep(milliseconds * MS)
                if fails:
                    raise Late
            finally:
                sleep(MS)  # it cleans up

        def whole():
            with TaskGroup() as group:
                self.lives[current()].groups.append(group._stop)
                for _ in range(self.dice.randrange(3)):
                    group.spawn(child, self.dice.choice([0, 1, 2]), self.dice.random() < 0.2)
                self.rest()

        before = len(self.lives[current()].groups)
        try:
            self.compound(whole)
        finally:
            del self.lives[current()].groups[before:]

    # -- the weather

    def throw(self, victims):
        while any(not victim.done() for victim in victims) and self.hits < HITS:
            sleep(self.dice.choice([0, 0, 1, 1, 2]) * MS)
            for _ in range(self.dice.choice([1, 1, 2, 4])):
                victim = self.dice.choice(victims)
                life = self.lives[victim]
                hit = self.dice.choice([Hit, Exit])(next(self.numbers), life)
                if not victim.done():
                    self.hits += 1
                    life.thrown.append(hit)
                    victim.kill(hit, block=False)
            if self.dice.random() < 0.2:
                self.interrupt()

    def interrupt(self):
        error = KeyboardInterrupt(next(self.numbers))
        self.interrupts.add(error)

        def ends():
            raise error

        self.helpers.append(spawn(ends))

    def run(self):
        """In the main tasklet, in which KeyboardInterrupt arrives, and limits ring as well."""
        workers = []
        for number in range(WORKERS):
            life = Life(number)
            worker = spawn(self.live, life)
            self.lives[worker] = life
            workers.append(worker)
        everybody = [*workers, spawn(self.throw, workers)]
        for _ in range(20_000):
            limit = Timeout(self.dice.choice([1, 2, 5]) * MS, False)
            try:
                with limit:
                    if len(join_all(everybody)) == len(everybody):
                        break
            except KeyboardInterrupt as error:
                self.interrupted[error] += 1
        else:
            self.fault(f"they do not end: {[each for each in everybody if not each.done()]}")
        return self.check(workers)

    def settle(self):
        """KeyboardInterrupts on their way arrive, helpers end."""
        while True:
            try:
                join_all(self.helpers)
                for _ in range(5):
                    sleep(MS)
                return
            except KeyboardInterrupt as error:
                self.interrupted[error] += 1

    def check(self, workers):
        self.settle()
        for worker in workers:
            life = self.lives[worker]
            if life.thrown and worker.exception() not in life.thrown:
                self.fault(f"worker {life.number} never raised {life.thrown}")
            if worker.exception() is not None:
                self.fault(f"worker {life.number} ended with {worker.exception()!r}")
        if set(self.interrupted) != self.interrupts or any(times > 1 for times in self.interrupted.values()):
            self.fault(f"of {self.interrupts} the main tasklet raised {self.interrupted}")
        for lock in (*self.locks, *self.conditions):
            if not lock.acquire(blocking=False):
                self.fault(f"{lock} is not free")
        if self.permits.value != 2 or self.pool.free_count() != 2 or self.barrier.n_waiting:
            self.fault(f"{self.permits}, {self.pool}, {self.barrier.n_waiting} at the barrier")
        for items in self.queues:
            while not items.empty():
                self.got[items.get()] += 1
                if isinstance(items, JoinableQueue):
                    items.task_done()
            if isinstance(items, JoinableQueue) and items.unfinished:
                self.fault(f"{items.unfinished} items of a queue are not dealt with")
        for pipe in self.channels:
            while pipe.balance > 0:
                self.got[pipe.receive()] += 1
            if pipe.balance:
                self.fault(f"{pipe} counts who does not wait")
        if lost := self.done - set(self.got):
            self.fault(f"lost: {lost}")
        if doubled := {
            item: times for item, times in self.got.items() if times > 1 or item not in self.tried
        }:
            self.fault(f"got more than once: {doubled}")
        return self.faults


PIECES = [
    "rest",
    "locked",
    "locked",
    "permitted",
    "told",
    "told",
    "events",
    "barriers",
    "puts",
    "puts",
    "gets",
    "gets",
    "sends",
    "sends",
    "receives",
    "receives",
    "selects",
    "selects",
    "results",
    "joins",
    "pools",
    "groups",
]


def main(seeds):
    told = {"hits": 0, "interrupts": 0, "values": 0, "faults": {}}
    for seed in seeds:
        reported = []
        previous = syncless.set_error_handler(
            lambda where, error, reported=reported: reported.append(repr(error))
        )
        print(f"storm {seed}", file=sys.stderr, flush=True)  # if it crashes
        set_chance(seed)
        storm = Storm(seed)
        faults = storm.run()
        syncless.set_error_handler(previous)
        faults += [f"reported: {error}" for error in reported if "Hit(" not in error and "Late(" not in error]
        told["hits"] += storm.hits
        told["interrupts"] += len(storm.interrupts)
        told["values"] += len(storm.done)
        if faults:
            told["faults"][seed] = faults
    return told


if __name__ == "__main__":
    print(json.dumps(main(range(int(sys.argv[1]), int(sys.argv[2]))), indent=1))
