"""deadline: the time of a block."""

import random
import time

import pytest

from syncless import Timeout, current_loop, deadline, sleep, spawn

pytestmark = pytest.mark.virtual_time


def test_deadlines_nest():
    started = time.monotonic()
    with pytest.raises(TimeoutError, match="deadline"), deadline(0.02), deadline(30):
        sleep(10)
    with pytest.raises(TimeoutError), deadline(30), deadline(0.01):
        sleep(10)
    with deadline(5), deadline(None):
        sleep(0)
    with pytest.raises(ValueError, match="mine"), deadline(5):
        raise ValueError("mine")
    with pytest.raises(TimeoutError), deadline(0.01):
        try:
            sleep(10)
        except Exception:
            raise AssertionError("it was swallowed") from None
    assert time.monotonic() - started < 5


def test_remaining_is_what_is_left_of_the_first_clock_of_the_tasklet():
    def look():
        assert deadline.remaining() is None
        with deadline(30), deadline(None), Timeout(10), deadline(20):
            sleep(4)
            assert deadline.remaining() == pytest.approx(6)
            assert spawn(deadline.remaining).result() is None
        assert deadline.remaining() is None
        with pytest.raises(TimeoutError), deadline(1):
            try:
                sleep(5)
            finally:
                assert deadline.remaining() is None

    spawn(look).result()


def test_remaining_tells_of_the_limit_of_a_request(start):
    def app(environ, start_response):
        start_response("200 OK", [])
        sleep(3)
        return [f"{deadline.remaining():.1f}".encode()]

    with start.client(start(app, request_seconds=10)) as client:
        assert client.get()[2] == b"7.0"


def test_each_deadline_passes_at_its_time_whichever_others_are_taken_away():
    """The last timer of the heap takes the place of one that is taken away, and may belong higher up."""
    chance = random.Random(1)
    for _ in range(50):
        began, woken = time.monotonic(), []

        def sleeper(seconds, began=began, woken=woken):
            sleep(seconds)
            woken.append((seconds, round(time.monotonic() - began)))

        sleepers = {seconds: spawn(sleeper, seconds) for seconds in chance.sample(range(1, 1000), 30)}
        sleep(0)
        for seconds in chance.sample(sorted(sleepers), 10):
            sleepers.pop(seconds).kill()
        for each in sleepers.values():
            each.join()
        assert woken == [(seconds, seconds) for seconds in sorted(sleepers)]


def test_own_start_of_a_subclass_is_called():
    class Counted(Timeout):
        starts = 0

        def start(self):
            self.starts += 1
            super().start()

    with Counted(seconds=1) as block:
        assert block.pending and block.starts == 1
    started = Counted.start_new(1)
    assert started.pending and started.starts == 1
    started.cancel()


@pytest.mark.parametrize("slack", [None, 0, 0.001])
def test_waits_that_end_nearly_together_end_in_one_wakeup(slack):
    def after(seconds):
        sleep(seconds)
        return time.monotonic() - started

    loop, usual = current_loop(), current_loop().timer_slack
    assert usual == 0.0001
    try:
        if slack is not None:
            loop.timer_slack = slack
        started = time.monotonic()
        asked = [1, 1.00005, 1.0009, 2, 3, 3.00005]
        woken = [tasklet.result() for tasklet in [spawn(after, seconds) for seconds in reversed(asked)]][::-1]
    finally:
        loop.timer_slack = usual
    seen = {0: asked, 0.001: [1.0009, 1.0009, 1.0009, 2, 3.00005, 3.00005]}
    assert woken == pytest.approx(seen.get(slack, [1.00005, 1.00005, 1.0009, 2, 3.00005, 3.00005]), abs=1e-6)
    for wrong in (-1, 2, float("nan")):
        with pytest.raises(ValueError, match="from 0 to 1 seconds"):
            loop.timer_slack = wrong
