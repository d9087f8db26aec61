"""Destructors that run while the interpreter ends, when no other thread or tasklet runs any more: their waits
end as in plain Python, but at once if nothing can end them."""

import ast
import importlib.util
import subprocess
import sys

import pytest

from tests.programs import run_python, run_unchecked

WAITS = """
import os, queue, sys, threading, time, types
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

LONG = 100000.0      # longer than the test may take
never = threading.Event()
held, held_often = threading.Lock(), threading.RLock()
held.acquire()
ready = threading.Barrier(3)

def hold():
    held_often.acquire()
    ready.wait()
    queue.Queue().get()

thread = threading.Thread(target=hold, daemon=True)
other = threading.Thread(target=lambda: (ready.wait(), never.wait()), daemon=True)
full = queue.Queue(1)
full.put(1)
condition = threading.Condition()

def wait(timeout, condition=condition):
    with condition:
        return condition.wait(timeout)

def wait_for(timeout, condition=condition):
    with condition:
        return condition.wait_for(never.is_set, timeout)

waits = {
    "is_alive": thread.is_alive,
    "Thread.join(timeout)": lambda call=thread.join: call(LONG),
    "Thread.join": other.join,
    "Event.wait": lambda call=never.wait: call(LONG),
    "Lock.acquire": lambda call=held.acquire: call(timeout=LONG),
    "Lock.acquire(False)": lambda call=held.acquire: call(False),
    "RLock.acquire": lambda call=held_often.acquire: call(timeout=LONG),
    "Condition.wait": lambda: wait(LONG),
    "Condition.wait_for": lambda: wait_for(LONG),
    "Semaphore.acquire": lambda call=threading.Semaphore(0).acquire: call(timeout=LONG),
    "Barrier.wait": lambda call=threading.Barrier(2).wait: call(LONG),
    "Queue.get": lambda call=queue.Queue().get: call(timeout=LONG),
    "Queue.put": lambda call=full.put: call(1, timeout=LONG),
    "PriorityQueue.get": lambda call=queue.PriorityQueue().get: call(timeout=LONG),
    "SimpleQueue.get": lambda call=queue.SimpleQueue().get: call(timeout=LONG),
    "Future.result": lambda call=Future().result: call(LONG),
    "as_completed": lambda call=as_completed: [*call([Future()], LONG)],
}

class Last:
    def __init__(self, found):
        self.found = found
    def __del__(self, write=os.write, repr=repr, waits=waits, ending=sys.is_finalizing):
        for name, call in waits.items():
            try:
                result = call()
            except Exception as error:
                result = type(error).__name__
            self.found.append((name, result))
        write(1, repr((ending(), self.found)).encode())

module = sys.modules["last"] = types.ModuleType("last")     # goes while its functions' modules are whole
module.last = Last([])
del module
thread.start()
other.start()
ready.wait()
"""


def ended(program):
    """The status, and what it has written; a wait that takes its time is longer than this waits."""
    done = run_unchecked(program, "-W", "error", timeout=90)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return ast.literal_eval(done.stdout)


def test_waits_that_nothing_can_end_are_over_at_once():
    ending, found = ended("from syncless.patches import patch_all\npatch_all()\n" + WAITS)
    assert ending
    assert found == [
        ("is_alive", False),
        ("Thread.join(timeout)", None),
        ("Thread.join", None),
        ("Event.wait", False),
        ("Lock.acquire", False),
        ("Lock.acquire(False)", False),
        ("RLock.acquire", False),
        ("Condition.wait", False),
        ("Condition.wait_for", False),
        ("Semaphore.acquire", False),
        ("Barrier.wait", "BrokenBarrierError"),
        ("Queue.get", "Empty"),
        ("Queue.put", "Full"),
        ("PriorityQueue.get", "Empty"),
        ("SimpleQueue.get", "Empty"),
        ("Future.result", "TimeoutError"),
        ("as_completed", "TimeoutError"),
    ]


OURS = """
import os, sys, types
import syncless

LONG = 100000.0
silent, other_end = os.pipe()
ready, also_other_end = os.pipe()
os.write(also_other_end, b"x")
waits = {
    "park": lambda call=syncless.park: call("nobody", LONG),
    "park for ever": lambda call=syncless.park: call("nobody"),
    "select of an event": lambda call=syncless.select, event=syncless.Event(): call([event], LONG),
    "select for ever": lambda call=syncless.select, event=syncless.Event(): call([event]),
    "select of a set one": lambda call=syncless.select, events=(syncless.Event(), syncless.Event()): (
        events[1].set(), call(events, LONG))[1],
    "select of files": lambda call=syncless.select: call([silent, ready], LONG),
    "select of a silent one": lambda call=syncless.select: call([silent, syncless.Event()], 0.01),
    "select of a time": lambda call=syncless.select, after=syncless.after: call([silent, after(0.01)]),
}

class Last:
    def __del__(self, write=os.write, repr=repr, waits=waits, ending=sys.is_finalizing):
        found = []
        for name, call in waits.items():
            try:
                result = call()
            except Exception as error:
                result = type(error).__name__
            found.append((name, result))
        write(1, repr((ending(), found)).encode())

module = sys.modules["last"] = types.ModuleType("last")     # goes while its functions' modules are whole
module.last = Last()
del module
"""


