"""The rule by which a call is made directly or in a thread: by what its file system has shown."""

import ctypes
import os
import pathlib
import struct
import sys
import threading
import time

import pytest

import syncless
from syncless._core.calls import descriptors, filesystems
from syncless._core.calls.files import (
    DescriptorFunction,
    FileFunction,
    OpenFunction,
    SlowFunction,
    is_file,
    is_slow,
)
from tests import virtualtime

pytestmark = pytest.mark.virtual_time


@pytest.fixture(autouse=True)
def unknown():
    """All file systems are on trial, and are again afterwards."""
    filesystems.forget_file_systems()
    yield
    filesystems.set_mode("adaptive")
    filesystems.forget_file_systems()


def whereabouts(path, *more, **named):
    """In place of a function of os: the thread in which it is called."""
    return threading.get_native_id()


def here(function, *args, **named):
    return function(*args, **named) == threading.get_native_id()


def cached():
    """Whether the kernel says what it has in memory (Linux 5.12; some sandboxes do not let it)."""
    if sys.platform != "linux" or not hasattr(os, "O_PATH"):
        return False
    how = struct.pack("QQQ", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, 0, 0x20)
    fd = ctypes.CDLL(None).syscall(437, -100, b"/", how, len(how))
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def test_a_quick_file_system_is_trusted_after_its_trial(tmp_path):
    function = FileFunction(whereabouts)
    path = str(tmp_path / "file")
    answers = [here(function, path) for _ in range(20)]
    assert not any(answers[:8]) and answers[-1] is True
    assert "quick" in repr(filesystems.file_systems()[0])
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("sub")
    assert not here(function, str(tmp_path / "link" / "file"))  # a directory that is seen for the first time
    assert here(function, str(tmp_path / "link" / "file"))


@pytest.mark.skipif(not cached(), reason="this system has no openat2() with RESOLVE_CACHED")
def test_directories_in_memory(tmp_path):
    """No thread asks for a directory that the kernel has in memory, nor for one that it knows not to be
    there. Others may stand behind a server: the root of a mount, links, what no one has asked for."""
    function = FileFunction(whereabouts)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("a")
    while not here(function, str(tmp_path / "x")):
        pass
    for name in ("a", "a/b", "a/../a/b", "./a"):
        assert here(function, f"{tmp_path}/{name}/x"), name
    for name in ("link", "a/.."):
        assert not here(function, f"{tmp_path}/{name}/x"), name
        assert here(function, f"{tmp_path}/{name}/x"), name
    assert not here(function, "/proc/x")
    os.path.exists(tmp_path / "nowhere")
    for name in ("file", "nowhere", "nowhere/at/all"):
        assert not here(function, f"{tmp_path}/{name}/x"), "what is nowhere is on trial, too"
    while not here(function, f"{tmp_path}/nowhere/x"):
        pass
    for name in ("file", "nowhere", "nowhere/at/all"):
        assert here(function, f"{tmp_path}/{name}/x"), name
    (tmp_path / "nowhere").mkdir()
    assert here(function, f"{tmp_path}/nowhere/x")
    assert not here(function, f"{tmp_path}/none/x"), "nobody has asked for it"


class Takes:
    """A function whose calls take `seconds`; returns the thread in which it was called."""

    __name__ = __qualname__ = "takes"

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def __call__(self, path):
        time.sleep(self.seconds)
        return threading.get_native_id()


def test_one_slow_answer_sends_it_back_for_longer_each_time(tmp_path):
    path = str(tmp_path / "file")
    function, other = Takes(), Takes()
    calls, others = FileFunction(function), FileFunction(other)
    waits = []
    for _ in range(2):
        while not here(others, path):
            pass
        count = 0
        while not here(calls, path):
            count += 1
        waits.append(count)
        function.seconds = 0.01
        assert here(calls, path)
        function.seconds = 0.0
        assert "slow" in repr(filesystems.file_systems()[0])
        assert not here(others, path)  # the disk has gone to sleep, for all
    assert waits[1] >= 2 * waits[0] - 1


