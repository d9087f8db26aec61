"""Tasklets and coroutines that wait for each other, and the loop that a thread always has."""

import asyncio
import contextvars
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import syncless
from syncless import Timeout, sleep, spawn
from syncless.asyncio import EventLoop, await_, in_tasklet
from syncless.asyncio.backgroundloop import HAS_POLICIES, DefaultPolicy, background_loop
from syncless.server.serve import Patching
from tests.asyncio.loops import run
from tests.programs import check, run_python

pytestmark = pytest.mark.virtual_time

variable = contextvars.ContextVar("variable", default="none")


async def double(number):
    await asyncio.sleep(0)
    return number * 2


async def fails():
    await asyncio.sleep(0)
    raise ValueError("on purpose")


# -- a coroutine waits for a tasklet ------------------------------------------------------------------------


def test_in_tasklet_gives_result_and_exception():
    def waits(number):
        sleep(0.001)
        return number, variable.get()

    def raises(error):
        raise error

    async def main():
        variable.set("carried over")
        with pytest.raises(KeyError):
            await in_tasklet(raises, KeyError("x"))
        with pytest.raises(RuntimeError, match="raised StopIteration"):
            await in_tasklet(raises, StopIteration())
        return await asyncio.gather(in_tasklet(waits, 1), in_tasklet(waits, number=2))

    assert run(main()) == [(1, "carried over"), (2, "carried over")]


def test_cancelled_in_tasklet_kills_the_tasklet():
    ended = []

    def waits():
        try:
            sleep(3600)
        finally:
            ended.append(True)

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(in_tasklet(waits), 0.001)
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)

    run(main())
    assert ended == [True]


def test_no_item_is_lost_when_tasks_that_wait_for_a_queue_are_cancelled():
    """At each point between the putting of an item and the next step of the task."""

    async def main(rounds):
        queue = syncless.Queue()
        task = asyncio.ensure_future(asyncio.wait_for(awaiting(in_tasklet, queue.get), 3600))
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        queue.put("item")
        for _ in range(rounds):
            sleep(0)
        task.cancel()
        got = await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.001)
        return [item for item in got if item == "item"] + [queue.get() for _ in range(queue.qsize())]

    for rounds in range(4):
        assert run(main(rounds)) == ["item"], rounds


async def awaiting(function, *args):
    return await function(*args)


def test_locks_of_cancelled_tasks_are_free():
    check("""
        import asyncio, threading, syncless
        from syncless.asyncio import in_tasklet
        async def acquire(lock):
            await in_tasklet(lock.acquire)
        async def main(lock, rounds):
            lock.acquire()
            task = asyncio.ensure_future(acquire(lock))
            await asyncio.sleep(0.001)
            lock.release()
            for _ in range(rounds):
                syncless.sleep(0)
            task.cancel()
            if await asyncio.gather(task, return_exceptions=True) == [None]:
                lock.release()      # the task had it before it was cancelled
            await asyncio.sleep(0.001)
            assert lock.acquire(False), (lock, rounds)
        for kind in syncless.Lock, syncless.Semaphore, threading.Lock, threading.Semaphore:
            for rounds in range(4):
                asyncio.run(main(kind(), rounds))
    """)


def test_in_tasklet_works_in_the_loops_of_others():
    """Their waits are patched."""
    check("""
        import asyncio, syncless
        from syncless.asyncio import in_tasklet
        async def main():
            try:
                await in_tasklet({}.pop, "x")
            except KeyError:
                call = in_tasklet(syncless.sleep, 3600)
            asyncio.get_running_loop().call_soon(call.cancel)
            try:
                await call
            except asyncio.CancelledError:
                return await in_tasklet(lambda: "done")
        loop = asyncio.SelectorEventLoop()
        assert loop.run_until_complete(asyncio.wait_for(main(), 3600)) == "done"
        loop.close()
    """)


def test_await_refuses_to_stop_the_loop_of_others_that_runs_here():
    async def main():
        coroutine = asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="would stop the _UnixSelectorEventLoop that runs here"):
            await_(coroutine)
        coroutine.close()

    loop = asyncio.SelectorEventLoop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_in_tasklet_needs_a_running_loop():
    with pytest.raises(RuntimeError, match="no running event loop"):
        in_tasklet(print)


