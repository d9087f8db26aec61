"""Memory that many waiting tasklets have taken is given back when they have ended."""

import os
import pathlib

import pytest

import syncless
from tests.programs import run_unchecked

PROGRAM = """
import os, random, threading, time, syncless

def megabytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20

def waits(depth, event):
    kept = [str(number) for number in range(50)]
    # each depth is a piece of C stack
    sorted([0], key=lambda _: waits(depth - 1, event) or 0) if depth else event.wait()

dice = random.Random(1)
before, after = megabytes(), []
for _ in range(3):
    events = [syncless.Event() for _ in range(3000)]
    tasklets = [syncless.spawn(waits, dice.randrange(12), event) for event in events]
    while any(tasklet.status != "waiting" for tasklet in tasklets):
        syncless.sleep(0.001)
    most = megabytes()
    dice.shuffle(events)
    for number, event in enumerate(events):
        event.set()
        if number % 50 == 0:
            syncless.sleep(0)
    syncless.join_all(tasklets)
    del event, events, tasklets

def watch(sleep):
    for _ in range(4000):
        now = megabytes()
        if now - before < 0.6 * (most - before):
            break
        sleep(0.01)
    print(before, most, now, flush=True)
    os._exit(0)

if {busy}:
    watch(syncless.sleep)
threading.Thread(target=watch, args=(time.sleep,)).start()      # nothing wakes the loop any more
syncless.Event().wait()
"""


@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="the system does not tell")
@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer keeps what was freed"
)
@pytest.mark.parametrize("busy", [True, False])
def test_stacks_of_tasklets_that_have_ended_are_given_back(busy):
    program = PROGRAM.replace("{busy}", str(busy))
    done = syncless.run_in_thread(run_unchecked, program)
    assert done.returncode == 0, done.stderr
    before, most, after = map(int, done.stdout.split())
    assert most - before > 60 and after - before < 0.6 * (most - before)
