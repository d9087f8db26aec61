"""Every way in which a cancellation and a step that parks meet, beside asyncio's own loop.

There the park is an `await` that takes no cancellation: it is raised at the next `await`, as for a step that
really blocks. Outcomes, events and their times are to be the same.
"""

import asyncio
import itertools
import sys

import pytest

import syncless
from syncless.asyncio import EventLoop

pytestmark = pytest.mark.virtual_time

PARK = 5  # seconds; cancellations come at other times, so that no two events have one time


class World:
    """What happens in one loop, each with its time."""

    def __init__(self, loop):
        self.loop = loop
        self.began = loop.time()
        self.log = []

    def tell(self, *words):
        self.log.append((round(self.loop.time() - self.began, 1), *words))

    async def rest(self, seconds):
        await asyncio.sleep(seconds)


class Ours(World):
    async def park(self, seconds):
        syncless.sleep(seconds)


class Plain(World):
    async def park(self, seconds):
        over = self.loop.create_future()
        self.loop.call_later(seconds, over.set_result, None)
        words = None
        while not over.done():
            try:
                await asyncio.wait([over])
            except asyncio.CancelledError as error:
                words = error.args
        task = asyncio.current_task()
        if words is not None:
            task.cancel(*words)
            getattr(task, "uncancel", int)()


class PlainTask(asyncio.tasks._PyTask):
    """Of Python 3.13, in 3.11 and 3.12."""

    def uncancel(self):
        left = super().uncancel()
        self._must_cancel = self._must_cancel and left > 0
        return left


# -- bodies --------------------------------------------------------------------------------------------------


async def parks(world):
    await world.park(PARK)


async def parks_and_awaits(world):
    await world.park(PARK)
    await world.rest(0)


async def awaits_between_parks(world):
    await world.rest(0)
    await world.park(PARK)
    await world.rest(3)
    await world.park(PARK)


async def swallows(world):
    try:
        await world.park(PARK)
        await world.rest(0)
    except asyncio.CancelledError:
        world.tell("swallowed")
    await world.rest(0)


async def parks_at_the_end(world, seconds=PARK):
    try:
        await world.rest(seconds)
    finally:
        await world.park(seconds)
        world.tell("cleaned up")


async def parks_twice(world):
    try:
        await world.park(PARK)
    finally:
        await world.park(PARK)


async def fails(world):
    await world.park(PARK)
    raise ValueError("on purpose")


# -- blocks around them --------------------------------------------------------------------------------------


def timeout(seconds):
    async def block(world, later, body):
        async with asyncio.timeout(seconds + later):
            await body(world)

    return block


async def group_with_failing_child(world, later, body):
    async def child():
        await world.rest(1.5 + later)
        raise KeyError("of a child")

    async with asyncio.TaskGroup() as group:
        group.create_task(child())
        await body(world)


async def group_with_failing_body(world, later, body):
    async with asyncio.TaskGroup() as group:
        group.create_task(parks_at_the_end(world, 4.2 + later))
        await world.rest(0)
        await body(world)


async def group_of_bodies(world, later, body):
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(body(world))


def wait_for(seconds):
    async def block(world, later, body):
        await asyncio.wait_for(body(world), seconds + later)

    return block


async def shield(world, later, body):
    inner = asyncio.ensure_future(body(world))
    try:
        await asyncio.shield(inner)
    finally:
        world.tell("shield is over", inner.done())
        await asyncio.wait([inner])


async def gather(world, later, body):
    await asyncio.gather(body(world), parks_at_the_end(world, 4.2 + later))


async def nothing(world, later, body):
    await body(world)


BODIES = [parks, parks_and_awaits, awaits_between_parks, swallows, parks_at_the_end, parks_twice, fails]
BLOCKS = {"nothing": nothing, "shield": shield, "gather": gather}
BLOCKS |= {f"wait_for {seconds}": wait_for(seconds) for seconds in (1, 50)}
if hasattr(asyncio, "timeout"):
    BLOCKS |= {f"timeout {seconds}": timeout(seconds) for seconds in (0, 1.2, 50)}
    BLOCKS |= {
        each.__name__: each for each in (group_with_failing_child, group_with_failing_body, group_of_bodies)
    }

CANCELLATIONS = {
    "none": [],
    "before": [(0, "cancel")],
    "during": [(2.3, "cancel")],
    "after": [(6.3, "cancel")],
    "twice": [(2.3, "cancel"), (3.3, "cancel")],
    "taken back": [(2.3, "cancel"), (3.3, "uncancel")],
    "during and after": [(0.7, "cancel"), (7.7, "cancel")],
}


async def play(world, outer, inner, body, cancellations):
    async def whole():
        try:
            await BLOCKS[outer](world, 0, lambda world: BLOCKS[inner](world, 0.2, body))
        except Exception as error:
            world.tell("raised", repr(error))
        try:
            await world.rest(0)
            await world.rest(4)
        finally:
            world.tell("cancelling", getattr(task, "cancelling", int)())

    task = asyncio.ensure_future(whole())
    for seconds, what in cancellations:
        args = (f"at {seconds}",) if what == "cancel" else ()
        if hasattr(task, what):
            if seconds:
                world.loop.call_later(seconds, getattr(task, what), *args)
            else:
                task.cancel(*args)
    try:
        await task
    except BaseException as error:
        world.tell("ended by", repr(error))
    else:
        world.tell("ended")
    return world.log


@pytest.fixture(scope="module")
def loops():
    ours, plain = EventLoop(), asyncio.SelectorEventLoop()
    if (3, 11) <= sys.version_info < (3, 13):
        plain.set_task_factory(lambda loop, coroutine, **more: PlainTask(coroutine, loop=loop, **more))
    for loop in ours, plain:
        loop.set_exception_handler(lambda loop, context: None)  # some outcomes are nobody's
    yield [(Ours, ours), (Plain, plain)]
    for loop in ours, plain:
        loop.close()


@pytest.mark.parametrize("cancelled", CANCELLATIONS)
@pytest.mark.parametrize("body", BODIES)
def test_outcome_and_order_are_those_of_asyncio(body, cancelled, loops):
    pairs = list(itertools.product(BLOCKS, BLOCKS))

    async def play_all(world):
        loop = asyncio.get_running_loop()
        plays = [play(world(loop), *pair, body, CANCELLATIONS[cancelled]) for pair in pairs]
        return await asyncio.gather(*plays)

    ours, plain = (loop.run_until_complete(play_all(world)) for world, loop in loops)
    assert [each for each in zip(pairs, ours, plain, strict=True) if each[1] != each[2]] == []