def test_default_executor_is_threads_beside_which_the_loop_goes_on():
    """Calls that hold the OS thread, as C code does."""
    barrier = threading.Barrier(4)

    def waits_in_c():
        barrier.wait()  # none of the four passes it alone
        return threading.get_ident()

    async def main():
        return await asyncio.gather(*[asyncio.to_thread(waits_in_c) for _ in range(4)])

    idents = run(main())
    assert len(set(idents)) == 4 and threading.get_ident() not in idents


def test_default_executor_may_be_tasklets():
    async def main():
        loop = asyncio.get_running_loop()
        with pytest.raises(ValueError, match="'threads' or 'tasklets'"):
            loop.executor = "processes"
        loop.executor = "tasklets"
        go = syncless.Event()
        calls = [asyncio.to_thread(go.wait) for _ in range(100)] + [asyncio.to_thread(threading.get_ident)]
        loop.call_later(0.001, go.set)
        return await asyncio.gather(*calls)

    assert run(main()) == [True] * 100 + [threading.get_ident()]


@pytest.mark.parametrize("executor", ["threads", "tasklets"])
def test_end_of_the_default_executor_waits_for_its_calls(executor):
    ended = []
    release = threading.Event() if executor == "threads" else syncless.Event()

    def call():
        release.wait()
        ended.append(True)

    async def main():
        loop = asyncio.get_running_loop()
        loop.executor = executor
        loop.run_in_executor(None, call)
        await asyncio.sleep(0)
        loop.call_later(0.001, release.set)
        await loop.shutdown_default_executor()
        assert ended
        with pytest.raises(RuntimeError, match="shutdown"):
            loop.run_in_executor(None, call)

    run(main())


# -- a tasklet waits for a coroutine ------------------------------------------------------------------------


def test_await_gives_result_and_exception(background):
    assert await_(double(2)) == 4
    assert asyncio._get_running_loop() is None
    with pytest.raises(ValueError, match="on purpose"):
        await_(fails())


def test_await_carries_the_context_over(background):
    async def look():
        return variable.get()

    context = contextvars.copy_context()
    context.run(variable.set, "carried over")
    assert context.run(await_, look()) == "carried over"


def test_await_in_a_callback_parks_its_task_only():
    async def main():
        def blocks():
            return await_(double(3))

        others = asyncio.ensure_future(double(1))
        result = blocks()
        return result, await others

    assert run(main()) == (6, 2)


