"""os.wait and its kin under the patch."""

import pytest

from tests.patches.test_threads import run_python
from tests.programs import check


@pytest.mark.parametrize(
    "call",
    [
        "os.waitpid(pid, 0)[1]",
        "os.wait()[1]",
        "os.wait3(0)[1]",
        "os.wait4(pid, 0)[1]",
    ],
)
def test_status_of_a_child_that_has_ended_is_taken_once(call):
    program = f"""
import os
from syncless.patches import patch_all
patch_all()
pid = os.fork()
if not pid:
    os._exit(7)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
assert os.waitstatus_to_exitcode({call}) == 7
try:
    {call}
except ChildProcessError:
    print("taken")
"""
    assert run_python(program) == "taken\n"


def test_missing_directory_of_path_does_not_keep_programs_from_a_quick_start():
    """The file systems are known after some answers, and vfork() is used from then on."""
    program = """
import os, subprocess
from syncless.patches import patch_all, processes
patch_all()
os.environ["PATH"] = "/no/such/directory:/nosuch:" + os.path.dirname(__file__) + "/nosuch:/usr/bin:/bin"
asked = []
may_vfork = processes._may_vfork
processes._may_vfork = lambda *args: asked.append(may_vfork(*args)) or asked[-1]
while True not in asked:
    assert subprocess.run(["true"]).returncode == 0
print("quick")
"""
    assert run_python(program.replace("__file__", repr(__file__))) == "quick\n"


def test_what_is_no_program_is_left_to_the_interpreter_to_refuse():
    check("""
    from syncless.patches import processes
    class Sized:
        def __len__(self):
            return 1
    for programs, directory in ((Sized(), None), ((5,), None), ((b"/bin/true",), 5)):
        assert processes._may_vfork(programs, directory) is True
    """)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_process_keeps_its_descriptors_where_vfork_would_wait_for_a_disk(method):
    check(f"""
    import multiprocessing, time
    from syncless.patches import processes
    processes._may_vfork = lambda programs, directory: False
    child = multiprocessing.get_context("{method}").Process(target=time.sleep, args=(0,))
    child.start()
    child.join(60)
    assert child.exitcode == 0, child.exitcode
    """)


def test_program_is_not_started_by_vfork_while_a_file_of_a_slow_disk_is_open():
    """The child of vfork() would wait until that is closed, and so would all threads."""
    check("""
    import os, subprocess
    from syncless._core.calls import filesystems
    from syncless.patches import processes
    processes._may_vfork = lambda programs, directory: True
    original, started = processes._fork_exec, []
    processes._fork_exec = lambda *args: started.append(args) or original(*args)
    ways = []
    with open(os.devnull), open(os.__file__):
        for mode in "adaptive", "pool":                 # in which each file seems slow
            filesystems.set_mode(mode)
            subprocess.run(["true"])
            ways.append(started[-1][-5:])
    assert ways[0] != ways[1], ways
    """)


def test_lock_between_processes_tells_its_owner_among_threads():
    check("""
    import multiprocessing, threading
    lock = multiprocessing.get_context("fork").Lock()
    seen = []
    def hold():
        lock.acquire()
        seen.append(repr(lock))
    assert repr(lock) == "<Lock(owner=None)>"
    thread = threading.Thread(target=hold, name="T1")
    thread.start()
    thread.join()
    seen.append(repr(lock))
    lock.release()
    with lock:
        seen.append(repr(lock))
    owners = ["MainProcess|T1", "SomeOtherThread", "MainProcess"]
    assert seen == [f"<Lock(owner={owner})>" for owner in owners], seen
    """)
