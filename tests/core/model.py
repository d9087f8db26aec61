"""Random programs of spawns, channels, sleeps, joins, kills and timeouts, and a small model that foretells
what they do."""

import heapq
import random
from collections import deque
from itertools import count

from syncless import TaskletExit

TASKLETS, CHANNELS, STEPS = 7, 2, 7
KINDS = [
    "yield",
    "sleep",
    "sleep",
    "spawn",
    "send",
    "send",
    "receive",
    "receive",
    "kill",
    "join",
    "within",
    "within",
]


def steps(dice, depth=0):
    """The steps of a tasklet: (kind, other tasklet, channel, milliseconds or None, steps that the time
    bounds)."""
    made = []
    for _ in range(dice.randrange(1, STEPS)):
        kind = dice.choice(KINDS if depth < 2 else KINDS[:-2])
        bounded = kind in ("sleep", "within") or dice.random() < 0.7
        inner = steps(dice, depth + 1) if kind == "within" else ()
        made.append(
            (
                kind,
                dice.randrange(TASKLETS),
                dice.randrange(CHANNELS),
                dice.uniform(0.5, 12) if bounded else None,
                inner,
            )
        )
    return made


class Expired(Exception):
    """The model's Timeout."""


class Task:
    """The model's tasklet."""

    def __init__(self, number, life):
        self.number, self.life = number, life
        self.state = "new"  # ready, waiting, done
        self.result = None  # the result of its wait
        self.thrown = []  # exceptions of its waits, one each
        self.raises = False  # the present one does
        self.timer = None  # bounds its wait
        self.queue = None  # where it stands until its wait ends
        self.offer = None  # in a channel's queue: (send or receive, its value)
        self.given = None  # received and not taken yet: (channel, value)
        self.joiners = []


class Model:
    """Those that are ready take turns in order; when none is, the clock jumps to the next timer."""

    def __init__(self, programs):
        self.programs, self.now, self.closest, self.log = programs, 0.0, 99.0, []
        self.ready, self.timers, self.order = deque(), [], count()
        self.channels = [[] for _ in range(CHANNELS)]
        self.kept = [deque() for _ in range(CHANNELS)]  # values that came back, for the next that receives
        self.tasks = {}
        self.given_back = 0

    def after(self, ms, function):
        timer = [self.now + ms, next(self.order), function]
        heapq.heappush(self.timers, timer)
        return timer

    def spawn(self, number):
        if number not in self.tasks:
            self.tasks[number] = task = Task(number, self.life(number, self.programs[number]))
            self.ready.append(task)

    def run(self):
        """The first two tasklets, and those that they spawn."""
        for number in range(2):
            self.spawn(number)
        while self.ready or self.timers:
            while self.ready:
                task = self.ready.popleft()
                if task.state != "done":
                    self.turn(task)
            while self.timers and self.timers[0][2] is None:
                heapq.heappop(self.timers)
            if self.timers:
                when, _, function = heapq.heappop(self.timers)
                self.closest = min(
                    [self.closest, when - self.now, *(each[0] - when for each in self.timers if each[2])]
                )
                self.now = when
                function()
        return self.log

    def turn(self, task):
        """Until it waits or ends."""
        task.state, task.raises = "running", bool(task.thrown)
        while task.state == "running":
            result, task.result = task.result, None
            given, task.given = task.given, None
            thrown = task.thrown.pop(0) if task.raises else None
            task.raises = False
            if thrown and given:
                self.given_back += 1
                if not self.give(*given):  # it goes to the next that waits
                    self.kept[given[0]].append(given[1])
            try:
                wait = task.life.throw(thrown) if thrown else task.life.send(result)
            except (StopIteration, TaskletExit):
                self.end(task)
            else:
                self.begin(task, *wait)

    def end(self, task):
        task.state = "done"
        for joiner in list(task.joiners):
            self.wake(joiner, True)

    def wake(self, task, result=None, thrown=None):
        """Ends its wait, if it is in one. The exception is raised even if the tasklet is about to go on."""
        if thrown is not None:
            task.thrown.append(thrown)
        if task.state == "waiting":
            task.result, task.state = result, "ready"
            if task.timer:
                task.timer[2] = None
            if task.queue is not None:
                task.queue.remove(task)
                task.queue = None
            self.ready.append(task)

    def give(self, channel, value):
        """To the first that waits to receive. False if none does."""
        queue = self.channels[channel]
        if not queue or queue[0].offer[0] == "send":
            return False
        queue[0].given = (channel, value)
        self.wake(queue[0], value)
        return True

    def wait(self, task, ms, at_end, queue=None):
        if task.thrown:
            task.raises = True
            return
        task.state, task.queue = "waiting", queue
        if queue is not None:
            queue.append(task)
        task.timer = None if ms is None else self.after(ms, lambda: self.wake(task, at_end))

    def begin(self, task, kind, other, channel, ms):
        if kind == "yield" and task.thrown:
            task.raises = True
        elif kind == "yield":
            task.state = "ready"
            self.ready.append(task)
        elif kind == "sleep":
            self.wait(task, ms, None)
        elif kind in ("send", "receive"):
            queue = self.channels[channel]
            if kind == "send" and self.give(channel, task.number):
                task.result = "sent"
            elif kind == "receive" and self.kept[channel]:
                task.result = self.kept[channel].popleft()
            elif kind == "receive" and queue and queue[0].offer[0] == "send":
                task.result = queue[0].offer[1]
                self.wake(queue[0], "sent")
            else:
                task.offer = (kind, task.number)
                self.wait(task, ms, "late", queue)
        else:  # kill or join
            found = self.tasks[other]
            if kind == "kill":
                if found.state == "new":
                    self.end(found)
                elif found.state != "done":
                    self.wake(found, thrown=TaskletExit())
            if found.state == "done":
                task.result = True
            else:
                self.wait(task, ms, False, found.joiners)

    def life(self, me, program):
        """As body() in really(), but what waits is yielded."""
        for kind, other, channel, ms, inner in program:
            self.log.append((me, kind, round(self.now, 6)))
            if kind == "within":
                expired = Expired()
                timer = self.after(ms, lambda expired=expired: self.wake(self.tasks[me], thrown=expired))
                try:
                    yield from self.life(me, inner)
                except Expired as error:
                    if error is not expired:
                        raise
                    self.log.append((me, "expired", round(self.now, 6)))
                finally:
                    timer[2] = None
                    self.tasks[me].thrown = [other for other in self.tasks[me].thrown if other is not expired]
            elif kind == "spawn":
                self.spawn(other)
            elif kind in ("kill", "join") and (other == me or other not in self.tasks):
                pass
            else:
                result = yield kind, other, channel, ms
                self.log.append((me, result, round(self.now, 6)))


def modelled(seed):
    """The programs of a seed, and the model after it has run them."""
    dice = random.Random(seed)
    model = Model([steps(dice) for _ in range(TASKLETS)])
    model.run()
    return model