def test_await_of_a_cancelled_task_raises_cancelled_error(background):
    task = background.create_task(asyncio.sleep(3600))
    background.call_later(0.001, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await_(task)


@pytest.mark.parametrize("how", ["timeout", "Timeout", "kill"])
def test_await_that_ends_early_cancels_the_task(background, how):
    task = background.create_task(asyncio.sleep(3600))
    if how == "timeout":
        with pytest.raises(TimeoutError, match="within"):
            await_(task, timeout=0.001)
    elif how == "Timeout":
        with pytest.raises(Timeout), Timeout(0.001):
            await_(task)
    else:
        tasklet = spawn(await_, task)
        sleep(0.001)
        tasklet.kill()
    sleep(0.001)
    assert task.cancelled()


def test_await_refuses_other_objects_than_awaitables(background):
    with pytest.raises(TypeError, match="awaitable"):
        await_(5)


# -- the background loop ---------------------------------------------------------------------------


def test_timer_set_in_a_tasklet_fires(background):
    fired = syncless.Event()
    background.call_later(0.001, fired.set)
    assert fired.wait(10)


def test_background_loop_runs_as_scripts_run_a_loop(background):
    assert background.run_until_complete(double(4)) == 8
    background.call_later(0.001, background.stop)
    background.run_forever()
    background.close()
    assert background.is_closed()
    another = background_loop()
    assert another is not background
    another.close()


def test_background_loop_says_that_it_runs_where_a_wait_for_it_is_a_mistake(background):
    async def ask():
        return background.is_running()

    assert not background.is_running()  # libraries ask before they call run_until_complete()
    assert background.run_until_complete(ask())
    assert syncless.run_in_thread(background.is_running)
    background.close()
    assert not syncless.run_in_thread(background.is_running)


def test_exit_of_a_task_is_raised_where_it_is_awaited_and_the_background_loop_goes_on(background):
    async def leaves():
        await asyncio.sleep(0)
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await_(leaves())
    assert await_(double(2)) == 4


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_exit_of_a_callback_is_the_main_tasklets_and_the_background_loop_goes_on(background, kind):
    def leaves():
        raise kind

    background.call_soon(leaves)
    with pytest.raises(kind):
        sleep(10)
    assert await_(double(2)) == 4


def test_each_thread_has_a_background_loop(background):
    loops = []

    def body():
        loops.append(background_loop())
        assert await_(double(1)) == 2

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert loops[0] is not background and loops[0].is_closed()


PROGRAM = """
import asyncio, sys, time
import syncless.asyncio
from syncless import Event, spawn
{patch}
syncless.asyncio.install()

def application():
    fired = Event()
    asyncio.get_event_loop().call_later(0.001, fired.set)
    return fired.wait(10)

async def main():
    return type(asyncio.get_running_loop()).__name__

print(spawn(application).result(), asyncio.run(main()), asyncio.run(main()), spawn(application).result())
"""


@pytest.mark.parametrize("patch", ["", "from syncless.patches import patch_all; patch_all()"])
def test_install_gives_tasklets_a_loop_that_runs(patch):
    assert run_python(PROGRAM.format(patch=patch)) == "True EventLoop EventLoop True\n"


# -- under the patch -----------------------------------------------------------------------------


def test_blocking_calls_of_the_standard_library_hold_up_their_own_task_only():
    """time.sleep, and a request by urllib to a server in the same process."""
    assert (
        run_python("""
from syncless.patches import patch_all
patch_all()
import asyncio, time, urllib.request
from syncless.asyncio import EventLoop
from syncless.wsgi import Server

def application(environ, start_response):
    all_wait()
    start_response("200 OK", [])
    return [b"answer"]

waiting = 0
def all_wait():  # none goes on before all of them wait
    global waiting
    waiting += 1
    while waiting < 100:
        time.sleep(0.01)

async def main(url):
    async def asks():
        with urllib.request.urlopen(url) as response:
            return response.read()
    async def sleeps():
        all_wait()
        return b"slept"
    answers = await asyncio.gather(*[asks() for _ in range(50)], *[sleeps() for _ in range(50)])
    return sorted(set(answers))

server = Server(application, "127.0.0.1", 0).start()
loop = EventLoop()
print(loop.run_until_complete(main(server.url)))
loop.close()
server.stop()
""")
        == "[b'answer', b'slept']\n"
    )


# -- signals and children -----------------------------------------------------------------------------------


def test_signal_handler_is_called_in_the_loop():
    seen = []

    async def main():
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def came(number):
            seen.append((number, asyncio.get_running_loop() is loop))
            done.set()

        loop.add_signal_handler(signal.SIGUSR1, came, 1)
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.wait_for(done.wait(), 10)
        assert loop.remove_signal_handler(signal.SIGUSR1)
        assert not loop.remove_signal_handler(signal.SIGUSR1)
        with pytest.raises(ValueError):
            loop.add_signal_handler(10000, came)
        with pytest.raises(RuntimeError, match="cannot be caught"):
            loop.add_signal_handler(signal.SIGKILL, came)
        with pytest.raises(TypeError, match="coroutines"):
            loop.add_signal_handler(signal.SIGUSR1, main)

    run(main())
    assert seen == [(1, True)]
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL


def test_signal_handler_needs_the_main_thread():
    refused = []

    def body():
        loop = EventLoop()
        try:
            loop.add_signal_handler(signal.SIGUSR1, print)
        except RuntimeError as error:
            refused.append(str(error))
        loop.close()

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert "main thread" in refused[0]


def test_child_of_a_fork_may_run_a_loop():
    assert (
        run_python("""
import asyncio, os
from syncless import sleep
from syncless.asyncio import EventLoop

async def answer():
    await asyncio.sleep(0.001)
    return 5

def run(main):
    loop = EventLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()

async def main():
    await asyncio.sleep(0)
    child = os.fork()
    if child == 0:
        os._exit(run(answer()))
    sleep(0.001)
    await asyncio.sleep(0.001)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

print(run(main()))
""")
        == "5\n"
    )


def test_child_of_a_fork_may_use_the_background_loop_of_its_parent():
    """As an application does that was imported before its workers were forked."""
    assert (
        run_python("""
import asyncio, os
import syncless
from syncless.asyncio import await_, install

async def answer(number):
    await asyncio.sleep(0.001)
    return number

install()
loop = asyncio.get_event_loop()
assert await_(answer(1)) == 1
timer = syncless.Event()
loop.call_later(0.001, timer.set)
child = os.fork()
if child == 0:
    assert timer.wait(10) and asyncio.get_event_loop() is loop
    os._exit(await_(answer(5)))
assert timer.wait(10) and await_(answer(2)) == 2
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
        == "5\n"
    )


def test_child_forked_by_a_callback_leaves_the_callbacks_of_its_parent_alone():
    assert (
        run_python("""
import asyncio, os
from syncless.asyncio import EventLoop

children = []
def fork():
    children.append(os.fork())
    if not children[0]:
        loop.call_soon(os._exit, 3)

loop = EventLoop()
loop.call_soon(fork)
loop.call_soon(lambda: children[0] or os._exit(4))
loop.call_soon(loop.stop)
loop.run_forever()
loop.close()
print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
""")
        == "0\n"
    )


# -- libraries on top --------------------------------------------------------------------------------------


def test_streams_echo():
    async def serve(reader, writer):
        while data := await reader.read(1000):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def ask(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(20):
            writer.write(b"%d\n" % number)
            assert await reader.readline() == b"%d\n" % number
        writer.write(b"x" * 1_000_000 + b"\n")
        writer.write_eof()
        data = await reader.read()
        writer.close()
        await writer.wait_closed()
        return len(data)

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        lengths = await asyncio.gather(*[ask(port) for _ in range(20)])
        server.close()
        await server.wait_closed()
        return lengths

    assert run(main()) == [1_000_001] * 20


def test_names_are_found_by_the_cooperative_resolver():
    async def main():
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo("localhost", 80, type=1)
        return found[0][4][1], await loop.getnameinfo(("127.0.0.1", 80), 3)

    assert run(main()) == (80, ("127.0.0.1", "80"))


# -- a server that is not patched ---------------------------------------------------------------------------


@pytest.fixture
def offered(monkeypatch):
    """asyncio as such a server leaves it."""
    if HAS_POLICIES:
        monkeypatch.setattr(asyncio.events, "_event_loop_policy", None)
    else:
        for module in (asyncio, asyncio.events):  # to be put back
            monkeypatch.setattr(module, "get_event_loop", module.get_event_loop)
    Patching(False)()


with_policies = pytest.mark.skipif(not HAS_POLICIES, reason="this Python has no event loop policies")


def test_timer_of_a_server_that_is_not_patched_is_called(offered, background):
    called = []
    assert spawn(asyncio.get_event_loop).result() is asyncio.get_event_loop() is background
    spawn(lambda: asyncio.get_event_loop().call_later(0.01, called.append, 1))
    sleep(0.1)
    assert called == [1]


def test_server_that_is_not_patched_leaves_other_loops_alone(offered, monkeypatch):
    own = asyncio.new_event_loop()
    assert type(own).__module__.startswith("asyncio.")
    # a thread of its own: one of the pool may have parked before, and then has a loop
    fresh = ThreadPoolExecutor(1)
    with fresh, pytest.raises(RuntimeError, match="no current event loop"):
        fresh.submit(asyncio.get_event_loop).result()
    if HAS_POLICIES:
        monkeypatch.setattr(asyncio.events, "_event_loop_policy", DefaultPolicy())
    asyncio.set_event_loop(own)
    Patching(False)()
    assert asyncio.get_event_loop() is own
    asyncio.set_event_loop(None)
    own.close()


@with_policies
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="get_event_loop() makes no loop any more")
@pytest.mark.filterwarnings("ignore:There is no current event loop:DeprecationWarning")
def test_loop_that_was_made_before_the_server_stays(monkeypatch):
    monkeypatch.setattr(asyncio.events, "_event_loop_policy", None)
    early = asyncio.get_event_loop()
    Patching(False)()
    assert spawn(asyncio.get_event_loop).result() is early and not early.is_running()
    early.close()


@with_policies
def test_policy_of_the_program_stays(monkeypatch):
    class Policy(DefaultPolicy):
        pass

    policy = Policy()
    monkeypatch.setattr(asyncio.events, "_event_loop_policy", policy)
    Patching(False)()
    assert asyncio.events._event_loop_policy is policy


def test_asyncio_that_is_imported_after_the_start_has_a_loop():
    check(
        run_python(
            """
import sys
from syncless.server.serve import Patching
Patching(False)()
assert "asyncio" not in sys.modules
import asyncio
import syncless
called = []
syncless.spawn(lambda: asyncio.get_event_loop().call_later(0.001, called.append, 1)).join()
while not called:
    syncless.sleep(0.001)
"""
        )
    )