def test_a_call_that_lost_the_processor_is_not_slow(tmp_path):
    """Time passes, and its thread has not waited."""
    path = str(tmp_path / "file")

    def preempted(path):
        virtualtime.let_pass(late)
        return threading.get_native_id()

    late = 0.0
    calls = FileFunction(preempted)
    while not here(calls, path):
        pass
    late = 0.1
    assert all(here(calls, path) for _ in range(20))
    assert "quick" in repr(filesystems.file_systems()[0])


@pytest.mark.parametrize("kind", [FileFunction, DescriptorFunction])
def test_call_that_is_slow_in_a_thread_is_never_made_directly(tmp_path, kind):
    """Its file system answers quickly when it is asked for attributes, and other calls are quick."""
    calls, others = kind(Takes(0.05)), FileFunction(Takes())
    path = str(tmp_path / "file")
    fd = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        for _ in range(12):
            assert not here(calls, fd if kind is DescriptorFunction else path)
        assert any(here(others, path) for _ in range(100))
    finally:
        os.close(fd)


def test_a_stuck_file_system_leaves_threads_to_the_others(tmp_path):
    """More calls than it has threads wait for one, by paths and by descriptors."""
    go_on = threading.Event()
    filesystems.set_mode("pool")
    stuck = FileFunction(lambda path: go_on.wait())
    fd = os.open("/dev/shm", os.O_RDONLY)
    waiting = [syncless.spawn(stuck, place) for place in ("/dev/shm/x", fd) for _ in range(20)]
    waiting += [syncless.spawn(stuck, f"/dev/shm/nowhere{number}/x") for number in range(20)]
    syncless.sleep(0)
    stat = FileFunction(os.stat)
    try:
        with syncless.Timeout(20):
            assert stat(str(tmp_path)) and stat("/proc/self/stat")
    finally:
        go_on.set()
        for tasklet in waiting:
            tasklet.join()
        os.close(fd)


def test_modes(tmp_path):
    function = FileFunction(whereabouts)
    assert filesystems.set_mode("direct") == "adaptive" and here(function, str(tmp_path / "a"))
    assert filesystems.set_mode("pool") == "direct"
    assert not any(here(function, str(tmp_path / "a")) for _ in range(20))
    with pytest.raises(ValueError, match="adaptive, pool, direct"):
        filesystems.set_mode("fast")
    assert filesystems.set_mode("adaptive") == "pool"


def test_function_is_called_directly_in_a_thread_without_a_loop():
    found = []
    thread = threading.Thread(target=lambda: found.append(here(FileFunction(whereabouts), "/tmp/x")))
    thread.start()
    syncless.run_in_thread(thread.join)
    assert found == [True]


def test_arguments_errors_and_names_are_those_of_the_function(tmp_path):
    stat = FileFunction(os.stat)
    assert "stat" in repr(stat)
    for arguments, error in (
        (("/nonexistent/x",), FileNotFoundError),
        ((), TypeError),
        ((1.5,), TypeError),
        (("a\0b",), ValueError),
    ):
        for _ in range(2):
            with pytest.raises(error):
                stat(*arguments)
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        (tmp_path / "file").write_text("x")
        for _ in range(20):
            assert (
                stat("file", dir_fd=fd).st_size == 1
                and stat(fd)
                and stat(path=tmp_path / "file").st_size == 1
            )
            assert stat(os.fsencode(tmp_path / "file")).st_size == 1
    finally:
        os.close(fd)


class Odd(str):
    """Such are NumPy's strings and those of template engines. Nobody but the function looks into it."""

    def fail(self, *args):
        raise AssertionError("a method of the path was called")

    __eq__ = __hash__ = rstrip = endswith = __contains__ = __getitem__ = fail


@pytest.mark.parametrize("name", [os.stat, os.listdir, os.chdir], ids=lambda function: function.__name__)
@pytest.mark.parametrize("kind", [Odd, os.fsencode, pathlib.Path])
def test_paths_of_each_type(tmp_path, monkeypatch, name, kind):
    monkeypatch.chdir(tmp_path)
    called = FileFunction(name, listed=name is not os.stat)
    for number in range(3):
        (tmp_path / f"{number}").mkdir()
        for _ in range(2):
            called(kind(f"{tmp_path}/{number}"))
        for missing in (f"{tmp_path}/{number}/x/y", "missing"):
            path = kind(missing)
            with pytest.raises(FileNotFoundError) as caught:
                called(path)
            assert repr(caught.value.filename) == repr(os.fspath(path))


