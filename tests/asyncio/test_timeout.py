"""Timeout and deadline in coroutines: they bound calls that block, and reach no other task."""

import asyncio
import sys
import threading

import pytest

from syncless import Timeout, current, deadline, sleep
from tests.asyncio.loops import run
from tests.programs import check

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("kind", [Timeout, deadline])
def test_it_bounds_a_call_that_blocks(kind):
    async def main():
        for _ in range(2):
            with pytest.raises((Timeout, TimeoutError)), kind(0.02):
                sleep(1)
            with kind(1):
                sleep(0.02)
            await asyncio.sleep(0.001)

    run(main())


@pytest.mark.parametrize("kind", [Timeout, deadline])
def test_around_an_await_it_is_refused_and_reaches_no_other_task(kind, reports):
    async def awaits(seconds):
        with kind(0.02):
            await asyncio.sleep(seconds)

    async def blocks():
        for _ in range(5):
            sleep(0.01)
            await asyncio.sleep(0.001)
        return "not interrupted"

    async def main():
        ended = await asyncio.gather(
            blocks(), awaits(0), awaits(0.1), blocks(), blocks(), return_exceptions=True
        )
        assert [ended[number] for number in (0, 3, 4)] == ["not interrupted"] * 3
        for number in (1, 2):
            assert type(ended[number]) is RuntimeError and "use asyncio.timeout()" in str(ended[number])

    run(main())
    assert len(reports) == 1 and "use asyncio.timeout()" in str(reports[0][1])  # of the one that was over


def test_exception_of_the_block_is_not_replaced():
    async def main():
        with pytest.raises(KeyError), Timeout(1):
            await asyncio.sleep(0)
            raise KeyError

    run(main())


def test_exception_that_a_callback_did_not_raise_reaches_no_other():
    """An OS thread throws it while the callback runs, which does not wait any more."""

    async def thrown_at():
        thread = threading.Thread(target=current().kill, kwargs={"block": False})
        thread.start()
        thread.join()

    async def waits():
        sleep(0.01)
        return "not interrupted"

    async def main():
        ended = await asyncio.gather(thrown_at(), waits(), waits(), return_exceptions=True)
        assert ended == [None, "not interrupted", "not interrupted"]

    run(main())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout() is new in Python 3.11")
def test_timeout_of_asyncio_around_both():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                with pytest.raises(Timeout), Timeout(0.01):
                    sleep(1)
                await asyncio.sleep(1)

    run(main())


@pytest.mark.virtual_time(False)
def test_first_step_of_a_request():
    """It is made in the tasklet of the request, which waits for the others."""
    check("""
        import asyncio, time, urllib.request
        import syncless
        from syncless import Timeout
        from syncless.wsgi import Server
        async def app(scope, receive, send):
            if scope["type"] == "lifespan":
                raise NotImplementedError
            answer = "no exception"
            try:
                with Timeout(0.02):
                    if scope["path"] == "/blocks":
                        time.sleep(10)
                    await asyncio.sleep(0.1)
            except (Timeout, RuntimeError) as error:
                answer = type(error).__name__
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": answer.encode()})
        def get(path):
            with urllib.request.urlopen(server.url + path, timeout=60) as response:
                return response.read().decode()
        reports = []
        syncless.set_error_handler(lambda where, error: reports.append(error))
        with Server(app, "127.0.0.1", 0) as server:
            assert get("blocks") == "Timeout" and not reports
            assert get("awaits") == "RuntimeError" and len(reports) == 1
    """)
