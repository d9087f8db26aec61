"""asyncio under the patch: its loops are ours, and which loop runs is a tasklet's own affair."""

import pytest

from tests import needs
from tests.programs import check, run_python


def test_patch_installs_our_loop_and_takes_it_back():
    check("""
        import asyncio
        from syncless.asyncio import EventLoop
        async def kind():
            return type(asyncio.get_running_loop())
        assert asyncio.run(kind()) is EventLoop
        new = asyncio.new_event_loop()
        assert type(new) is EventLoop
        new.close()
        background = asyncio.get_event_loop()
        assert background.run_until_complete(kind()) is type(background)
        background.close()
        unpatch("asyncio")
        assert not issubclass(asyncio.run(kind()), EventLoop)
        patch_all()
        assert asyncio.run(kind()) is EventLoop
    """)


def test_our_package_may_be_the_first_to_import_asyncio():
    check("""
        from syncless.asyncio import EventLoop
        import asyncio, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # policies, since Python 3.14
        assert type(asyncio.get_event_loop_policy()).__module__ == "syncless.asyncio.backgroundloop"
    """)


def test_making_a_future_in_debug_mode_does_not_wait():
    """It reads the source files on the stack, which may take a while."""
    check("""
        import asyncio, contextlib, linecache, queue, time
        import syncless
        def checkcache(filename=None):
            with contextlib.suppress(queue.Empty):
                queue.SimpleQueue().get(timeout=0.001)
        async def nothing():
            pass
        async def main():
            loop = asyncio.get_running_loop()
            assert loop.get_debug()
            start = lambda: tasks.append(loop.create_task(nothing()))
            soon = lambda: loop.call_soon(len, "")
            for make in (loop.create_future, asyncio.Future, soon, start):
                turns = syncless.spawn(lambda: None)
                linecache.checkcache = checkcache
                make()
                linecache.checkcache = original
                assert not turns.ready(), "others had a turn meanwhile"
                time.sleep(0)
            await asyncio.gather(*tasks)
        tasks = []
        original = linecache.checkcache
        asyncio.run(main())
    """)


def test_formatting_an_exception_lets_others_run():
    """Its source files may lie on a slow disk."""
    check("""
        import linecache, traceback
        from syncless._core.current import may_park
        seen = []
        original = linecache.getlines
        linecache.getlines = lambda *args: seen.append(may_park()) or original(*args)
        try:
            linecache.nothing
        except AttributeError:
            traceback.format_exc()
        assert seen and all(seen), seen
    """)


def test_area_can_be_left_out():
    check(
        """
        import asyncio
        from syncless.asyncio import EventLoop
        loop = asyncio.new_event_loop()
        assert not isinstance(loop, EventLoop)
        loop.close()
        """,
        patch="patch_all(asyncio=False)",
    )


@pytest.mark.parametrize("chosen_first", [True, False], ids=["before the patch", "after the patch"])
def test_loop_that_the_program_chooses_stays(chosen_first):
    choose = """
import asyncio, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # policies, since Python 3.14
class Chosen(asyncio.DefaultEventLoopPolicy):
    pass
asyncio.set_event_loop_policy(Chosen())
"""
    program = """
assert type(asyncio.get_event_loop_policy()) is Chosen
async def answer():
    return await asyncio.to_thread(len, "seven")
assert asyncio.run(answer()) == 5
unpatch()
assert type(asyncio.get_event_loop_policy()) is Chosen
"""
    if chosen_first:
        check(program, patch=choose + "patch_all()")
    else:
        check(choose + program)


