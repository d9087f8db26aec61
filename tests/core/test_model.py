"""Random programs do what the model foretells, when it does: ``python -m tests.virtualtime
tests.core.test_model FIRST LAST`` compares those seeds. The virtual clock makes that exact on any machine.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

from syncless import Channel, Timeout, current_loop, sleep, spawn
from syncless._core.poll.backends import BACKENDS
from tests import virtualtime
from tests.core.model import CHANNELS, modelled
from tests.kernel import needs_short_waits

ROOT = pathlib.Path(__file__).parent.parent.parent
GAP = 0.001
"""Smallest distance of two events in a program, in milliseconds: times are rounded to nanoseconds."""

PART = 2500
"""Seeds that a process compares; fewer where the test is not slow."""


def really(programs, end):
    """The actions of the tasklets until `end`, as the model's log."""
    log, tasklets, channels = [], {}, [Channel() for _ in range(CHANNELS)]
    started = time.monotonic()

    def note(me, what):
        log.append((me, what, round((time.monotonic() - started) * 1000, 6)))

    def body(me, program):
        for kind, other, channel, ms, inner in program:
            note(me, kind)
            seconds = None if ms is None else ms / 1000
            if kind == "within":
                limit = Timeout(seconds)
                try:
                    with limit:
                        body(me, inner)
                except Timeout as error:
                    if error is not limit:
                        raise
                    note(me, "expired")
            elif kind == "spawn":
                start(other)
            elif kind in ("kill", "join") and (other == me or other not in tasklets):
                pass
            else:
                note(me, step(me, kind, other, channel, seconds))

    def step(me, kind, other, channel, seconds):
        if kind in ("yield", "sleep"):
            return sleep(0 if kind == "yield" else seconds)
        if kind in ("kill", "join"):
            return tasklets[other].kill(timeout=seconds) if kind == "kill" else tasklets[other].join(seconds)
        try:
            if kind == "receive":
                return channels[channel].receive(seconds)
            channels[channel].send(me, seconds)
            return "sent"
        except TimeoutError:
            return "late"

    def start(number):
        if number not in tasklets:
            tasklets[number] = spawn(body, number, programs[number])

    for number in range(2):
        start(number)
    sleep((end + 1) / 1000)
    result = list(log)
    while left := [each for each in tasklets.values() if not each.done()]:
        left[0].kill()  # which may let another spawn some
    return result


def differs(model):
    """Why the tasklets did something else, or None."""
    log = really(model.programs, model.now)
    for (*did, at), (*foretold, when) in zip(log, model.log, strict=False):
        if did != foretold or abs(at - when) > GAP / 2:
            return f"{did} at {at} ms, but the model: {foretold} at {when} ms; all of it: {log}"
    return (
        None
        if len(log) == len(model.log)
        else f"{len(log)} events, but the model: {len(model.log)}; all of it: {log}"
    )


def main(seeds):
    current_loop().timer_slack = 0  # the model knows of none
    told = {"used": 0, "events": 0, "given back": 0, "different": {}}
    for seed in seeds:
        model = modelled(seed)
        if model.closest > GAP:
            told["used"] += 1
            told["events"] += len(model.log)
            told["given back"] += model.given_back
            if why := differs(model):
                told["different"][seed] = why
    return told


@pytest.mark.parametrize(
    ("first", "seeds"),
    [
        (0, PART // 4),
        *(pytest.param(first, PART, marks=pytest.mark.slow) for first in range(0, 4 * PART, PART)),
    ],
)
@needs_short_waits
def test_order_and_times_are_those_of_the_model(first, seeds):
    done = subprocess.run(
        virtualtime.program("tests.core.test_model", first, first + seeds),
        cwd=ROOT,
        env={**os.environ, "SYNCLESS_LOOP": next(iter(BACKENDS))},
        capture_output=True,
        text=True,
        timeout=300,  # seconds; it takes two, unless all wait for one another
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["different"] == {}
    assert told["used"] > 0.99 * seeds and told["events"] > 15 * seeds
    assert told["given back"]  # a value given to a tasklet that was killed before it took it


if __name__ == "__main__":
    print(json.dumps(main(range(int(sys.argv[1]), int(sys.argv[2])))))
