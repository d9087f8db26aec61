"""run_in_thread: signals and the threads of the pool."""

import time

import pytest

import syncless
from syncless._core.calls import threads
from syncless._core.calls.threads import new_os_lock, start_os_thread
from tests.programs import run_unchecked

PROGRAM = """
import os, signal, syncless
syncless.run_in_thread(len, "a thread of the pool falls idle")
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.kill(os.getpid(), signal.SIGTERM)
syncless.sleep(0.05)
assert signal.sigpending() == {signal.SIGTERM}
mask = "import signal; print(*map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
import subprocess, sys
child = [sys.executable, "-c", mask]
assert syncless.run_in_thread(subprocess.check_output, child) == b"15\\n"
signal.sigwait([signal.SIGTERM])
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
assert syncless.run_in_thread(subprocess.check_output, child) == b"\\n"
print("done")
"""


@pytest.mark.parametrize("before", ["", "from syncless.patches import patch_all; patch_all()\n"])
def test_blocked_signal_does_not_end_the_process_by_a_thread_of_the_pool(before):
    """Calls and their child processes have the caller's mask."""
    done = run_unchecked(before + PROGRAM)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_result_linked_to_a_killed_tasklet_raises_what_the_tasklets_result_raises():
    result = syncless.AsyncResult()
    tasklet = syncless.spawn(syncless.sleep, 60)
    tasklet.link(result)
    syncless.sleep(0)
    tasklet.kill()
    with pytest.raises(syncless.TaskletKilled, match="was killed") as told:
        result.get()
    assert isinstance(told.value.__cause__, syncless.TaskletExit) and not result.successful()


def test_end_of_the_process_waits_for_threads_that_have_not_begun(monkeypatch):
    """The system takes its time to run them."""
    system_runs_them = new_os_lock()
    system_runs_them.acquire()
    start = start_os_thread

    def start_late(body, args):
        start(lambda: (system_runs_them.acquire(), body(*args)), ())

    monkeypatch.setattr(threads, "start_os_thread", start_late)
    threads.start_thread(lambda: None)
    start(lambda: (time.sleep(0.05), system_runs_them.release()), ())
    assert threads._starting and system_runs_them.locked()
    threads._wait_for_beginnings()
    assert not threads._starting


def test_thread_that_the_system_refuses_is_not_waited_for(monkeypatch):
    def refuse(body, args):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "start_os_thread", refuse)
    with pytest.raises(RuntimeError, match="new thread"):
        threads.start_thread(lambda: None)
    assert not threads._starting