def test_request_sets_a_timer_and_awaits_a_coroutine():
    """And another one waits meanwhile."""
    check("""
        import asyncio, threading, urllib.request
        from syncless.asyncio import await_
        from syncless.wsgi import Server
        elapsed = threading.Event()
        async def wait():
            await asyncio.sleep(0.001)
            return b"waited"
        def app(environ, start_response):
            start_response("200 OK", [])
            if environ["PATH_INFO"] == "/timer":
                asyncio.get_event_loop().call_later(0.001, elapsed.set)
                return [b"set"]
            if environ["PATH_INFO"] == "/elapsed":
                elapsed.wait(60)
                return [b"elapsed" if elapsed.is_set() else b"no timer"]
            return [await_(wait())]
        with Server(app, "127.0.0.1", 0) as server:
            def ask(path):
                with urllib.request.urlopen(server.url + path) as response:
                    return response.read()
            answers = []
            asking = threading.Thread(target=lambda: answers.append(ask("elapsed")))
            asking.start()
            assert [ask("waits"), ask("timer")] == [b"waited", b"set"]
            asking.join()
            assert answers == [b"elapsed"]
        asyncio.get_event_loop().close()
    """)


def test_default_executor_of_any_loop_is_real_threads():
    check("""
        import asyncio, ctypes, os, threading
        read = ctypes.CDLL(None).read
        pipe, end = os.pipe()
        def wait_in_c():
            return read(pipe, ctypes.create_string_buffer(1), 1), threading.get_native_id()
        async def main():
            waiting = [asyncio.ensure_future(asyncio.to_thread(wait_in_c)) for _ in range(4)]
            await asyncio.sleep(0.001)
            os.write(end, b"1234")
            return await asyncio.gather(*waiting)
        for make in (asyncio.new_event_loop, asyncio.SelectorEventLoop):
            loop = make()
            answers = loop.run_until_complete(main())
            assert {count for count, _ in answers} == {1}
            assert threading.get_native_id() not in {thread for _, thread in answers}
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
    """)


OTHERS = {
    "uvloop": "import uvloop as library\nrun = library.run",
    "trio": "import trio as library\nrun = lambda main: library.run(lambda: main)",
    "anyio": "import anyio as library\nrun = lambda main: library.run(lambda: main)",
    "anyio on trio": "import anyio as library, trio\n"
    "run = lambda main: library.run(lambda: main, backend='trio')",
}


def test_callbacks_are_in_the_thread_that_runs_the_loop():
    """But each takes locks by itself, because it may wait in the midst of it."""
    check("""
        import asyncio, signal, threading, time
        lock = threading.RLock()
        async def look(runner):
            for wait in (lambda: None, lambda: time.sleep(0.001)):
                wait()
                assert threading.current_thread() is runner
            await asyncio.sleep(0.001)
            assert threading.current_thread() is runner
        async def hold(log, name):
            with lock:
                log.append(name)
                time.sleep(0.001)
                log.append(name)
        async def main():
            runner = threading.current_thread()
            await look(runner)
            await asyncio.gather(*[look(runner) for _ in range(10)])
            log = []
            await asyncio.gather(hold(log, 1), hold(log, 2))
            assert log in ([1, 1, 2, 2], [2, 2, 1, 1]), log  # other threads want the lock, too
            return runner
        def run():
            runners.append((asyncio.run(main()), threading.current_thread()))
        runners = []
        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        run()
        for thread in threads:
            thread.join()
        assert [a is b for a, b in runners] == [True] * 3, runners
        async def set_handlers():
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, print)
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        asyncio.run(set_handlers())
    """)


@pytest.mark.parametrize("other", OTHERS)
def test_other_loops_run_in_tasklets_and_threads(other):
    for module in other.split(" on "):
        needs.module(module, "runs its loops")
    check(
        OTHERS[other]
        + """
import asyncio, threading, syncless
sleep = asyncio.sleep if library.__name__ == "uvloop" else library.sleep
async def main(number):
    await sleep(0.01)
    return number
answers = [run(main(1))]
threads = [threading.Thread(target=lambda: answers.append(run(main(2)))) for _ in range(3)]
for thread in threads:
    thread.start()
answers.append(syncless.spawn(lambda: run(main(3))).result())
for thread in threads:
    thread.join()
answers.append(syncless.run_in_thread(lambda: run(main(4))))
assert sorted(answers) == [1, 2, 2, 2, 3, 4], answers
"""
    )


