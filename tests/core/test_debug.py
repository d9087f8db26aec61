"""syncless.debug: waits of tasklets, and code that holds the loop."""

import io
import logging
import threading
import time

import pytest

import syncless
from syncless import debug, sleep, spawn

pytestmark = pytest.mark.virtual_time


def stand_here(event):
    event.wait()


def test_tasklets_with_their_stacks():
    event = syncless.Event()
    waits, new = spawn(stand_here, event), None
    waits.name = "the one that waits"
    sleep(0.01)
    new = spawn(stand_here, event)
    text = debug.format_tasklets()
    assert (
        "the one that waits (1 switches): waits for event, since " in text
        and "<Event unset>" in text
        and "event.wait()" in text
    )
    assert (
        f"{new.name} (0 switches): new" in text
        and "): running" in text
        and "test_tasklets_with_their_stacks" in text
    )
    assert "event.wait()" not in debug.format_tasklets(stacks=False)
    file = io.StringIO()
    debug.print_tasklets(file)
    assert "the one that waits" in file.getvalue()
    assert waits.frame.f_code.co_name == "stand_here" and new.frame is None
    event.set()
    syncless.join_all([waits, new])
    assert waits.frame is None


def test_tasklets_of_all_threads_are_printed():
    def in_another_thread():
        spawn(stand_here, event).name = "in another thread"
        syncless.sleep(0)
        started.set()
        while not told:  # it runs while it is looked at
            pass

    event, started, told, file = syncless.Event(), syncless.Event(), [], io.StringIO()
    thread = threading.Thread(target=in_another_thread, name="the other")
    thread.start()
    started.wait()
    debug.print_tasklets(file)
    told.append(True)
    event.set()
    thread.join()
    ours, _, theirs = file.getvalue().partition("the other:\n")
    assert ours.startswith("MainThread:\n") and "test_tasklets_of_all_threads_are_printed" in ours
    assert "in another thread (1 switches): waits for event" in theirs and ", in in_another_thread" in theirs


def hold_the_loop(seconds):
    time.sleep(seconds)


def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def hold_until_told(told):
    """And a little longer, in which it must not be told again."""
    end = time.monotonic() + 10
    while not told() and time.monotonic() < end:
        time.sleep(0.001)
    hold_the_loop(0.15)


def test_the_watchdog_reports_code_that_holds_the_loop():
    seen = []
    with debug.Watchdog(50, lambda *told: seen.append(told)) as watchdog:
        sleep(0.1)  # a sleeping tasklet holds no lock
        quiet = len(seen)
        tasklet = spawn(hold_until_told, lambda: any("hold_until_told" in stack for _, stack in seen))
        tasklet.join()
        sleep(0.05)
        with pytest.raises(RuntimeError):
            watchdog.start()
    told = [(seconds, stack) for seconds, stack in seen[quiet:] if "hold_until_told" in stack]
    assert len(told) == 1 and 0.05 <= told[0][0] <= 0.075
    before = len(seen)
    hold_the_loop(0.15)
    assert len(seen) == before
    watchdog.stop()
    with pytest.raises(ValueError):
        debug.Watchdog(0)


def test_watchdog_reports_soon():
    """At most half its limit later."""
    limit, told = 0.05, []
    with debug.Watchdog(limit * 1000, lambda seconds, stack: told.append(seconds)):
        for number in range(10):
            sleep(0.003 * number + 0.001)
            hold_until_told(lambda: len(told) > number)  # noqa: B023
    assert len(told) == 10 and limit <= min(told) and max(told) <= 1.5 * limit


def test_by_default_it_is_logged(caplog):
    with caplog.at_level(logging.WARNING, "syncless.debug"), debug.Watchdog(20):
        sleep(0.01)
        hold_until_told(lambda: caplog.text)
        sleep(0.01)
    assert "the loop has been held for" in caplog.text and "hold_until_told" in caplog.text


