"""Threads that compute or ask again and again let others run; requests and plain tasklets run alone."""

import sys

import pytest

from tests.programs import run_python

BEGIN = """
from syncless.patches import patch_all
patch_all()
import os, threading, time
import syncless
done = []
def later(call, *args):
    thread = threading.Thread(target=lambda: (time.sleep(0.01), call(*args)))
    thread.start()
    return thread
def computes(seconds):
    "Of processor time, without a call that lets others run."
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="there is no timer of a thread's processor time")
@pytest.mark.parametrize(
    "program",
    {
        "a flag, in main": "later(done.append, 1)\nwhile not done: pass",
        "a flag, in a thread": """
            thread = threading.Thread(target=lambda: waits_for_flag())
            def waits_for_flag():
                while not done: pass
            thread.start()
            time.sleep(0.01)
            done.append(1)
            thread.join()
        """,
        "a clock": "later(done.append, 1)\nwhile not done: time.monotonic()",
        "a list": "later(done.append, 1)\nwhile not [each for each in done]: list(range(5))",
        "several threads": """
            def waits_for_flag():
                while not done: pass
            threads = [threading.Thread(target=waits_for_flag) for _ in range(3)]
            for each in threads: each.start()
            time.sleep(0.01)
            done.append(1)
            for each in threads: each.join()
        """,
        "a signal, whose handler runs in main": """
            import signal
            handled = []
            signal.signal(signal.SIGUSR1, lambda number, frame: handled.append(number))
            def signals_itself():
                while not done: signal.raise_signal(signal.SIGUSR1)
            thread = threading.Thread(target=signals_itself)
            thread.start()
            done.append(1)
            thread.join()
            assert handled
        """,
        "in a child": """
            def fork():
                child = os.fork()
                if not child:
                    later(done.append, 1)
                    while not done: pass
                    os._exit(7)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            fork()
            later(fork).join()
        """,
        "after the patch was undone": """
            from syncless.patches import unpatch
            later(done.append, 1).join()
            unpatch()
            done.clear()
            later(done.append, 1)
            while not done: pass
            patch_all()
            done.clear()
            later(done.append, 1)
            while not done: pass
        """,
    }.items(),
    ids=lambda case: case[0],
)
def test_busy_wait_ends(program):
    import textwrap

    run_python(BEGIN + textwrap.dedent(program[1]))


SPINS = """
import threading, time
done = []
threading.Thread(target=lambda: (time.sleep(0.01), done.append(1))).start()
while not done: pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="there is no timer of a thread's processor time")
@pytest.mark.parametrize(
    "words", [["run", "spins.py"], ["run", "-m", "spins"], ["--check", "spins:app"]], ids=" ".join
)
def test_busy_wait_ends_in_a_program_that_the_command_runs(words, tmp_path):
    (tmp_path / "spins.py").write_text(SPINS + "app = lambda environ, start_response: []\n")
    run_python(
        f"""
import runpy, sys
sys.argv = ["syncless", *{words}]
try:
    runpy.run_module("syncless", run_name="__main__", alter_sys=True)   # as python -m does
except SystemExit as end:
    assert not end.code
""",
        cwd=tmp_path,
    )


@pytest.mark.parametrize("call", ["event.is_set()", "not lock.locked()", "os.sched_yield() or done"])
def test_calls_that_only_ask_let_plain_tasklets_run(call):
    run_python(f"""{BEGIN}
event, lock = threading.Event(), threading.Lock()
lock.acquire()
def ends():
    syncless.sleep(0)
    done.append(1); event.set(); lock.release()
syncless.spawn(ends)
while not ({call}): pass
""")


@pytest.mark.skipif(sys.platform != "linux", reason="there is no timer of a thread's processor time")
def test_timer_is_not_set_for_each_thread_and_stops_after_the_last():
    run_python("""
from syncless.patches import patch_all, preemption
sets = []
class Timer(preemption.ProcessorTimer):
    def set(self, nanoseconds):
        sets.append(nanoseconds)
        super().set(nanoseconds)
preemption.ProcessorTimer = Timer
patch_all()
import threading, time
for _ in range(1000):
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
assert 1 <= len(sets) < 500, len(sets)      # once more for each 10 ms of processor time, perhaps
while sets[-1]:                             # nothing runs but main
    time.monotonic()
before = len(sets)
until = time.thread_time() + 0.05
while time.thread_time() < until: pass
assert len(sets) == before
thread = threading.Thread(target=int)
thread.start()
assert sets[-1]
thread.join()
""")


def test_threads_that_another_os_thread_starts_are_not_preempted():
    """It handles no signals: one would kill the process."""
    run_python(f"""{BEGIN}
def elsewhere():
    for _ in range(2):
        later(int).join()
    thread = later(int)
    computes(0.1)
    thread.join()
syncless.run_in_thread(elsewhere)
""")


@pytest.mark.skipif(sys.platform != "linux", reason="there is no timer of a thread's processor time")
def test_main_thread_is_preempted_while_another_os_thread_has_threads():
    run_python(f"""{BEGIN}
begun = threading.Event()
def elsewhere():
    thread = later(lambda: [time.sleep(0.001) for _ in iter(lambda: not done, False)])
    begun.set()
    thread.join()
other = syncless.spawn(syncless.run_in_thread, elsewhere)
begun.wait()
later(done.append, 1)
while not done: pass
other.join()
""")


def test_plain_tasklets_and_code_of_ours_run_alone():
    assert (
        run_python(f"""{BEGIN}
turns = []
def other():
    while not done:
        turns.append(1)
        syncless.sleep(0)
thread = threading.Thread(target=other)
thread.start()
def alone(call):
    before = len(turns)
    call()
    return len(turns) == before
found = []
tasklet = syncless.spawn(lambda: found.append(alone(lambda: computes(0.1))))
tasklet.join()
from syncless.patches.registry import Registry
def within_ours():
    found.append(alone(lambda: Registry().apply({{"some": lambda patcher: computes(0.1)}})))
later(within_ours).join()
def until_others_run():
    before, end = len(turns), time.monotonic() + 60
    while len(turns) == before and time.monotonic() < end: pass
later(lambda: found.append(alone(until_others_run))).join()
done.append(1)
thread.join()
print(*found)
""")
        == "True True False\n"
    )


def test_nothing_is_raised_where_a_thread_is_stopped_for_others():
    """What is thrown at it comes at its next wait."""
    run_python(f"""{BEGIN}
finished = []
def work():
    with syncless.Timeout(0.005, False):
        computes(0.1)
        finished.append(1)
        time.sleep(60)
later(work).join()
assert finished
""")


def test_program_that_uses_the_signal_itself_keeps_it():
    run_python(f"""{BEGIN}
import signal
from syncless.patches.preemption import NUMBER
came = []
signal.signal(NUMBER, lambda *args: came.append(args[0]))
thread = threading.Thread(target=computes, args=(0.1,))
thread.start()
thread.join()
assert not came
os.kill(os.getpid(), NUMBER)
time.sleep(0)
assert came == [NUMBER]
""")
