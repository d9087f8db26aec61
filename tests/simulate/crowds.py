"""Crowds: tasklets that share one thing to wait for, while some of them are killed.

Takes: a World (episode.py). Gives: Wrong, if one waits for ever, or if what they share is not as it must be.
A request rarely meets another at the same lock at the same moment; here they always do.
"""

import queue
import threading

import syncless
from tests.simulate.clients import Wrong, random_of

LONG = 5.0
"""Virtual seconds after which a member that nobody kills must have ended."""

VICTIM = "/victim"


def is_spared(member):
    return not member.name.endswith(VICTIM)


class Crowd:
    """Some members of each role, with one thing between them; those that may be killed are called so."""

    def __init__(self, world, chance):
        self.world, self.chance = world, chance
        self.running = []

    def run(self):
        self.chance.choice(KINDS)(self)

    def pause(self):
        self.world.pause(self.chance)

    def add(self, role, count=1):
        """Members that call role(chance). The first one is never killed, so that the others are served."""
        for number in range(count):
            tasklet = syncless.spawn(role, random_of(self.chance))
            tasklet.name = role.__qualname__
            if number and self.chance.random() < 0.6:
                tasklet.name += VICTIM
            self.running.append(tasklet)

    def wait(self):
        """For those that nobody kills; then the others are killed."""
        running, self.running = self.running, []
        ends = self.world.clock() + LONG + self.world.skipped
        for each in running:
            if is_spared(each) and not each.join(max(0, ends - self.world.clock())):
                raise Wrong(f"a member of a crowd waits for ever: {each}")
        for each in running:
            each.kill()
            error = each.exception()
            if error is not None and not isinstance(error, syncless.TaskletExit):
                raise error

    def own_wait(self, wait, *args):
        """wait(*args), which must not come back to a member that has been killed."""
        found = wait(*args)
        if syncless.current() in self.world.killed:
            raise Wrong(f"a killed tasklet goes on: {syncless.current()}")
        return found


def excluding(make, most=1):
    """A lock, with and without a limit of the wait, of which so many have a part at most."""

    def share(crowd):
        thing, inside = make(), []

        def member(chance):
            for _ in range(chance.randrange(1, 4)):
                if chance.random() < 0.8:
                    taken = thing.acquire()
                else:
                    taken = thing.acquire(timeout=chance.choice([0.0003, 0.002, 0.02]))
                if not taken:
                    continue
                try:
                    inside.append(1)
                    if len(inside) > most:
                        raise Wrong(f"{thing} has {len(inside)} holders")
                    if chance.random() < 0.8:
                        crowd.pause()
                finally:
                    inside.pop()
                    thing.release()

        crowd.add(member, crowd.chance.randrange(2, 7))
        crowd.wait()
        for _ in range(most):
            if not thing.acquire(False):
                raise Wrong(f"nobody holds {thing}, and it is not free")
        for _ in range(most):
            thing.release()

    return share


def passing(make, *, put="put", get="get"):
    """A queue: each item that was put is got once, or lies there still."""

    def share(crowd):
        thing, chance = make(crowd.chance), crowd.chance
        put_in, take_out = getattr(thing, put), getattr(thing, get)
        begun, done, got = [], [], []

        def producer(chance):
            for _ in range(chance.randrange(1, 6)):
                item = len(begun)
                begun.append(item)
                put_in(item)
                done.append(item)
                if chance.random() < 0.5:
                    crowd.pause()

        def consumer(chance):
            while (item := take_out()) is not None:
                got.append(item)
                if chance.random() < 0.5:
                    crowd.pause()

        crowd.add(consumer, chance.randrange(1, 5))
        consumers, crowd.running = crowd.running, []
        crowd.add(producer, chance.randrange(1, 5))
        crowd.wait()
        for each in consumers:
            if not is_spared(each):
                each.kill()
        for each in consumers:
            if is_spared(each):
                put_in(None)
        crowd.running = consumers
        crowd.wait()
        while getattr(thing, "qsize", lambda: 0)():
            got.append(take_out())
        if len(set(got)) != len(got) or not {*done} <= {*got} <= {*begun, None}:
            raise Wrong(f"{thing}: begun {begun}, put {done}, got {got}")

    return share


def events(make):
    """Waits with an end, and then one without: that ends by its own event only, and not for a killed one."""

    def share(crowd):
        first, second = make(), make()

        def member(chance):
            crowd.own_wait(first.wait, chance.choice([0.0005, 0.004, 0.02, None]))
            seconds = chance.choice([0.0005, 0.03])
            began = crowd.world.clock()
            crowd.own_wait(crowd.world.sleep, seconds)
            if crowd.world.clock() - began < seconds - 1e-6:
                raise Wrong(f"a sleep of {seconds} s took {crowd.world.clock() - began}")
            if not crowd.own_wait(second.wait):
                raise Wrong("a wait without an end has ended without its event")

        def setter(chance):
            for event in first, second:
                for _ in range(chance.randrange(4)):
                    crowd.pause()
                event.set()

        crowd.add(member, crowd.chance.randrange(2, 6))
        crowd.add(setter)
        crowd.wait()

    return share


def conditions(make):
    """A condition, of which all are told."""

    def share(crowd):
        condition, state = make(), [0]

        def member(chance):
            with condition:
                while state[0] < 3:
                    condition.wait(chance.choice([None, None, 0.001]))

        def changer(chance):
            for _ in range(3):
                with condition:
                    state[0] += 1
                    condition.notify_all()
                crowd.pause()

        crowd.add(member, crowd.chance.randrange(2, 6))
        crowd.add(changer)
        crowd.wait()

    return share


def joins(crowd):
    """Tasklets that wait for the end of others, which may be killed."""

    def member(chance):
        crowd.pause()

    def joiner(chance):
        for each in waited_for:
            each.join(chance.choice([None, None, 0.001]))

    crowd.add(member, crowd.chance.randrange(2, 5))
    waited_for = list(crowd.running)
    crowd.add(joiner, crowd.chance.randrange(1, 4))
    crowd.wait()


def queue_of(kind):
    return lambda chance: kind(chance.choice([0, 1, 3]))


KINDS = [
    *(excluding(threading.Lock), excluding(threading.Lock), excluding(threading.RLock)),
    *(excluding(syncless.Lock), excluding(syncless.Semaphore), excluding(lambda: syncless.Semaphore(2), 2)),
    *(excluding(syncless.RLock), excluding(threading.Semaphore)),
    *(passing(queue_of(queue.Queue)), passing(queue_of(syncless.Queue))),
    passing(lambda chance: queue.SimpleQueue()),
    passing(lambda chance: syncless.Channel(), put="send", get="receive"),
    *(events(threading.Event), events(syncless.Event)),
    *(conditions(threading.Condition), conditions(syncless.Condition)),
    joins,
]