def test_the_tree():
    event = syncless.Event()

    def parent():
        spawn(event.wait).name = "child"
        spawn(event.wait).name = "second child"
        event.wait()

    spawn(parent).name = "parent"
    sleep(0.01)
    lines = debug.format_tree().splitlines()
    depth = {line.strip().split(" (")[0]: len(line) - len(line.lstrip()) for line in lines}
    assert (
        depth["parent"] == depth["main"] + 4
        and depth["child"] == depth["second child"] == depth["parent"] + 4
    )
    event.set()
    sleep(0.01)

    def short():
        spawn(sleep, 0.02).name = "orphan"

    spawn(short).join()
    assert "\norphan (" in debug.format_tree()
    sleep(0.03)


def test_switches_and_cpu_time():
    def work(seconds):
        for _ in range(3):
            compute(seconds)
            sleep(0)
        sleep(0.05)

    debug.measure_cpu()
    try:
        busy, lazy = spawn(work, 0.02), spawn(work, 0)
        before = time.thread_time()
        syncless.join_all([busy, lazy])
        used = time.thread_time() - before
    finally:
        debug.measure_cpu(False)
    assert lazy.cpu_seconds < 0.5 * busy.cpu_seconds <= 0.5 * used
    assert busy.switches == lazy.switches == 5
    measured = busy.cpu_seconds
    assert "s of CPU" in debug.describe(busy)
    again = spawn(compute, 0.01)
    again.join()
    assert again.cpu_seconds == 0 and busy.cpu_seconds == measured


def loop_for(turns):
    for _ in range(turns):
        pass


def test_the_watchdog_that_counts_bytecodes(caplog):
    def exactly():
        seen = []
        with debug.BytecodeWatchdog(1000, lambda *told: seen.append(told)):
            for turns in (10, 10_000, 10_000):
                spawn(loop_for, turns).join()
        return seen

    first, second = exactly(), exactly()
    assert [told[0] for told in first] == [1000, 1000]  # once for each turn
    assert "loop_for" in first[0][2] and first[0][1].done()
    assert [told[2] for told in first] == [told[2] for told in second]
    with caplog.at_level(logging.WARNING, logger="syncless.debug"), debug.BytecodeWatchdog(500):
        spawn(loop_for, 10_000).join()
    assert "has run 500 bytecodes without yielding" in caplog.text
    with pytest.raises(ValueError):
        debug.BytecodeWatchdog(0)
    watchdog = debug.BytecodeWatchdog(1000)
    watchdog.stop()
    watchdog.start()
    with pytest.raises(RuntimeError, match="already"):
        watchdog.start()
    watchdog.stop()


def in_a_fresh_thread(function):
    """Its result; no other thread of this process can be taken for one that would wake somebody, since none
    is counted."""
    return syncless.run_in_thread(function)


def test_deadlocks_are_reported_with_names(caplog, monkeypatch):
    monkeypatch.setattr("threading.active_count", lambda: 1)

    def run():
        reports = []
        debug.report_deadlocks(reports.append)
        one, two = syncless.Lock(), syncless.Lock()

        def both(first, second):
            with first:
                sleep(0.001)
                second.acquire(timeout=None)
                second.release()

        tasklets = [spawn(both, one, two), spawn(both, two, one)]
        for number, tasklet in enumerate(tasklets):
            tasklet.name = f"fork {number}"

        def way_out(waiting):
            reports.append([tasklet.name for tasklet in waiting])
            tasklets[0].kill(block=False)

        debug.report_deadlocks(way_out)
        syncless.join_all(tasklets)
        syncless.run_in_thread(time.sleep, 0.02)  # a tasklet that waits for a thread can still go on
        sleep(0.01)
        debug.report_deadlocks(None)
        assert syncless.current_loop().when_idle is None
        return reports

    assert in_a_fresh_thread(run) == [["main", "fork 0", "fork 1"]]

    def logged():
        event = syncless.Event()
        syncless.current_loop()
        debug.report_deadlocks()
        before = syncless.current_loop().when_idle

        def then(loop):
            before(loop)
            event.set()

        syncless.current_loop().when_idle = then
        event.wait()

    with caplog.at_level(logging.ERROR, logger="syncless.debug"):
        in_a_fresh_thread(logged)
    assert "deadlock" in caplog.text and "event.wait()" in caplog.text
