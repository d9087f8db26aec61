"""Calls in a coroutine that block any other loop: they hold up their own task, and the loop tells of them."""

import asyncio

import pytest

from syncless import Event, sleep, spawn
from tests.asyncio.loops import run
from tests.programs import check

pytestmark = pytest.mark.virtual_time


def told(caplog):
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith("waited")]


async def waits():
    for _ in range(2):
        sleep(0.25)
    Event().wait(0.5)
    await asyncio.sleep(0.1)


SLEEP, WAIT = (f"{__file__}:{waits.__code__.co_firstlineno + number};" for number in (2, 3))


def test_warning_names_each_line_that_waits_once(caplog):
    async def main():
        await asyncio.gather(*[waits() for _ in range(3)])

    run(main(), blocking="warn")
    lines = told(caplog)
    assert len(lines) == 2, lines
    assert lines[0].startswith(
        f"waited 0.500 s in a call (sleep) at {SLEEP} only this task was blocked: <Task"
    )
    assert lines[1].startswith("waited 0.500 s in a call (event)") and WAIT in lines[1]
    assert asyncio.sleep.__name__ not in "".join(line.partition(" only ")[0] for line in lines[1:])


def test_debug_mode_tells_of_each_long_wait(caplog):
    async def main():
        asyncio.get_running_loop().set_debug(True)
        await waits()
        asyncio.get_running_loop().slow_callback_duration = 0.6
        await waits()

    run(main())
    assert [line.partition(" at ")[2].partition(" ")[0] for line in told(caplog)] == [SLEEP, WAIT]


def test_calls_that_only_give_way_are_not_told(caplog):
    async def main():
        spawn(sleep, 0)
        sleep(0)
        await asyncio.sleep(0)

    run(main(), blocking="warn")
    assert told(caplog) == []


@pytest.mark.virtual_time(False)
def test_warning_names_the_library_that_waits():
    output = check("""
        import asyncio, logging, subprocess, sys
        logging.basicConfig(stream=sys.stdout, format="%(message)s")
        async def main():
            asyncio.get_running_loop().blocking = "warn"
            await asyncio.sleep(0)
            subprocess.run([sys.executable, "-c", "pass"], check=True)
        asyncio.run(main())
    """)
    assert " s in subprocess.run at <string>:" in output


PARKING = """
import asyncio, time, threading
from syncless.wsgi import Server
try:
    import requests
    def get(url):
        return requests.get(url).content
except ImportError:
    import urllib.request
    def get(url):
        with urllib.request.urlopen(url) as response:
            return response.read()

def app(environ, start_response):
    released.wait()
    start_response("200 OK", [])
    return [b"answer"]

async def main(url):
    blocked = 0
    async def releases():
        while blocked < 1000:
            await asyncio.sleep(0.01)
        for _ in range(10):
            await asyncio.sleep(0.01)
            assert blocked == 1000
        released.set()
    async def blocks(number):
        nonlocal blocked
        await asyncio.sleep(0)
        me = asyncio.current_task()
        blocked += 1
        if number % 4 == 0:
            assert get(url) == b"answer"
        elif number % 4 == 1:
            released.wait()
        else:
            while not released.is_set():
                time.sleep(0.2)
        blocked -= 1
        assert asyncio.current_task() is me and asyncio.get_running_loop() is loop
        await asyncio.sleep(0.001)
        assert asyncio.current_task() is me
    loop = asyncio.get_running_loop()
    loop.slow_callback_duration = 600  # in debug mode it would tell of each wait
    await asyncio.gather(releases(), *[blocks(number) for number in range(1000)])
    assert blocked == 0

released = threading.Event()
with Server(app, "127.0.0.1", 0) as server:
    asyncio.run(main(server.url))
"""


@pytest.mark.slow
@pytest.mark.virtual_time(False)
def test_thousand_tasks_that_block_beside_one_that_awaits():
    check(PARKING, timeout=120)
