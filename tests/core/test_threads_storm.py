"""Several OS threads, each with a loop and tasklets, share every primitive, while tasklets are killed and
timed out at random.

Nothing is lost, nothing is doubled, nobody is stuck. A seed decides what each tasklet does; how the threads
interleave is up to the system.
"""

import random
import sys
import threading

import pytest

import syncless
from syncless import (
    AsyncResult,
    Channel,
    Condition,
    Event,
    JoinableQueue,
    Lock,
    PriorityQueue,
    Queue,
    RLock,
    Semaphore,
    TaskletExit,
    Timeout,
    putting,
    select,
    sending,
    sleep,
    spawn,
    spawn_in,
)  # fmt: skip
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

THREADS, NUISANCES, PIECES, STEADY = 3, 6, 300, 200


class Item:
    """Comparing it runs Python code, in which threads switch, and sometimes tasklets."""

    def __init__(self, number, waits):
        self.number, self.waits = number, waits

    def __lt__(self, other):
        if self.waits:
            sleep(0)
        return self.number < other.number


class Flow:
    """A queue or channel, what was put into it, perhaps put, and taken out of it."""

    def __init__(self, name, put, get):
        self.name, self.put, self.get = name, put, get
        self.certain, self.perhaps, self.got = [], [], []

    def feed(self, item):
        self.perhaps.append(item)
        self.put(item)
        self.certain.append(item)

    def take(self):
        item = self.get()
        self.got.append(item)

    def take_forever(self):
        while True:
            self.take()