@pytest.mark.parametrize("used", [True, False])
def test_our_own_waits_that_nothing_can_end_are_over_at_once(used):
    """And a thread that has not used syncless before cannot begin then."""
    ending, found = ended(OURS + ("syncless.sleep(0)" if used else ""))
    assert ending
    assert found == [
        ("park", (False, None) if used else "RuntimeError"),
        ("park for ever", "RuntimeError"),
        ("select of an event", (None, None) if used else "RuntimeError"),
        ("select for ever", "RuntimeError"),
        ("select of a set one", (1, None) if used else "RuntimeError"),
        ("select of files", (1, None) if used else "RuntimeError"),
        ("select of a silent one", (None, None) if used else "RuntimeError"),
        ("select of a time", (1, None) if used else "RuntimeError"),
    ]


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="Python 3.15 raises PythonFinalizationError")
def test_what_is_told_is_what_plain_python_tells():
    short = WAITS.replace("LONG = 100000.0", "LONG = 0.01")
    if sys.version_info >= (3, 13):  # daemon threads are alive there though they never run again
        lines = short.splitlines(True)
        short = "".join(line for line in lines if "is_alive" not in line and "join" not in line)
    patched = ended("from syncless.patches import patch_all\npatch_all()\n" + short)
    assert patched == ended(short)


def test_waits_for_time_descriptors_and_processes_take_their_time():
    """While the interpreter ends, and before that in functions of atexit and weakref.finalize()."""
    told = run_python("""
from syncless.patches import patch_all
patch_all()
import atexit, os, select, subprocess, sys, threading, time, types, weakref
end, other_end = os.pipe()
silent, never = os.pipe()
child = subprocess.Popen(["sh", "-c", "sleep 0.1; echo x"], stdout=other_end)
class Last:
    def __del__(self, clock=time.perf_counter, sleep=time.sleep, write=os.write, repr=repr,
            select=select.select, read=lambda: os.read(end, 1), wait=child.wait):
        began = clock()
        sleep(0.05)
        slept = clock() - began >= 0.05
        began = clock()
        nothing = select([silent], [], [], 0.05)[0]
        write(1, repr((slept, nothing, clock() - began >= 0.05, read(), wait(100))).encode())
def at_end(when):
    began = time.perf_counter()
    time.sleep(0.05)
    print(when, time.perf_counter() - began >= 0.05, not threading.Event().wait(0.01))
atexit.register(at_end, "atexit")
kept = Last
weakref.finalize(kept, at_end, "finalize")
module = sys.modules["last"] = types.ModuleType("last")
module.last = Last()
del module
""")
    assert told == "finalize True True\natexit True True\n(True, [], True, b'x', 0)"


def test_threads_run_on_in_functions_of_atexit():
    told = run_python("""
from syncless.patches import patch_all
patch_all()
import atexit, queue, threading
asked, stuck = queue.Queue(), threading.Thread(target=threading.Event().wait, daemon=True)
def serve():
    while asked.get() is not None:
        asked.task_done()
server = threading.Thread(target=serve, daemon=True)
server.start()
stuck.start()
def at_end():
    asked.put(1)
    asked.join()
    asked.put(None)
    server.join()
    stuck.join(0.01)
    print(server.is_alive(), stuck.is_alive())
atexit.register(at_end)
""")
    assert told == "False True\n"


@pytest.mark.slow
@pytest.mark.parametrize("how", [[], ["-m", "syncless", "run"]], ids=["plain", "patched"])
def test_pool_of_psycopg_that_nobody_closes(how, port_of, tmp_path):
    """It warns of each thread that has not ended in time."""
    if importlib.util.find_spec("psycopg_pool") is None:
        pytest.skip("psycopg_pool is not installed: pip install --group clients")
    if not how and sys.version_info >= (3, 13):
        pytest.skip("the interpreter's own threads are not over then")
    program = tmp_path / "program.py"
    program.write_text(f"""
from psycopg_pool import ConnectionPool
pool = ConnectionPool("user=postgres host=127.0.0.1 port={port_of("postgresql")}", min_size=2, open=True)
with pool.connection() as connection:
    print(connection.execute("select 1").fetchone())
""")
    done = subprocess.run([sys.executable, *how, program], capture_output=True, text=True, timeout=90)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(1,)\n", "")
