"""goless, Go's channels and select as somebody wrote them for Stackless: it imports `stackless`, and knows
nothing of us."""

import pytest

from tests.programs import run_unchecked

pytest.importorskip("goless", reason="goless is not installed: pip install --group clients")

PROGRAM = """
import logging, sys
import syncless.stackless
sys.modules["stackless"] = syncless.stackless
import goless
from goless.backends import current
assert current.shortname() == "stackless"

def fill(channel, values):
    for value in values:
        channel.send(value)
    channel.close()

for size in (0, 2, 1000, -1):   # of the channel; negative: without bounds
    channel = goless.chan(size)
    goless.go(fill, channel, range(100))
    assert list(channel) == list(range(100)), size

full = goless.chan(1)
full.send(1)
for forever in (lambda: full.send(2), goless.chan().recv):
    try:
        forever()
    except goless.Deadlock as error:
        assert "Deadlock" in str(error)
    else:
        raise AssertionError
assert full.recv() == 1

one, other, got = goless.chan(), goless.chan(), []
def say(channel, values):
    for value in values:
        channel.send(value)
goless.go(say, one, [1, 2, 3])
goless.go(say, other, [10, 20, 30])
for _ in range(6):
    case, value = goless.select(goless.rcase(one), goless.rcase(other))
    got.append(value)
assert sorted(got) == [1, 2, 3, 10, 20, 30] and got != sorted(got), got
assert isinstance(goless.select(goless.rcase(one), goless.dcase())[0], goless.dcase)
current.yield_()
try:
    goless.select(goless.rcase(one), goless.rcase(other))
except goless.Deadlock as error:
    assert "No other tasklets" in str(error)
else:
    raise AssertionError

first = end = goless.chan()
for _ in range(500):    # a chain of tasklets, each adds one
    start, end = end, goless.chan()
    def add(start=start, end=end):
        while True:
            end.send(start.recv() + 1)
    goless.go(add)
for number in range(10):
    goless.go(first.send, number)
    assert end.recv() == 500 + number

print("so far", flush=True)
logging.disable()
goless.go(lambda: 1 / 0)    # goless ends the program, through the main tasklet
current.yield_()
print("not reached")
"""


def test_goless():
    done = run_unchecked(PROGRAM)
    assert (done.stdout, done.returncode) == ("so far\n", 1), done.stderr
