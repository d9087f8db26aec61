"""Green threads, timers, events and pools of syncless.eventlet."""

import io
import signal
import socket
import sys

import pytest

import syncless
import syncless.eventlet as eventlet
from syncless import Tasklet
from syncless.eventlet import greenthread, hubs
from syncless.eventlet.event import Event
from syncless.eventlet.support import greenlets
from syncless.eventlet.support.greenlets import GreenletExit
from syncless.patches import signals
from tests.waiting import eventually


def test_wait_returns_and_raises_each_time():
    def fail():
        raise KeyError("on purpose")

    eventlet.debug.hub_exceptions(False)
    try:
        thread = eventlet.spawn(int, "7")
        assert thread.wait() == thread.wait() == 7
        failing = eventlet.spawn(fail)
        for _ in range(2):
            with pytest.raises(KeyError):
                failing.wait()
    finally:
        eventlet.debug.hub_exceptions(True)


def test_killed_before_it_begins_never_runs_and_tells_its_links():
    ran, told = [], []
    thread = eventlet.spawn(ran.append, 1)
    thread.link(lambda thread, word: told.append((thread, word)), "end")
    thread.kill()
    assert thread.dead and not thread
    assert told == [(thread, "end")]
    eventlet.sleep(0)
    assert ran == []
    with pytest.raises(GreenletExit):
        thread.wait()


def test_killed_thread_has_met_its_exception_when_kill_returns():
    state = []

    def wait():
        try:
            eventlet.sleep(60)
        except ValueError:
            state.append("met")

    thread = eventlet.spawn(wait)
    eventlet.sleep(0)
    thread.kill(ValueError)
    assert state == ["met"]
    assert thread.wait() is None


def test_link_may_wait_for_the_thread_that_ends():
    results = []
    thread = eventlet.spawn(int, "5")
    thread.link(lambda thread: results.append(thread.wait()))
    thread.wait()
    assert results == [5]


def test_green_thread_sets_handlers_of_signals_and_a_tasklet_does_not():
    handle = signals.set_signal(signal.SIGUSR1, signal.SIG_IGN)
    assert eventlet.spawn(signals.set_signal, signal.SIGUSR1, handle).wait() == signal.SIG_IGN

    def is_refused():
        with pytest.raises(ValueError, match="only works in main thread"):
            signals.set_signal(signal.SIGUSR1, handle)

    syncless.spawn(is_refused).result()


def test_cancel_ends_only_what_has_not_begun():
    begun = eventlet.spawn_after(0, lambda: eventlet.sleep(0) or "ran")
    eventlet.sleep(0)
    later = eventlet.spawn_after(60, str)
    begun.cancel()
    later.cancel()
    assert begun.wait() == "ran"
    with pytest.raises(GreenletExit):
        later.wait()


def test_timers_of_no_seconds_come_in_the_order_of_spawn():
    order = []
    hub = hubs.get_hub()
    eventlet.spawn(order.append, 1)
    hub.schedule_call_global(0, order.append, 2)
    eventlet.spawn_n(order.append, 3)
    eventlet.sleep(0)
    assert order == [1, 2, 3]


def test_timer_runs_in_no_green_thread_and_can_switch_to_one():
    hub = hubs.get_hub()
    me, seen = eventlet.getcurrent(), []
    hub.schedule_call_global(0, lambda: seen.append(eventlet.getcurrent()))
    hub.schedule_call_global(0, me.switch, "value")
    assert hub.switch() == "value"
    assert seen == [hub.greenlet]
    assert eventlet.getcurrent() is me


def test_cancelled_timer_never_comes():
    came = []
    timer = hubs.get_hub().schedule_call_global(0, came.append, 1)
    timer.cancel()
    eventlet.sleep(0)
    assert came == [] and not timer.pending


def test_event_gives_what_was_sent_also_after_a_reset():
    event = Event()
    threads = [eventlet.spawn(event.wait) for _ in range(2)]
    eventlet.sleep(0)
    event.send("first")
    event.reset()
    assert [thread.wait() for thread in threads] == ["first", "first"]
    event.send_exception(KeyError, "second")
    with pytest.raises(KeyError, match="second"):
        event.wait()


def test_pool_runs_what_its_last_thread_spawns():
    pool = eventlet.GreenPool(1)
    assert pool.spawn(lambda: pool.spawn(int, "3").wait()).wait() == 3
    assert eventually(lambda: pool.free() == 1)


def test_resized_pool_lets_waiters_in():
    pool, go = eventlet.GreenPool(1), Event()
    pool.spawn(go.wait)
    waiter = eventlet.spawn(pool.spawn, go.wait)
    eventlet.sleep(0)
    assert pool.waiting() == 1
    pool.resize(2)
    waiter.wait()
    assert pool.running() == 2 and pool.free() == 0
    go.send()
    pool.waitall()
    assert pool.free() == 2


def test_timeout_ends_only_its_own_block():
    with eventlet.Timeout(60) as outer:
        with eventlet.Timeout(0, False):
            eventlet.sleep(60)
            raise AssertionError("should not get there")
        assert outer.pending
    assert not outer.pending
    assert eventlet.with_timeout(0, eventlet.sleep, 60, timeout_value="late") == "late"


def test_timeout_of_no_seconds_comes_after_what_was_spawned_before_it():
    order = []
    eventlet.spawn(order.append, "spawned")
    eventlet.Timeout(0, KeyError("late"))
    eventlet.spawn(order.append, "spawned later")
    with pytest.raises(KeyError):
        eventlet.event.Event().wait()
    assert order[0] == "spawned"


def test_sleep_of_no_seconds_looks_for_events():
    one, other = socket.socketpair()
    with one, other:
        told = []
        eventlet.spawn_n(lambda: hubs.trampoline(one, read=True) or told.append(one.recv(1)))
        eventlet.sleep(0)
        other.send(b"x")
        eventlet.sleep(0)
        eventlet.sleep(0)
        assert told == [b"x"]


def test_pool_gets_its_place_back_though_an_error_cannot_be_shown(monkeypatch, reports):
    closed = io.StringIO()
    closed.close()
    pool = eventlet.GreenPool(1)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", closed)
        with pytest.raises(ZeroDivisionError):
            pool.spawn(divmod, 1, 0).wait()
    assert (pool.free(), pool.running()) == (1, 0)


def test_pool_gets_its_place_back_though_who_kills_is_interrupted():
    pool, ran = eventlet.GreenPool(1), []
    thread = pool.spawn(ran.append, 1)
    with pytest.raises(eventlet.Timeout), eventlet.Timeout(0):
        thread.kill()
    assert (pool.free(), pool.running(), ran) == (1, 0, [])


@pytest.mark.parametrize("kind", [Tasklet, greenlets.greenlet, greenthread.GreenThread])
def test_thread_of_a_class_that_does_not_call_init_cannot_be_killed(kind):
    class Bare(kind):
        def __init__(self):
            pass

    with pytest.raises(RuntimeError, match=r"Bare.__init__\(\) has not called"):
        Bare().kill() if kind is Tasklet else Bare().throw()
