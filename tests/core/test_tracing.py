"""Trace and profile functions, and what else tools set for a thread, belong to a tasklet."""

import asyncio
import cProfile
import gc
import sys
import threading
import types
import weakref
from types import SimpleNamespace

import pytest

import syncless
from syncless import Event, run_in_thread, sleep, spawn
from syncless.asyncio import new_event_loop

pytestmark = pytest.mark.virtual_time

KINDS = {
    "trace": (sys.settrace, sys.gettrace),
    "profile": (sys.setprofile, sys.getprofile),
}


@pytest.fixture(params=KINDS)
def kind(request):
    setter, getter = KINDS[request.param]
    before = getter()
    of_threads = SimpleNamespace(trace=threading.settrace, profile=threading.setprofile)
    yield SimpleNamespace(
        name=request.param, set=setter, get=getter, for_threads=getattr(of_threads, request.param)
    )
    getattr(of_threads, request.param)(None)
    setter(before)


def noted(seen):
    def note(frame, event, argument):
        if frame.f_globals.get("__name__") == __name__:
            seen.append((frame.f_code.co_name, event))
        return note

    return note


def step():
    return 1


def turns():
    sleep(0)


def run_in_loop(coroutine, debug=False):
    loop = new_event_loop()
    loop.set_debug(debug)
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def calls(seen, name):
    return seen.count((name, "call"))


def test_function_stays_in_its_tasklet(kind):
    seen, go = [], Event()

    def traced():
        kind.set(noted(seen))
        go.wait()
        step()
        return kind.get() is not None

    def other():
        sleep(0)
        step()
        return kind.get()

    one, two = spawn(traced), spawn(other)
    assert two.result() is None
    assert calls(seen, "step") == 0
    go.set()
    assert one.result() is True
    assert calls(seen, "step") == 1
    assert kind.get() is None


def test_each_tasklet_keeps_its_own(kind):
    seen = [[], [], []]

    def traced(number):
        mine = noted(seen[number])
        kind.set(mine)
        for _ in range(number + 1):
            sleep(0)
            step()
        same = kind.get() is mine
        kind.set(None)
        return same

    assert [one.result() for one in [spawn(traced, number) for number in range(3)]] == [True] * 3
    assert [calls(each, "step") for each in seen] == [1, 2, 3]


def test_main_has_its_own_back_when_it_goes_on(kind):
    seen = []
    mine = noted(seen)
    kind.set(mine)
    try:
        spawn(lambda: kind.set(None)).join()
        assert kind.get() is mine
        step()
    finally:
        kind.set(None)
    assert calls(seen, "step") == 1
    assert calls(seen, "<lambda>") == 0


@pytest.mark.parametrize("waits", [False, True])
def test_nothing_is_left_for_the_next_tasklet(kind, waits):
    """Also if both run on one carrier."""

    def leaves():
        kind.set(noted([]))
        if waits:
            sleep(0)

    for _ in range(3):
        spawn(leaves).join()
        assert spawn(kind.get).result() is None


def test_function_goes_with_its_tasklet(kind):
    gone = []

    def keeps():
        function = noted([])
        gone.append(weakref.ref(function))
        kind.set(function)
        del function
        sleep(1e6)

    one = spawn(keeps)
    sleep(0)
    assert gone[0]() is not None
    one.kill()
    del one
    gc.collect()
    assert gone[0]() is None


def test_new_tasklet_begins_with_what_threading_says(kind):
    seen = []
    mine = noted(seen)
    kind.for_threads(mine)
    began = spawn(lambda: (kind.get(), sleep(0), step()))
    assert began.result()[0] is mine
    assert calls(seen, "step") == 1
    assert kind.get() is None  # main is left alone
    kind.for_threads(None)
    assert spawn(kind.get).result() is None


def test_calls_in_threads_of_the_pool_begin_so_too(kind):
    seen = []
    kind.for_threads(noted(seen))
    run_in_thread(step)
    kind.for_threads(None)
    run_in_thread(step)
    assert calls(seen, "step") == 1


def test_tasklet_that_waits_inside_its_trace_function_hides_nothing(kind):
    """As at a breakpoint."""
    seen, reached, go = [], Event(), Event()

    def stops(frame, event, argument):
        if frame.f_code is step.__code__ and event == "call":
            reached.set()
            go.wait()
        return stops

    def stopped():
        kind.set(stops)
        step()
        kind.set(None)

    def other():
        kind.set(noted(seen))
        step()
        sleep(0)
        step()
        kind.set(None)

    one = spawn(stopped)
    reached.wait()
    spawn(other).join()
    assert calls(seen, "step") == 2
    assert not one.done()
    go.set()
    one.join()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of Python 3.12")
