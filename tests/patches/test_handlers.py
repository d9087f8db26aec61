"""Synchronous handlers of asynchronous frameworks run in tasklets; other calls of the default executor do
not."""

import pytest

from tests.programs import check

BEGIN = """
import asyncio, threading, time
MAIN = threading.main_thread().native_id
here, all_here = 0, threading.Event()

def wait(number=100):
    '''Waits until so many calls wait at once; which OS thread it is in.'''
    global here
    here += 1
    if here == number:
        all_here.set()
    assert all_here.wait(60)
    time.sleep(0.001)
    return threading.get_native_id()

async def at_once(call, number=100):
    return set(await asyncio.gather(*[call() for _ in range(number)]))

"""

CALLS = {
    "quart": """
from quart.utils import run_sync
call = run_sync(wait)
""",
    "litestar": """
from litestar.concurrency import sync_to_thread
def call():
    return sync_to_thread(wait)
""",
    "asgiref": """
from asgiref.sync import sync_to_async
call = sync_to_async(wait, thread_sensitive=False)
""",
}


def passes(library, program, patch="patch_all()"):
    pytest.importorskip(library, reason=f"{library} is not installed")
    noisy = "import warnings; warnings.simplefilter('default')\n"  # what libraries warn of at their import
    done = check(noisy + BEGIN + CALLS[library] + program, patch=patch)
    assert done


@pytest.mark.parametrize("library", CALLS)
def test_hundred_calls_wait_at_once_in_tasklets(library):
    passes(library, "assert asyncio.run(at_once(call)) == {MAIN}\n")


@pytest.mark.parametrize("library", CALLS)
def test_they_do_so_beside_calls_in_threads(library):
    passes(
        library,
        """
async def main():
    assert await asyncio.to_thread(threading.get_native_id) != MAIN
    assert await asyncio.get_running_loop().run_in_executor(None, threading.get_native_id) != MAIN
    assert await at_once(call) == {MAIN}
    assert await asyncio.to_thread(threading.get_native_id) != MAIN
asyncio.run(main())
""",
    )


@pytest.mark.parametrize("library", CALLS)
@pytest.mark.parametrize(
    "choice",
    [
        "loop.executor = 'threads'",
        "loop.set_default_executor(syncless.threads.RealThreadPoolExecutor(2))",
    ],
)
def test_choice_of_the_program_holds(library, choice):
    passes(
        library,
        f"""
import syncless.threads
async def main():
    loop = asyncio.get_running_loop()
    {choice}
    all_here.set()
    assert MAIN not in await at_once(call, 2)
    await loop.shutdown_default_executor()
asyncio.run(main())
""",
    )


@pytest.mark.parametrize("library", CALLS)
def test_unpatched_threads_stay(library):
    passes(
        library,
        """
async def main():
    all_here.set()
    assert MAIN not in await at_once(call, 2)
asyncio.run(main())
""",
        patch="patch_all(thread=False)",
    )


def test_coroutine_is_awaited_from_such_a_call():
    """As Django does: async_to_sync inside sync_to_async."""
    passes(
        "asgiref",
        """
from asgiref.sync import async_to_sync
seen = []
async def inner():
    await asyncio.sleep(0.001)
    seen.append(asyncio.get_running_loop())
    return 5
async def main():
    answers = await asyncio.gather(
        *[sync_to_async(async_to_sync(inner), thread_sensitive=False)() for _ in range(20)]
    )
    assert answers == [5] * 20 and set(seen) == {asyncio.get_running_loop()}
asyncio.run(main())
""",
    )