class Storm:
    def __init__(self, seed):
        self.seed = seed
        queue, chosen, joinable, channel, sent = Queue(3), Queue(2), JoinableQueue(2), Channel(), Channel()
        priority = PriorityQueue(3)
        self.joinable, self.channels = joinable, (channel, sent)
        self.queues = (queue, chosen, joinable, priority)
        never = Event()

        def joinable_get():
            item = joinable.get()
            joinable.task_done()
            return item

        self.flows = [
            Flow("queue", queue.put, queue.get),
            Flow(
                "select of a queue",
                lambda item: select([putting(chosen, item), never]),
                lambda: select([chosen, never])[1],
            ),
            Flow("joinable", joinable.put, joinable_get),
            Flow(
                "priority",
                lambda item: priority.put(Item(item, item % 3 == 0)),
                lambda: priority.get().number,
            ),
            Flow("channel", channel.send, channel.receive),
            Flow(
                "select of a channel",
                lambda item: select([sending(sent, item), never]),
                lambda: select([never, sent])[1],
            ),
        ]
        self.lock, self.rlock, self.semaphore = Lock(), RLock(), Semaphore(2)
        self.condition, self.tokens, self.made, self.used = Condition(), 0, 0, 0
        self.event, self.result, self.results = Event(), AsyncResult(), []
        self.holders = {"lock": 0, "rlock": 0, "semaphore": 0}
        self.most = dict(self.holders)
        self.spawned, self.ran = [], []
        self.victims, self.loops = [], []
        self.numbers = iter(range(1_000_000))
        self.steady_done, self.censuses, self.errors = [], [], []
        self.ready, self.over = threading.Barrier(THREADS), Event()

    # -- actions of tasklets -----------------------------------------------------------------------

    def hold(self, name, guard):
        with guard:
            self.holders[name] += 1
            self.most[name] = max(self.most[name], self.holders[name])
            try:
                sleep(0)
            finally:
                self.holders[name] -= 1

    def use_condition(self, dice):
        with self.condition:
            if dice.random() < 0.5:
                self.tokens += 1
                self.made += 1
                self.condition.notify()
            else:
                while not self.tokens:
                    self.condition.wait(0.002)
                self.tokens -= 1
                self.used += 1

    def use_event(self, dice):
        if dice.random() < 0.5:
            self.event.set()
            self.event.clear()
        else:
            self.event.wait(0.002)

    def use_result(self, dice):
        result, number = self.result, next(self.numbers)
        if dice.random() < 0.3:
            try:
                result.set(number)
            except RuntimeError:
                return
            self.results.append((result, number))
            self.result = AsyncResult()
        else:
            value = result.get(timeout=0.002)
            self.results.append((result, value))

    def use_another_thread(self, dice):
        number = next(self.numbers)
        self.spawned.append(number)
        tasklet = spawn_in(dice.choice(self.loops), self.ran.append, number)
        if dice.random() < 0.7:
            tasklet.result()

    def piece(self, dice):
        chosen = dice.random()
        if chosen < 0.5:
            flow = dice.choice(self.flows)
            if dice.random() < 0.6:
                flow.feed(next(self.numbers))
            else:
                flow.take()
        elif chosen < 0.75:
            name = dice.choice(["lock", "rlock", "semaphore"])
            self.hold(name, getattr(self, name))
        else:
            dice.choice([self.use_condition, self.use_event, self.use_result, self.use_another_thread])(dice)

    def nuisance(self, dice):
        """Each of its waits may be cut off, by a Timeout or by a kill from any thread."""
        self.victims.append(syncless.current())
        for _ in range(PIECES):
            try:
                with Timeout(dice.choice([0, 0.0002, 0.001, 0.005]), False):
                    self.piece(dice)
                    if dice.random() < 0.3:
                        dice.choice(self.victims).kill(block=False)
            except TaskletExit:
                pass
            except TimeoutError:
                pass  # of an AsyncResult
            except BaseException as error:
                self.errors.append(error)

    def steady(self, dice):
        """Nothing interrupts it: it would be stuck if a wake-up were lost."""
        for _ in range(STEADY):
            if dice.random() < 0.5:
                dice.choice(self.flows).feed(next(self.numbers))
            else:
                name = dice.choice(["lock", "rlock", "semaphore"])
                self.hold(name, getattr(self, name))

    def thread(self, number):
        dice = random.Random(self.seed * THREADS + number)
        self.loops.append(syncless.current_loop())
        takers = [spawn(flow.take_forever) for flow in self.flows]
        nuisances = [spawn(self.nuisance, random.Random(dice.random())) for _ in range(NUISANCES)]
        self.ready.wait()  # before the first switch
        steady = [spawn(self.steady, random.Random(dice.random())) for _ in range(2)]
        for tasklet in steady:
            tasklet.join()
        self.steady_done += steady
        for tasklet in nuisances:
            tasklet.join()
        self.over.wait()  # others may still spawn here
        for tasklet in takers:
            tasklet.kill()
        self.censuses.append(syncless.current_loop().census())

    # -- the whole ---------------------------------------------------------------------------------

    def run(self):
        threads = [threading.Thread(target=self.thread, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        try:
            assert eventually(
                lambda: len(self.victims) == THREADS * NUISANCES and all(each.done() for each in self.victims)
            ), "stuck"
            assert eventually(lambda: len(self.steady_done) == 2 * THREADS), (
                "a tasklet that nothing interrupts is stuck"
            )
            for flow in self.flows:
                assert eventually(lambda flow=flow: set(flow.certain) <= set(flow.got)), (
                    f"{flow.name}: lost or stuck"
                )
            assert eventually(lambda: len(self.ran) == len(self.spawned)), "spawn_in: lost"
        finally:
            self.over.set()
            for thread in threads:
                syncless.run_in_thread(thread.join)

    def check(self):
        assert not self.errors
        for flow in self.flows:
            assert len(flow.got) == len(set(flow.got)), f"{flow.name}: doubled"
            assert set(flow.got) <= set(flow.perhaps), f"{flow.name}: from nowhere"
        assert sorted(self.ran) == sorted(self.spawned)
        assert (
            self.holders == {"lock": 0, "rlock": 0, "semaphore": 0}
            and self.most["lock"] == self.most["rlock"] == 1
        )
        assert (
            self.most["semaphore"] == 2 == self.semaphore.value
            and not self.lock.locked()
            and self.rlock.acquire(False)
        )
        assert self.made == self.used + self.tokens and self.condition.acquire(False)
        values = {}
        for result, value in self.results:
            assert values.setdefault(result, value) == value, "a result was set twice"
        assert (
            all(queue.empty() and not queue.full() for queue in self.queues) and self.joinable.unfinished == 0
        )
        assert [channel.balance for channel in self.channels] == [0, 0]
        for census in self.censuses:
            assert census["tasklets"] == 1 and census["parked"] == census["timers"] == census["ready"] == 0


@pytest.mark.parametrize("seed", range(6))
def test_threads_lose_double_and_forget_nothing(seed):
    storm, interval = Storm(seed), sys.getswitchinterval()
    sys.setswitchinterval(2e-5)
    try:
        storm.run()
    finally:
        sys.setswitchinterval(interval)
    storm.check()
