"""anyio's calls in worker threads are tasklets."""

import pytest

from tests.programs import check

pytest.importorskip("anyio", reason="anyio is not installed")

BEGIN = """
import asyncio, contextvars, threading, time
import anyio, anyio.from_thread, anyio.to_thread
run_sync = anyio.to_thread.run_sync
"""


def passes(program, **options):
    check(BEGIN + program, **options)


@pytest.mark.parametrize("before", ["", "import anyio.to_thread, anyio._backends._asyncio\n"])
def test_thousand_calls_wait_at_once(before):
    """Whether anyio was imported before the patch or after it."""
    passes(
        """
all_here = threading.Event()
here = 0
def wait():
    global here
    here += 1
    if here == 1000:
        all_here.set()
    assert all_here.wait(60)
async def main():
    async with anyio.create_task_group() as group:
        for _ in range(1000):
            group.start_soon(run_sync, wait)
anyio.run(main)
assert here == 1000
""",
        patch=before + "patch_all()",
    )


def test_limits_of_the_program_hold():
    passes("""
now = most = 0
def work(all_here):
    global now, most
    now += 1
    most = max(most, now)
    all_here.wait(60)
    time.sleep(0.02)    # in which more would come
    now -= 1
async def main(limiter, number):
    global most
    most = 0
    all_here = threading.Barrier(number)
    async with anyio.create_task_group() as group:
        for _ in range(15):
            group.start_soon(lambda: run_sync(work, all_here, limiter=limiter))
    return most
async def with_the_default():
    limiter = anyio.to_thread.current_default_thread_limiter()
    assert limiter.total_tokens == 1000
    limiter.total_tokens = 5
    assert anyio.to_thread.current_default_thread_limiter() is limiter
    return await main(None, 5)
async def with_its_own():
    return await main(anyio.CapacityLimiter(3), 3)
assert anyio.run(with_the_default) == 5
assert anyio.run(with_its_own) == 3
""")


def test_results_errors_and_context():
    passes("""
variable = contextvars.ContextVar("variable", default=0)
def add(a, b):
    assert variable.get() == 1
    variable.set(2)
    return a + b
def fail(error):
    raise error
async def main():
    variable.set(1)
    assert await run_sync(add, 1, 2) == 3 and variable.get() == 1
    for error, seen in ((ValueError("x"), ValueError), (StopIteration(), RuntimeError)):
        try:
            await run_sync(fail, error)
        except seen:
            pass
        else:
            raise AssertionError
anyio.run(main)
""")


def test_call_reaches_back_to_its_loop():
    passes("""
async def double(x):
    await anyio.sleep(0.001)
    return 2 * x
def work():
    assert anyio.from_thread.run(double, 4) == 8
    assert anyio.from_thread.run_sync(threading.current_thread) is threading.main_thread()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.from_thread.run(run_sync, lambda: anyio.from_thread.run(double, 5))
assert anyio.run(run_sync, work) == 10
""")


def test_cancelled_scope_waits_for_the_call_or_abandons_it():
    passes("""
begun, go = threading.Event(), threading.Event()
log = []
def work(checks):
    begun.set()
    go.wait()
    if checks:
        try:
            anyio.from_thread.check_cancelled()
        except asyncio.CancelledError:
            log.append("told")
    log.append("done")
async def main(abandons):
    begun.clear()
    go.clear()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: run_sync(work, not abandons, abandon_on_cancel=abandons))
        while not begun.is_set():
            await anyio.sleep(0)
        group.cancel_scope.cancel()
        if not abandons:
            go.set()
    log.append("left")
    go.set()
    while log[-1] == "left" and abandons:
        await anyio.sleep(0.001)
anyio.run(main, False)
assert log == ["told", "done", "left"], log
log.clear()
anyio.run(main, True)
assert log == ["left", "done"], log
""")


def test_task_cancelled_by_asyncio_leaves_its_call_behind():
    passes("""
begun, go = threading.Event(), threading.Event()
def work():
    begun.set()
    go.wait()
    go.done = True
async def main():
    task = asyncio.create_task(run_sync(work))
    while not begun.is_set():
        await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    else:
        raise AssertionError
    go.set()
    while not hasattr(go, "done"):
        await asyncio.sleep(0.001)
asyncio.run(main())
""")


def test_unpatch_gives_threads_back():
    passes("""
unpatch()
def ident():
    return threading.get_ident()
async def main():
    assert await run_sync(ident) != ident()
    assert anyio.to_thread.current_default_thread_limiter().total_tokens == 40
anyio.run(main)
""")


def test_cancelled_scope_leaves_nothing_behind():
    """Its deadline comes while its block waits in a call that blocks, the last thing in it."""
    passes("""
async def main():
    with anyio.move_on_after(0.02) as scope:
        time.sleep(0.06)
    assert scope.cancel_called and not scope.cancelled_caught
    with anyio.fail_after(0.02):
        with anyio.move_on_after(0.01):
            time.sleep(0.06)
    for _ in range(3):
        await anyio.sleep(0.001)
    with anyio.move_on_after(0.02) as scope:
        time.sleep(0.06)
        await anyio.sleep(1)
    assert scope.cancelled_caught
    await anyio.sleep(0.001)
    try:
        with anyio.fail_after(0.02):
            with anyio.move_on_after(0.01):
                time.sleep(0.06)
            await anyio.sleep(1)
    except TimeoutError:
        pass
    else:
        raise AssertionError("the outer scope's deadline is lost")
    await anyio.sleep(0.001)
    asyncio.get_running_loop().call_later(0.02, asyncio.current_task().cancel)
    with anyio.move_on_after(0.01):
        time.sleep(0.06)
    try:
        await anyio.sleep(1)
    except asyncio.CancelledError:
        return
    raise AssertionError("a cancellation from outside is lost")
anyio.run(main)
""")
