"""A patched program that can never go on says so and ends; one that something may wake is left alone."""

import signal
import subprocess
import sys

import pytest

from tests.programs import LONGEST, run_unchecked

PATCH = "from syncless.patches import patch_all\npatch_all()\nimport queue, threading\n"

LOCKS = (
    PATCH
    + """
first, second, ready = threading.Lock(), threading.Lock(), threading.Barrier(2)

def both(one, other):
    with one:
        ready.wait()
        with other:
            pass

threads = [threading.Thread(target=both, args=args, name=name)
           for name, args in (("fork", (first, second)), ("knife", (second, first)))]
for thread in threads:
    thread.start()
"""
)
HOPELESS = {
    "locks in a circle": LOCKS + "for thread in threads:\n    thread.join()\n",
    "an empty queue": PATCH + "jobs = queue.Queue()\njobs.get()\n",
    "a queue that a thread has left": PATCH
    + "jobs = queue.Queue()\nthreading.Thread(target=lambda: 1 / 0).start()\njobs.get()\n",
    "its own future": PATCH
    + """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(1) as pool:
    print(pool.submit(lambda: pool.submit(int).result()).result())
""",
    "after threads of a pool": PATCH
    + "import os, syncless\nsyncless.run_in_thread(os.getpid)\nqueue.Queue().get()\n",
    "in the child of a fork": PATCH
    + """
import os, sys
if os.fork() == 0:
    queue.Queue().get()
pid, status = os.wait()
sys.exit(os.waitstatus_to_exitcode(status))
""",
}


@pytest.mark.parametrize("program", HOPELESS.values(), ids=HOPELESS)
def test_program_that_nothing_can_wake_ends_with_an_error(program):
    done = run_unchecked(program)
    assert done.returncode == 1, done
    assert done.stderr.count("syncless: deadlock: nothing can wake this program any more\n") == 1
    assert "syncless.debug.Deadlock: nothing can wake the main thread any more" in done.stderr


def test_report_names_waits_stacks_and_holders():
    done = run_unchecked(HOPELESS["locks in a circle"])
    assert done.stderr.count('File "<string>", line 10, in both') == 2
    assert ", held by " in done.stderr and "thread fork waits for " in done.stderr


def test_end_of_a_program_whose_threads_are_stuck_is_an_error(tmp_path):
    kept = tmp_path / "kept"
    done = run_unchecked(LOCKS + f"file = open({str(kept)!r}, 'w')\nfile.write('x')\nprint('main is over')\n")
    assert done.stdout == "main is over\n" and done.returncode == 1
    assert "thread fork waits for " in done.stderr and kept.read_text() == "x"


ALIVE = (
    PATCH
    + """
import asyncio, gc, multiprocessing, os, signal, socket, subprocess, sys, time
import syncless
from syncless._core.calls.threads import start_thread

jobs = queue.Queue()

def by_thread_of_c():
    start_thread(lambda: (real_sleep(0.3), jobs.put(1)))
    jobs.get()

def by_pool():
    threading.Thread(target=lambda: (syncless.run_in_thread(time.sleep, 0.3), jobs.put(1))).start()
    jobs.get()

def by_timer():
    threading.Timer(0.3, jobs.put, [1]).start()
    jobs.get()

def by_descriptor():
    left, right = socket.socketpair()
    threading.Thread(target=lambda: jobs.put(left.recv(1))).start()
    child = subprocess.Popen(["sh", "-c", "sleep 0.3; echo x"], stdout=right)
    jobs.get()
    child.wait()

def by_child():
    child = subprocess.Popen(["sleep", "0.3"])
    threading.Thread(target=lambda: jobs.put(child.wait())).start()
    jobs.get()

def by_handler():
    signal.signal(signal.SIGUSR1, lambda *_: jobs.put(1))
    child = subprocess.Popen(["sh", "-c", "sleep 0.3; kill -USR1 $PPID"])
    jobs.get()
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    child.wait()

def by_finaliser():
    class Last:
        def __del__(self):
            jobs.put(1)
    last = Last()
    last.itself = last
    del last
    jobs.get()

def by_asyncio():
    async def main():
        asyncio.get_running_loop().call_later(0.3, jobs.put, 1)
        await asyncio.to_thread(jobs.get)
    asyncio.run(main())

def by_process():
    items = multiprocessing.get_context("spawn").Queue()
    child = subprocess.Popen(["sleep", "0.3"])
    threading.Thread(target=lambda: (child.wait(), items.put(1))).start()
    items.get()

from syncless._core.cpython.functions import original_of
real_sleep = original_of(time.sleep)
for wait in (by_finaliser, by_pool, by_timer, by_descriptor, by_child, by_handler, by_asyncio, by_process,
             by_thread_of_c):
    wait()
    print(wait.__name__, flush=True)
"""
)


def test_program_that_something_wakes_goes_on():
    done = run_unchecked(ALIVE)
    assert done.returncode == 0 and done.stderr == "" and len(done.stdout.splitlines()) == 9, done


@pytest.mark.parametrize(
    "wait",
    [
        "threading.Event().wait()",
        "import syncless; syncless.Event().wait()",
        "import signal; signal.pause()",
        "import asyncio; asyncio.run(asyncio.Event().wait())",
        "import signal, syncless; syncless.spawn(signal.pause).join()",
        "import syncless; syncless.current_loop().when_stuck = None; queue.Queue().get()",
        # caught once, and not raised there again
        """
while True:
    try:
        queue.Queue().get()
    except RuntimeError:
        print("caught", flush=True)
""",
    ],
)
def test_program_that_lives_until_ctrl_c_is_left_alone(wait):
    program = PATCH + "print('ready', flush=True)\n" + wait
    expected = ["ready\n", "caught\n"] if "caught" in wait else ["ready\n"]
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert [running.stdout.readline() for _ in expected] == expected
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.5)
        running.send_signal(signal.SIGINT)
        told, errors = running.communicate(timeout=LONGEST)
    assert told == "" and "KeyboardInterrupt" in errors, errors
    assert errors.count("syncless: deadlock") == len(expected) - 1
