"""Callbacks of an EventLoop: their order, and what a call that blocks holds up."""

import asyncio
import contextvars
import gc
import os
import socket
import threading

import pytest

import syncless
from syncless import sleep, spawn
from syncless.asyncio import EventLoop
from tests.asyncio.loops import event_loop, run

pytestmark = pytest.mark.virtual_time


def test_call_that_blocks_holds_up_its_own_task_only():
    async def blocks(number):
        sleep(0.2)
        await asyncio.sleep(0)
        sleep(0.1)
        return number

    async def main():
        loop = asyncio.get_running_loop()
        began = loop.time()
        done = await asyncio.gather(*[blocks(number) for number in range(100)])
        return done, loop.time() - began

    done, seconds = run(main())
    assert done == list(range(100))
    assert seconds == pytest.approx(0.3, abs=0.1)  # one after the other they take 30 s


def test_tasks_go_on_while_another_one_blocks():
    async def ticker(ticks):
        while True:
            await asyncio.sleep(0.01)
            ticks.append(1)

    async def main():
        ticks = []
        task = asyncio.ensure_future(ticker(ticks))
        await asyncio.sleep(0)
        sleep(0.5)
        task.cancel()
        return len(ticks)

    assert run(main()) >= 40


def test_notes_belong_to_the_callback_that_runs():
    """Which loop runs, which task is the current one, and the hooks for asynchronous generators."""
    seen = []

    def outsider():
        seen.append(asyncio._get_running_loop())

    async def task():
        me = asyncio.current_task()
        for _ in range(3):
            spawn(outsider)
            sleep(0)
            seen.append(asyncio.current_task() is me and asyncio.get_running_loop() is me.get_loop())
            await asyncio.sleep(0)
            seen.append(asyncio.current_task() is me)

    async def main():
        await asyncio.gather(*[task() for _ in range(5)])

    run(main())
    assert seen.count(None) == 15 and seen.count(True) == 30 and len(seen) == 45
    assert asyncio._get_running_loop() is None


def test_callbacks_are_called_in_order_also_when_one_parks():
    order = []

    def parks():
        order.append("parks")
        sleep(0.001)
        order.append("goes on")

    with event_loop() as loop:
        loop.call_soon(order.append, 1)
        loop.call_soon(parks)
        for number in (2, 3, 4):
            loop.call_soon(order.append, number)
        loop.call_later(0.01, loop.stop)
        loop.run_forever()
    assert order == [1, "parks", 2, 3, 4, "goes on"]


def test_callback_that_gives_way_stays_ahead_of_the_next():
    """As a non-blocking recv() does now and then."""
    order = []

    def gives_way():
        spawn(order.append, "a tasklet")
        sleep(0)
        order.append("goes on")

    with event_loop() as loop:
        loop.call_soon(gives_way)
        loop.call_soon(order.append, 1)
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert order == ["a tasklet", "goes on", 1]


def test_callbacks_of_a_blocking_loop_wait_for_the_one_that_parks():
    order = []

    def parks():
        order.append("parks")
        sleep(0.001)
        order.append("goes on")

    with event_loop(blocking="block") as loop:
        loop.call_soon(parks)
        loop.call_soon(order.append, 1)
        loop.call_soon(loop.stop)
        spawn(order.append, "a tasklet")
        loop.run_forever()
        with pytest.raises(ValueError, match="'park', 'warn' or 'block'"):
            loop.blocking = "never"
    assert order == ["parks", "a tasklet", "goes on", 1] or order == ["a tasklet", "parks", "goes on", 1]


def test_callbacks_that_call_for_more_leave_turns_to_timers_and_tasklets():
    seen = []

    def again():
        if len(seen) < 2:
            loop.call_soon(again)
        else:
            loop.stop()

    with event_loop() as loop:
        loop.call_soon(again)
        loop.call_later(0.001, seen.append, "timer")
        spawn(lambda: (sleep(0.001), seen.append("tasklet")))
        loop.run_forever()
    assert sorted(seen) == ["tasklet", "timer"]


def test_stop_ends_after_the_round_in_which_it_was_called():
    order = []

    def first():
        loop.stop()
        loop.call_soon(order.append, "next round")

    with event_loop() as loop:
        loop.call_soon(first)
        loop.call_soon(order.append, "same round")
        loop.run_forever()
        assert order == ["same round"]
        loop.stop()
        loop.run_forever()
        assert order == ["same round", "next round"]


def test_callback_that_stops_the_loop_and_parks_does_not_hold_up_the_end():
    told = []

    with event_loop() as loop:

        def stop():
            loop.stop()
            sleep(1)
            told.append("callback goes on")

        loop.call_soon(stop)
        with syncless.Timeout(10):
            loop.run_forever()
        told.append("loop has stopped")
        sleep(2)
    assert told == ["loop has stopped", "callback goes on"]


