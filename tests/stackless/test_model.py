"""Random programs of Stackless run in the order that a small model of its ring of tasklets foretells."""

import random

import pytest

import syncless.stackless as stackless

TASKLETS, CHANNELS, STEPS = 6, 3, 12


def program(seed):
    """For each tasklet a list of steps, and each channel's preference."""
    random_ = random.Random(seed)
    kinds = [
        "schedule",
        "send",
        "send",
        "receive",
        "receive",
        "remove",
        "insert",
        "run",
        "switch",
        "kill",
        "note",
    ]
    steps = [
        [
            (random_.choice(kinds), random_.randrange(TASKLETS), random_.randrange(CHANNELS))
            for _ in range(random_.randrange(STEPS))
        ]
        for _ in range(TASKLETS)
    ]
    return steps, [random_.choice([-1, 0, 1]) for _ in range(CHANNELS)]


class Model:
    """The ring: the running tasklet first. A tasklet is its number."""

    def __init__(self, steps, preferences):
        self.steps, self.preferences = steps, preferences
        self.at = [0] * TASKLETS
        self.state = ["new"] * TASKLETS  # new, alive, killed, dead
        self.ring = list(range(TASKLETS))
        self.waiting = [[] for _ in range(CHANNELS)]  # (tasklet, direction)
        self.given = [None] * TASKLETS  # the channel from which it has received, until its turn comes
        self.kept = [0] * CHANNELS  # values whose receivers were killed before that
        self.log = []

    def blocked(self, number):
        return any(number == each for queue in self.waiting for each, _ in queue)

    def to_front(self, number):
        """The ring turns until it runs; one that is outside enters before the running one."""
        if number not in self.ring:
            self.ring.insert(0, number)
        while self.ring[0] != number:
            self.ring.append(self.ring.pop(0))

    def run(self):
        while self.ring:
            me = self.ring[0]
            given, self.given[me] = self.given[me], None
            if self.state[me] == "killed" and given is not None:
                self.give_back(given)
            if self.state[me] == "killed" or self.at[me] == len(self.steps[me]):
                self.log.append((me, "killed" if self.state[me] == "killed" else "end"))
                self.state[me] = "dead"
                self.ring.pop(0)
                continue
            if self.state[me] == "new":
                self.state[me] = "alive"
            kind, other, channel = self.steps[me][self.at[me]]
            self.at[me] += 1
            self.log.append((me, kind))
            self.step(me, kind, other, channel)
        return self.log

    def step(self, me, kind, other, channel):
        usable = self.state[other] != "dead" and not self.blocked(other) and other != me
        if kind == "schedule":
            self.ring.append(self.ring.pop(0))
        elif kind == "remove":
            if other == me:
                self.ring.pop(0)
            elif usable and other in self.ring:
                self.ring.remove(other)
        elif kind == "insert" and usable and other not in self.ring:
            self.ring.append(other)
        elif kind == "run" and usable:
            self.to_front(other)
        elif kind == "switch" and usable:
            self.to_front(other)
            self.ring.remove(me)
        elif kind == "kill" and self.state[other] not in ("dead", "new") and other != me:
            for queue in self.waiting:
                queue[:] = [each for each in queue if each[0] != other]
            self.state[other] = "killed"
            self.to_front(other)
        elif kind in ("send", "receive"):
            self.act(me, 1 if kind == "send" else -1, channel)

    def act(self, me, direction, channel):
        queue, preference = self.waiting[channel], self.preferences[channel]
        if direction < 0 and self.kept[channel]:
            self.kept[channel] -= 1
            return
        if not queue or queue[0][1] == direction:
            queue.append((me, direction))
            self.ring.pop(0)
            return
        other, _ = queue.pop(0)
        if direction > 0:
            self.given[other] = channel
        if preference == -direction:
            if direction < 0:
                self.given[me] = channel  # and others run before it goes on with that
            self.ring.insert(1, other)
            self.to_front(other)
        else:
            self.ring.append(other)

    def give_back(self, channel):
        queue = self.waiting[channel]
        if queue and queue[0][1] < 0:
            other, _ = queue.pop(0)
            self.given[other] = channel
            self.ring.append(other)
        else:
            self.kept[channel] += 1


def really(steps, preferences):
    """The same with tasklets."""
    log, tasklets, started = [], [], set()
    channels = [stackless.channel() for _ in preferences]
    for channel, preference in zip(channels, preferences, strict=True):
        channel.preference = preference

    def body(me):
        started.add(me)
        try:
            for kind, other, channel in steps[me]:
                log.append((me, kind))
                step(me, kind, tasklets[other], channels[channel], other in started)
        except stackless.TaskletExit:
            log.append((me, "killed"))
            raise
        log.append((me, "end"))

    def step(me, kind, other, channel, other_started):
        usable = other.alive and not other.blocked and other is not tasklets[me]
        if kind == "schedule":
            stackless.schedule()
        elif kind == "remove":
            if other is tasklets[me]:
                stackless.schedule_remove()
            elif usable:
                other.remove()
        elif kind in ("insert", "run", "switch") and usable:
            getattr(other, kind)()
        elif kind == "kill" and other.alive and other_started and other is not tasklets[me]:
            other.kill()
        elif kind == "send":
            channel.send(me)
        elif kind == "receive":
            channel.receive()

    tasklets += [stackless.tasklet(body)(number) for number in range(TASKLETS)]
    stackless.run()
    result = list(log)
    for each in tasklets:
        each.kill()
    stackless.run()
    return result


@pytest.mark.parametrize("part", range(10))
def test_the_order_is_the_models(part):
    for seed in range(part * 200, part * 200 + 200):
        steps, preferences = program(seed)
        assert really(steps, preferences) == Model(steps, preferences).run(), seed
