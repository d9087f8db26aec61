"""run_in_thread: signals and the threads of the pool."""

import subprocess
import sys

import pytest

import syncless

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
    done = subprocess.run(
        [sys.executable, "-c", before + PROGRAM], capture_output=True, text=True, timeout=60
    )
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