def test_tool_of_monitoring_may_wait():
    monitoring, seen, reached, go = sys.monitoring, [], Event(), Event()

    def other():
        return 2

    def on_start(code, offset):
        if code is step.__code__:
            reached.set()
            go.wait()
        elif code is other.__code__:
            seen.append(code)

    monitoring.use_tool_id(3, "test")
    try:
        monitoring.register_callback(3, monitoring.events.PY_START, on_start)
        for function in (step, other):
            monitoring.set_local_events(3, function.__code__, monitoring.events.PY_START)
        one = spawn(step)
        reached.wait()
        spawn(other).join()
        assert len(seen) == 1
        go.set()
        one.join()
    finally:
        for function in (step, other):
            monitoring.set_local_events(3, function.__code__, 0)
        monitoring.register_callback(3, monitoring.events.PY_START, None)
        monitoring.free_tool_id(3)


def test_hooks_of_asynchronous_generators_are_a_tasklets_own():
    seen = []

    async def numbers():
        yield 1

    def with_hooks():
        sys.set_asyncgen_hooks(firstiter=seen.append)
        sleep(0)
        return sys.get_asyncgen_hooks().firstiter is not None

    def without():
        generator = numbers()
        with pytest.raises(StopIteration):
            generator.__anext__().send(None)
        with pytest.raises(StopIteration):
            generator.aclose().send(None)

    one, two = spawn(with_hooks), spawn(without)
    assert one.result() is True
    two.result()
    assert seen == []
    assert tuple(sys.get_asyncgen_hooks()) == (None, None)


def test_depth_of_coroutine_origins_is_a_tasklets_own():
    def deep():
        sys.set_coroutine_origin_tracking_depth(5)
        sleep(0)
        return sys.get_coroutine_origin_tracking_depth()

    one, two = spawn(deep), spawn(sys.get_coroutine_origin_tracking_depth)
    assert (one.result(), two.result()) == (5, 0)
    assert sys.get_coroutine_origin_tracking_depth() == 0


@pytest.mark.skipif(not hasattr(types, "LazyImportType"), reason="lazy imports came with Python 3.15")
def test_circle_of_lazy_imports_is_found_though_its_tasklet_waits(tmp_path, monkeypatch):
    (tmp_path / "round_one.py").write_text(
        "import syncless\nsyncless.sleep(0.01)\nimport round_two\nVALUE = round_two.VALUE\n"
    )
    (tmp_path / "round_two.py").write_text("lazy from round_one import VALUE\nVALUE\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = {}
    exec("lazy import round_one\ndef use(): return round_one.VALUE\n", names)
    with pytest.raises(ImportError):
        names["use"]()
    for name in ("round_one", "round_two"):
        sys.modules.pop(name, None)


def test_debug_mode_of_asyncio_shows_the_origins_of_its_coroutines():
    async def inner():
        pass

    async def main():
        await asyncio.sleep(0)
        coroutine = inner()
        origin = coroutine.cr_origin
        await coroutine
        return origin

    assert run_in_loop(main(), debug=True)
    assert run_in_loop(main(), debug=False) is None


class TestAsyncio:
    """Callbacks of a loop run in tasklets of their own; a program sees them in the thread that runs it."""

    def test_callbacks_are_traced_as_who_runs_the_loop(self, kind):
        seen = []

        async def main():
            await asyncio.sleep(0.01)
            step()

        kind.set(noted(seen))
        try:
            run_in_loop(main())
        finally:
            kind.set(None)
        assert calls(seen, "step") == 1

    def test_function_that_one_task_sets_follows_that_task_alone(self, kind):
        seen = []

        async def traced():
            kind.set(noted(seen))
            for _ in range(3):
                await asyncio.sleep(0.001)
                step()
            mine = kind.get() is not None
            kind.set(None)
            return mine

        async def other():
            for _ in range(5):
                await asyncio.sleep(0.001)
                step()
            return kind.get()

        async def main():
            return await asyncio.gather(traced(), other())

        assert run_in_loop(main()) == [True, None]
        assert calls(seen, "step") == 3
        assert kind.get() is None


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="cProfile uses sys.monitoring since Python 3.12")
def test_tracers_in_c_go_from_tasklet_to_tasklet():
    """As coverage has them: threading's function makes one for each thread that begins."""
    made = []

    def begins(frame, event, argument):
        sys.setprofile(None)
        profile = cProfile.Profile()
        made.append(profile)
        profile.enable()

    threading.setprofile(begins)
    try:
        for _ in range(10):
            spawn(step).join()
        syncless.join_all([spawn(turns), spawn(turns)])
    finally:
        threading.setprofile(None)
    assert len(made) == 2
    assert spawn(sys.getprofile).result() is None
    for profile in made:
        profile.disable()
        profile.create_stats()
    assert sum(stats[0] for profile in made for key, stats in profile.stats.items() if key[2] == "step") >= 9
