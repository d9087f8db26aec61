"""syncless.debug: what tasklets wait for, and who holds the loop."""

import io
import logging
import time

import pytest

import syncless
from syncless import debug, sleep, spawn


def stand_here(event):
    event.wait()


def test_tasklets_with_their_stacks():
    event = syncless.Event()
    waits, new = spawn(stand_here, event), None
    waits.name = "the one that waits"
    sleep(0.01)
    new = spawn(stand_here, event)
    text = debug.format_tasklets()
    assert "the one that waits: waits for event, since 0.0" in text and "<Event unset>" in text and "event.wait()" in text
    assert f"{new.name}: new" in text and "main: running" in text and "test_tasklets_with_their_stacks" in text
    assert "event.wait()" not in debug.format_tasklets(stacks=False)
    file = io.StringIO()
    debug.print_tasklets(file)
    assert "the one that waits" in file.getvalue()
    assert waits.frame.f_code.co_name == "stand_here" and new.frame is None
    event.set()
    syncless.join_all([waits, new])
    assert waits.frame is None


def hold_the_loop(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_the_watchdog_tells_of_who_holds_the_loop():
    seen = []
    with debug.Watchdog(50, lambda *told: seen.append(told)) as watchdog:
        sleep(0.1)  # who sleeps holds nothing
        quiet = len(seen)
        tasklet = spawn(hold_the_loop, 0.3)
        tasklet.join()
        sleep(0.05)
        with pytest.raises(RuntimeError):
            watchdog.start()
    told = [(seconds, stack) for seconds, stack in seen[quiet:] if "hold_the_loop" in stack]
    assert len(told) == 1 and 0.05 <= told[0][0] < 0.3
    before = len(seen)
    hold_the_loop(0.15)
    assert len(seen) == before
    watchdog.stop()
    with pytest.raises(ValueError):
        debug.Watchdog(0)


def test_by_default_it_is_logged(caplog):
    with caplog.at_level(logging.WARNING, "syncless.debug"), debug.Watchdog(20):
        sleep(0.01)
        hold_the_loop(0.15)
        sleep(0.01)
    assert "the loop has been held for" in caplog.text and "hold_the_loop" in caplog.text