def test_uvloop_waits_where_tasklets_wait():
    """Also for threads, which are tasklets; and several of its loops at once."""
    needs.module("uvloop", "runs its loops")
    check("""
        import asyncio, concurrent.futures, threading, syncless, uvloop
        together = threading.Barrier(6)
        async def main():
            await asyncio.to_thread(together.wait)
            with concurrent.futures.ThreadPoolExecutor(1) as executor:
                return await asyncio.get_running_loop().run_in_executor(executor, str, 5)
        tasklets = [syncless.spawn(uvloop.run, main()) for _ in range(2)]
        threads = [threading.Thread(target=uvloop.run, args=(main(),)) for _ in range(2)]
        tasklets.append(syncless.spawn(syncless.run_in_thread, uvloop.run, main()))
        for thread in threads:
            thread.start()
        assert uvloop.run(main()) == "5"
        assert [tasklet.result() for tasklet in tasklets] == ["5"] * 3
        for thread in threads:
            thread.join()
    """)


def test_uvloop_that_is_imported_before_the_patch_is_told_of():
    needs.module("uvloop", "runs its loops")
    assert (
        run_python("""
import uvloop, warnings
from syncless.patches import patch_all
with warnings.catch_warnings(record=True) as told:
    patch_all()
    patch_all()
assert [each.category for each in told] == [RuntimeWarning] and "import it after" in str(told[0].message)
""")
        == ""
    )


def test_child_forked_from_a_running_loop_may_run_one():
    """Also after it has waited."""
    assert (
        run_python("""
from syncless.patches import patch_all
patch_all()
import asyncio, os, time
async def answer():
    await asyncio.sleep(0)
    return 5
async def main():
    await asyncio.sleep(0)
    child = os.fork()
    if child == 0:
        time.sleep(0.001)
        os._exit(asyncio.run(answer()))
    time.sleep(0.001)
    assert asyncio.get_running_loop() is not None
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(asyncio.run(main()))
""")
        == "5\n"
    )


def test_patching_inside_a_running_loop():
    """As in a notebook: threads that are started from then on may run loops of their own, and this one stays
    noted."""
    assert (
        run_python("""
import asyncio, threading, time
async def answer():
    await asyncio.sleep(0.01)
    return 5
async def main():
    from syncless.patches import patch_all
    patch_all()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(asyncio.run(answer())))
    thread.start()
    thread.join()
    await asyncio.sleep(0.01)
    return seen, asyncio.get_running_loop() is not None
print(asyncio.run(main()))
""")
        == "([5], True)\n"
    )


def test_a_task_cancelled_while_it_starts_a_child_leaves_none():
    """What it awaits then is there already, so nothing but the end of the task would raise CancelledError."""
    check("""
        import asyncio, asyncio.base_subprocess, logging, os, threading

        logging.getLogger("asyncio").disabled = True    # in debug mode it tells that it kills the child
        started = []
        original = asyncio.base_subprocess.BaseSubprocessTransport.__init__

        def init(self, loop, *args, **kwargs):
            original(self, loop, *args, **kwargs)
            started.append(self.get_pid())
            task.cancel()
            turn = threading.Event()
            loop.call_later(0.01, turn.set)
            turn.wait()                     # while the pipes are connected, as the start of a thread may

        asyncio.base_subprocess.BaseSubprocessTransport.__init__ = init

        async def main():
            global task
            task = asyncio.create_task(asyncio.create_subprocess_exec("sleep", "1000"))
            try:
                await task
            except asyncio.CancelledError:
                pass
            else:
                raise AssertionError("not cancelled")

        asyncio.run(main())
        try:
            os.kill(started[0], 0)
        except ProcessLookupError:
            pass
        else:
            os.kill(started[0], 9)
            raise AssertionError("the child is left")
    """)