def test_callback_that_parks_may_go_on_after_the_loop_has_stopped():
    order = []
    release = syncless.Event()

    def parks():
        release.wait()
        order.append(asyncio.get_running_loop() is loop)

    with event_loop() as loop:
        loop.call_soon(parks)
        loop.call_soon(loop.stop)
        loop.run_forever()
        release.set()
        sleep(0)
    assert order == [True]
    assert asyncio._get_running_loop() is None


def test_timers_fire_in_the_order_of_time():
    order = []
    timers = syncless.current_loop().census()["timers"]
    with event_loop() as loop:
        now = loop.time()
        loop.call_at(now + 0.03, order.append, 3)
        cancelled = loop.call_later(0.02, order.append, "cancelled")
        loop.call_later(0.01, order.append, 1)
        late = loop.call_later(3600, order.append, "never")
        loop.call_at(now + 0.04, loop.stop)
        assert cancelled.when() == pytest.approx(now + 0.02, abs=0.001)
        cancelled.cancel()
        assert cancelled.cancelled() and "cancelled" in repr(cancelled)
        loop.run_forever()
        assert order == [1, 3]
        assert syncless.current_loop().census()["timers"] == timers  # none of a loop that stands still
        assert not late.cancelled()
    assert late.cancelled()  # by close()


def test_timer_that_fired_may_be_cancelled():
    with event_loop() as loop:
        handle = loop.call_later(0, lambda: None)
        loop.call_later(0.001, loop.stop)
        loop.run_forever()
        handle.cancel()
        handle.cancel()


def test_delay_of_none_is_refused():
    with event_loop() as loop:
        with pytest.raises(TypeError, match="delay must not be None"):
            loop.call_later(None, print)
        with pytest.raises(TypeError, match="when cannot be None"):
            loop.call_at(None, print)


def test_closed_loop_takes_no_calls():
    with event_loop() as loop:
        pass
    for call in (
        lambda: loop.call_soon(print),
        lambda: loop.call_soon_threadsafe(print),
        lambda: loop.call_later(1, print),
        lambda: loop.add_reader(0, print),
        lambda: loop.run_forever(),
    ):
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            call()


def test_failing_callback_is_told_to_the_exception_handler():
    told = []

    def fails():
        raise ValueError("on purpose")

    with event_loop() as loop:
        loop.set_exception_handler(lambda loop, context: told.append(context))
        loop.call_soon(fails)
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert isinstance(told[0]["exception"], ValueError) and "fails" in told[0]["message"]
    told.clear()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exception_meant_for_the_program_leaves_run_forever(error):
    def fails():
        raise error

    with event_loop() as loop:
        loop.call_soon(fails)
        with pytest.raises(error):
            loop.run_forever()
        assert not loop.is_running()


def test_callbacks_in_a_context_that_waits_get_a_copy_of_it():
    variable = contextvars.ContextVar("variable", default=0)
    context = contextvars.copy_context()
    context.run(variable.set, 1)
    seen = []

    def parks():
        sleep(0.001)
        seen.append(variable.get())
        variable.set(2)

    with event_loop() as loop:
        loop.call_soon(parks, context=context)
        loop.call_soon(lambda: seen.append(variable.get()), context=context)
        loop.call_later(0.01, loop.stop)
        loop.run_forever()
    assert seen == [1, 1] and context[variable] == 2


def test_cancelled_task_that_blocks_raises_at_its_next_await():
    seen = []

    async def task():
        try:
            sleep(0.001)
            seen.append("not interrupted")
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def main():
        blocks = asyncio.ensure_future(task())
        await asyncio.sleep(0)
        blocks.cancel()
        await asyncio.wait([blocks])
        return blocks.cancelled()

    assert run(main())
    assert seen == ["not interrupted", "cancelled"]


def test_reader_is_called_as_long_as_there_is_something_to_read(in_backend):
    """A descriptor is watched for edges, but asyncio promises levels."""

    def body():
        read = []
        here, there = socket.socketpair()

        def reader():
            read.append(here.recv(1))
            if len(read) == 5:
                loop.stop()

        with here, there, event_loop() as loop:
            there.send(b"abc")
            loop.call_later(0.002, there.send, b"de")
            loop.add_reader(here, reader)
            loop.run_forever()
            assert loop.remove_reader(here)
            assert not loop.remove_reader(here)
            there.send(b"f")
            loop.call_later(0.001, loop.stop)
            loop.run_forever()
        return b"".join(read)

    assert in_backend(body) == b"abcde"


def test_reader_that_parks_is_not_called_again_meanwhile():
    calls = []
    here, there = socket.socketpair()

    def reader():
        calls.append("begins")
        sleep(0.001)
        here.recv(1)
        calls.append("ends")
        if len(calls) == 4:
            loop.stop()

    with here, there, event_loop() as loop:
        there.send(b"ab")
        loop.add_reader(here, reader)
        loop.run_forever()
        loop.remove_reader(here)
    assert calls == ["begins", "ends"] * 2


