"""The file with the number of the server's process, and another server that wants it."""

import os
import subprocess
import sys

import pytest

from syncless.server.program.process import PidFile
from tests.cli.test_loading import command, environment

HOLDER = """
import sys
from syncless.server.program.process import PidFile
with PidFile(sys.argv[1]):
    print("has it", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that has the file."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "server.pid")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "has it\n"
        yield process
        process.stdin.close()


def test_file_of_a_process_that_runs_is_left_alone(holder, tmp_path):
    path = tmp_path / "server.pid"
    with pytest.raises(FileExistsError) as refused, PidFile(path):
        pass
    assert f"the pid file of the running process {holder.pid}" in refused.value.strerror
    assert refused.value.filename == f"pid_file {path}" and path.read_text() == f"{holder.pid}\n"


def test_file_of_a_server_that_runs_is_told_before_the_application_is_imported(holder, tmp_path):
    (tmp_path / "slow.py").write_text("raise SystemExit('imported')")
    options = command("slow:app", "--bind", "127.0.0.1:0", "--pid-file", "server.pid")
    done = subprocess.run(
        options, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
    )
    said = f"is the pid file of the running process {holder.pid}; stop it first, or choose another file"
    assert (done.returncode, done.stderr) == (1, f"syncless: --pid-file {tmp_path}/server.pid: {said}\n")


def test_child_of_the_process_does_not_keep_the_file(holder, tmp_path):
    path = tmp_path / "server.pid"
    holder.kill()
    holder.wait()
    assert path.read_text() == f"{holder.pid}\n"
    with PidFile(path):
        assert path.read_text() == f"{os.getpid()}\n"
        child = os.fork()
        if not child:
            os._exit(subprocess.call([sys.executable, "-c", HOLDER, str(path)], stderr=subprocess.DEVNULL))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1  # the lock is this process's still
    assert not path.exists()


def test_file_that_another_server_has_made_meanwhile_stays(tmp_path):
    path = tmp_path / "server.pid"
    with PidFile(path):
        path.unlink()
        path.write_text("another's")
    assert path.read_text() == "another's"


def test_longer_number_leaves_nothing_behind(tmp_path):
    path = tmp_path / "server.pid"
    path.write_text("1234567890123\nand more")
    with PidFile(path):
        assert path.read_text() == f"{os.getpid()}\n"
    assert not path.exists()


def test_program_that_closes_all_descriptors_keeps_its_own(tmp_path):
    path, mine = tmp_path / "server.pid", tmp_path / "mine"
    with PidFile(path) as _, open(mine, "wb") as file:
        fd = next(int(name) for name in os.listdir("/proc/self/fd") if target(name) == str(path))
        os.dup2(file.fileno(), fd)
    assert not path.exists() and target(fd) == str(mine)
    os.close(fd)


def target(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""
