"""A cancellation that comes while its block waits in a call that blocks, the last thing in the block: an
await after the block does not raise it."""

import asyncio
import sys

import pytest

from syncless import sleep
from tests.asyncio.loops import run

pytestmark = [
    pytest.mark.virtual_time,
    pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout() is new in Python 3.11"),
]


async def awaits():
    for _ in range(2):
        await asyncio.sleep(0.01)
    assert asyncio.current_task().cancelling() == 0


def test_deadline_of_a_timeout_leaves_nothing_behind():
    async def main():
        async with asyncio.timeout(0.02) as timeout:
            sleep(0.05)
        assert timeout.expired()
        await awaits()

    run(main())


def test_timeout_is_raised_at_an_await_in_its_block():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                sleep(0.05)
                await asyncio.sleep(0)
        await awaits()

    run(main())


def test_nested_timeouts_leave_nothing_behind():
    async def main():
        async with asyncio.timeout(0.02):
            async with asyncio.timeout(0.01):
                sleep(0.05)
        await awaits()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                async with asyncio.timeout(0.01):
                    sleep(0.05)
                await asyncio.sleep(0)  # the outer one's
        await awaits()

    run(main())


def test_failing_child_of_a_group_leaves_nothing_behind():
    async def fails():
        await asyncio.sleep(0.01)
        raise ValueError("on purpose")

    async def main():
        with pytest.raises(BaseExceptionGroup) as caught:  # noqa: F821  # new in 3.11
            async with asyncio.TaskGroup() as group:
                group.create_task(fails())
                await asyncio.sleep(0)
                sleep(0.05)
        assert [type(error) for error in caught.value.exceptions] == [ValueError]
        await awaits()

    run(main())


def test_cancellation_from_outside_is_raised_after_the_block():
    async def main():
        asyncio.get_running_loop().call_later(0.02, asyncio.current_task().cancel)
        async with asyncio.timeout(0.01):
            sleep(0.05)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0.01)
        assert asyncio.current_task().uncancel() == 0
        await awaits()

    run(main())


def test_task_that_is_cancelled_while_it_blocks_ends_so():
    async def main():
        async def blocks():
            sleep(0.05)

        task = asyncio.create_task(blocks())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    run(main())


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the interpreter's own uncancel() does it")
def test_other_loops_keep_their_uncancel():
    async def main():
        task = asyncio.current_task()
        task.cancel()
        task.uncancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)

    loop = asyncio.SelectorEventLoop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