def test_writer_and_reader_of_one_descriptor():
    here, there = socket.socketpair()
    got = []

    def writer():
        here.send(b"x")
        loop.remove_writer(here)

    def reader():
        got.append(there.recv(10))
        loop.remove_reader(there)
        loop.stop()

    with here, there, event_loop() as loop:
        loop.add_reader(here, got.append, "never")
        loop.add_writer(here, writer)
        loop.add_reader(there, reader)
        loop.run_forever()
        loop.remove_reader(here)
    assert got == [b"x"]


def test_reader_that_was_replaced_is_not_called_though_its_descriptor_is_ready(in_backend):
    def body():
        pairs = [socket.socketpair(), socket.socketpair()]
        called = []

        def first(mine, other):
            called.append("first")
            loop.remove_reader(mine)
            loop.add_reader(other, second, other)

        def second(mine):
            called.append(mine.recv(1))
            loop.stop()

        with event_loop() as loop:
            for (here, there), (other, _) in zip(pairs, reversed(pairs), strict=True):
                there.send(b"x")
                loop.add_reader(here, first, here, other)
            loop.run_forever()
            assert sorted(loop.remove_reader(here) for here, _ in pairs) == [False, True]
        for here, there in pairs:
            here.close()
            there.close()
        return called

    assert in_backend(body) == ["first", b"x"]


def test_descriptor_number_that_was_closed_is_watched_anew():
    """Its last owner closed it without remove_reader()."""
    first, other = socket.socketpair()
    here, there = socket.socketpair()

    def reopen():
        os.dup2(here.fileno(), first.fileno())  # which closes it; no other thread gets the number meanwhile
        loop.add_reader(first, loop.stop)
        there.send(b"x")

    with first, other, here, there, event_loop() as loop:
        loop.add_reader(first, print)
        loop.call_later(0.01, reopen)
        loop.run_forever()
        loop.remove_reader(first)


def test_loop_runs_in_another_thread_than_the_one_that_made_it():
    called = []
    with event_loop() as loop:
        loop.call_later(0, called.append, 1)
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        for number in range(2, 100):
            loop.call_soon_threadsafe(called.append, number)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
    assert sorted(called) == list(range(1, 100))
    assert [number for number in called if number > 1] == list(range(2, 100))


def test_debug_mode_checks_the_thread_and_remembers_where_a_call_was_made():
    refused = []

    def from_another_thread():
        try:
            loop.call_soon(print)
        except RuntimeError as error:
            refused.append(str(error))

    async def main():
        await asyncio.to_thread(from_another_thread)

    with event_loop() as loop:
        loop.set_debug(True)
        handle = loop.call_later(0, print)
        assert "test_callbacks.py" in repr(handle)
        handle.cancel()
        loop.run_until_complete(main())
        with pytest.raises(TypeError, match="callable"):
            loop.call_soon("no function")
    assert "Non-thread-safe operation" in refused[0]


def test_slow_callback_is_told_by_the_time_in_which_it_held_up_others(caplog):
    def waits():
        sleep(2)

    def computes():
        loop.slow_callback_duration = 0.0

    with event_loop() as loop:
        loop.set_debug(True)
        loop.call_soon(waits)
        loop.call_later(3, computes)
        loop.call_later(3, loop.stop)
        loop.run_forever()
    told = [record.getMessage() for record in caplog.records if "Executing" in record.getMessage()]
    assert told and not any("waits" in line for line in told)
    assert "computes" in told[0]


def test_nested_run_is_refused():
    async def main():
        other = EventLoop()
        with pytest.raises(RuntimeError, match="while another loop is running"):
            other.run_forever()
        other.close()
        with pytest.raises(RuntimeError, match="already running"):
            asyncio.get_running_loop().run_forever()
        assert asyncio.get_running_loop()

    run(main())


def test_two_loops_run_beside_each_other_in_one_thread():
    async def main(name, order):
        for _ in range(3):
            order.append(name)
            await asyncio.sleep(0.001)

    order = []
    tasklets = [spawn(run, main(name, order)) for name in "ab"]
    syncless.join_all(tasklets)
    assert sorted(order) == ["a"] * 3 + ["b"] * 3
    assert order != sorted(order)


def test_asynchronous_generators_are_finished_by_their_loop():
    ended = []

    async def numbers():
        try:
            for number in range(10):
                yield number
        finally:
            await asyncio.sleep(0)
            ended.append(asyncio.current_task() is not None)

    async def main():
        async for number in numbers():
            if number == 2:
                break
        gc.collect()
        sleep(0.001)
        await asyncio.sleep(0.001)

    run(main())
    assert ended == [True]


def test_loop_that_is_killed_leaves_nothing_behind():
    async def main():
        await asyncio.sleep(3600)

    with event_loop() as loop:
        task = loop.create_task(main())
        tasklet = spawn(loop.run_forever)
        sleep(0.001)
        assert tasklet.waiting_for == "callbacks of its asyncio loop" and tasklet.waiting_object is loop
        tasklet.kill()
        assert not loop.is_running()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
