"""The interpreter ends while other OS threads have a loop: no thread brings the process down, whatever it
does at that moment."""

import os
import subprocess
import sys

import pytest

import syncless
from syncless._core.poll.backends import BACKENDS

# directories with other releases of greenlet, separated by colons (pip install --target): .ci/run makes them
GREENLETS = ["", *filter(None, os.environ.get("SYNCLESS_TEST_GREENLETS", "").split(":"))]

PROGRAM = """
import sys, threading, time, syncless

ready = threading.Event()

class Lasts:    # the end of the interpreter takes a while, in which the other thread asks for the GIL
    def __del__(self, sleep=time.sleep):
        sleep(0.02)

def idle():     # the loop sleeps and wakes up
    syncless.spawn(ready.set)
    while True:
        syncless.sleep(0.0001)

def busy():     # tasklets run Python code
    def work():
        ready.set()
        while True:
            for _ in range(1000):
                pass
            syncless.sleep(0)
    syncless.spawn(work)
    syncless.spawn(work).join()

def parked():   # the main tasklet runs Python code while others wait
    never = syncless.Event()
    for _ in range(50):
        syncless.spawn(never.wait)
    syncless.sleep(0)
    ready.set()
    while True:
        pass

sys.lasts = Lasts()
threading.Thread(target={body}, daemon=True).start()
ready.wait()
"""


@pytest.mark.parametrize("greenlet", GREENLETS)
@pytest.mark.parametrize("backend", list(BACKENDS))
@pytest.mark.parametrize("body", ["idle", "busy", "parked"])
def test_process_ends_well_while_a_daemon_thread_has_a_loop(body, backend, greenlet):
    path = os.pathsep.join(filter(None, [greenlet, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "SYNCLESS_LOOP": backend, "PYTHONPATH": path}

    def run(_):
        program = [sys.executable, "-c", PROGRAM.replace("{body}", body)]
        ended = syncless.run_in_thread(
            subprocess.run, program, env=environment, capture_output=True, text=True, timeout=60
        )
        return ended.returncode, ended.stderr

    assert syncless.Pool(4).map(run, range(3)) == [(0, "")] * 3