def test_two_paths(tmp_path):
    rename = FileFunction(os.rename, two=True)
    names = [str(tmp_path / name) for name in "ab"]
    (tmp_path / "a").write_text("x")
    for _ in range(20):
        rename(*names)
        names.reverse()
    with pytest.raises(FileNotFoundError):
        rename(names[0], str(tmp_path / "none" / "b"))


def test_pipes_and_sockets_need_no_thread():
    left, right = os.pipe()
    assert not is_file(left) and not is_slow(left)
    assert here(FileFunction(whereabouts), left) and here(DescriptorFunction(whereabouts), left)
    assert not here(SlowFunction(whereabouts), left)
    os.close(left)
    os.close(right)


def test_a_fifo_has_a_thread_of_its_own(tmp_path):
    """More of them than the pool has threads wait, and other files are opened all the same."""
    opened = OpenFunction(os.open)
    for number in range(20):
        os.mkfifo(tmp_path / str(number))
    tasklets = [syncless.spawn(opened, str(tmp_path / str(number)), os.O_RDONLY) for number in range(20)]
    syncless.sleep(0.05)
    os.close(opened(str(tmp_path / "file"), os.O_CREAT | os.O_WRONLY))
    for number, tasklet in enumerate(tasklets):
        fd = opened(str(tmp_path / str(number)), os.O_WRONLY)
        os.close(tasklet.result(5))
        os.close(fd)


@pytest.mark.parametrize("mode", filesystems.MODES)
def test_reading_and_writing_in_each_mode(tmp_path, mode):
    filesystems.set_mode(mode)
    path = str(tmp_path / "file")
    data = os.urandom(3_000_000)
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        assert descriptors.write(fd, data) == len(data) and descriptors.pwrite(fd, b"abc", 5) == 3
        data = data[:5] + b"abc" + data[8:]
        assert (
            descriptors.pread(fd, 10, 0) == data[:10]
            and descriptors.pread(fd, 10, len(data) - 3) == data[-3:]
        )
        assert descriptors.read(fd, 10) == b""
        os.lseek(fd, 0, 0)
        assert descriptors.read(fd, 1 << 22) == data
        for call in (
            lambda: descriptors.pread(fd, 1, -1),
            lambda: descriptors.pwrite(fd, b"x", -1),
            lambda: descriptors.pread(9999, 1, 0),
        ):
            with pytest.raises(OSError):
                call()
    finally:
        os.close(fd)
    fd = os.open(path, os.O_RDONLY)
    with pytest.raises(OSError, match="Bad file descriptor"):
        descriptors.write(fd, b"x")
    os.close(fd)


def test_full_disk_raises_in_the_writer():
    fd = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="No space left"):
        descriptors.write(fd, bytes(100_000))
    os.close(fd)


def test_killed_while_a_thread_works_for_it(tmp_path):
    filesystems.set_mode("pool")
    done = threading.Event()
    slow = FileFunction(lambda path: time.sleep(0.1) or done.set())
    tasklet = syncless.spawn(slow, str(tmp_path))
    syncless.sleep(0.02)
    tasklet.kill()
    syncless.sleep(0)
    assert tasklet.done() and not done.is_set()
    assert syncless.run_in_thread(done.wait, 5)


def test_a_child_has_threads_of_its_own(tmp_path):
    filesystems.set_mode("pool")
    stat = FileFunction(os.stat)
    stat(str(tmp_path))
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if stat(str(tmp_path)) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_chdir_forgets_the_directories_of_relative_names(tmp_path):
    """A relative name means another file after chdir."""
    function = FileFunction(whereabouts)
    while not here(function, "file"):
        pass
    filesystems.forget_directories()
    assert not here(function, "file")
