"""read and write of pipes, terminals and other descriptors: calls that would wait park, and other processes
do not notice."""

import contextlib
import fcntl
import io
import os
import socket
import subprocess
import sys
import threading

import pytest

import syncless
from syncless._core.calls import descriptors, fileio
from syncless.patches import describe, patched

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def pipe():
    left, right = os.pipe()
    inode = os.fstat(left).st_ino
    yield left, right
    for fd in (left, right):
        with contextlib.suppress(OSError):
            if os.fstat(fd).st_ino == inode:  # a test may have closed it, and the number be a thread's
                os.close(fd)


def while_parked(function, *args):
    """Starts it in a tasklet, and shows that it waits."""
    tasklet = syncless.spawn(function, *args)
    syncless.sleep(0.01)
    assert not tasklet.done()
    return tasklet


def test_reading_parks_until_something_comes(pipe):
    left, right = pipe
    tasklet = while_parked(descriptors.read, left, 100)
    os.write(right, b"hello")
    assert tasklet.result(1) == b"hello"
    os.write(right, b"more")
    assert descriptors.read(left, 2) == b"mo" and descriptors.read(left, 100) == b"re"
    tasklet = while_parked(descriptors.read, left, 100)
    os.close(right)
    assert tasklet.result(1) == b""


def test_writing_parks_until_there_is_room_and_writes_all(pipe):
    left, right = pipe
    data = bytes(range(256)) * 4096
    tasklet = while_parked(descriptors.write, right, data)
    got = b""
    while len(got) < len(data):
        got += descriptors.read(left, 70_000)
    assert got == data and tasklet.result(1) == len(data)


def test_write_to_a_vanished_reader_returns_what_was_written(pipe):
    left, right = pipe
    tasklet = while_parked(descriptors.write, right, bytes(1 << 20))
    os.close(left)
    assert 0 < tasklet.result(1) < 1 << 20  # as unpatched: the next call meets the error
    with pytest.raises(BrokenPipeError):
        descriptors.write(right, b"x")


@pytest.mark.virtual_time(False)  # another process
def test_the_mode_of_a_shared_pipe_is_left_alone(pipe):
    """A child has the same open file description: O_NONBLOCK would make its reads fail."""
    left, right = pipe
    child = subprocess.Popen(
        [sys.executable, "-c", "import os; print(os.read(0, 10))"], stdin=left, stdout=subprocess.PIPE
    )
    modes = set()
    tasklet = while_parked(descriptors.read, left, 0x10)
    for _ in range(20):
        modes.add(fcntl.fcntl(left, fcntl.F_GETFL) & os.O_NONBLOCK)
        syncless.sleep(0.005)
    assert modes == {0}
    tasklet.kill()
    os.write(right, b"for it")
    assert syncless.run_in_thread(child.communicate)[0] == b"b'for it'\n"


def test_nonblocking_descriptor_raises_blocking_io_error(pipe):
    left, right = pipe
    os.set_blocking(left, False)
    os.set_blocking(right, False)
    with pytest.raises(BlockingIOError):
        descriptors.read(left, 10)
    sent = descriptors.write(right, bytes(1 << 20))
    assert 0 < sent < 1 << 20
    with pytest.raises(BlockingIOError):
        descriptors.write(right, b"x")
    with io.FileIO(os.dup(left)) as file:
        assert len(fileio.file_read(file, 1 << 20)) == sent and fileio.file_read(file, 1) is None
        assert fileio.file_readinto(file, bytearray(5)) is None and fileio.file_readall(file) is None


def test_regular_files_are_read_and_written_at_once(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(100_000))
    with open(path, "r+b", buffering=0) as file:
        fd = file.fileno()
        assert len(descriptors.read(fd, 1 << 20)) == 100_000 and descriptors.read(fd, 10) == b""
        assert descriptors.write(fd, b"end") == 3 and file.tell() == 100_003
        os.lseek(fd, -3, os.SEEK_END)
        assert fileio.file_readall(file) == b"end"
        os.lseek(fd, -3, os.SEEK_END)
        assert descriptors.readv(fd, [bytearray(1), bytearray(9)]) == 3
        assert descriptors.writev(fd, [b"a", b"b"]) == 2


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: descriptors.read(9999, 1), OSError),
        (lambda: descriptors.read(0, -1), OSError),
        (lambda: descriptors.write(9999, b"x"), OSError),
        (lambda: descriptors.write(1, "text"), TypeError),
        (lambda: descriptors.readv(0, 5), TypeError),
        (lambda: descriptors.writev(1, 5), TypeError),
        (lambda: descriptors.read("0", 5), TypeError),
    ],
)
def test_wrong_arguments(call, error):
    with pytest.raises(error):
        call()


def test_closed_and_foreign_files(tmp_path):
    file = open(tmp_path / "file", "wb", buffering=0)  # noqa: SIM115
    with pytest.raises(io.UnsupportedOperation):
        fileio.file_read(file, 1)
    file.close()
    for method in (fileio.file_read, fileio.file_readall):
        with pytest.raises(ValueError, match="closed"):
            method(file)


@pytest.mark.virtual_time(False)  # the kernel has a thread for what is written to a terminal
def test_eventfd_and_terminal_park_without_the_flag_of_the_kernel():
    """An eventfd, and a terminal: they are asked for readiness first."""
    import pty

    master, slave = pty.openpty()
    tasklet = while_parked(descriptors.read, slave, 100)
    descriptors.write(master, b"line\n")
    assert tasklet.result(15) == b"line\n"
    os.close(master)
    os.close(slave)
    if hasattr(os, "eventfd"):
        fd = os.eventfd(0)
        tasklet = while_parked(descriptors.read, fd, 8)
        os.eventfd_write(fd, 5)
        assert int.from_bytes(tasklet.result(15), sys.byteorder) == 5
        os.close(fd)


@pytest.mark.virtual_time(False)  # the kernel has a thread for what is written to a terminal
@pytest.mark.parametrize("sends", ["program", "raw program", "keyboard"])
def test_writer_parks_while_a_terminal_has_no_room(sends):
    """A terminal that can be written to takes some bytes, and a call waits until it has taken all."""
    import pty
    import tty

    master, slave = pty.openpty()
    if sends != "program":
        tty.setraw(slave)
    source, target = (master, slave) if sends == "keyboard" else (slave, master)
    sent = b"a line\n" * 4000
    tasklet = while_parked(descriptors.write, source, sent)
    got = bytearray()
    while got.count(b"\n") < 4000:
        got += descriptors.read(target, 65536)
    assert tasklet.result(15) == len(sent)
    assert got.replace(b"\r", b"") == sent
    os.close(master)
    os.close(slave)


def test_sockets_by_their_descriptor():
    one, two = socket.socketpair()
    with one, two:
        tasklet = while_parked(descriptors.read, one.fileno(), 100)
        descriptors.write(two.fileno(), b"x")
        assert tasklet.result(1) == b"x"


def test_reader_into_a_buffer_parks(pipe):
    left, right = pipe
    room = bytearray(4)
    tasklet = while_parked(descriptors.readinto, left, room)
    os.write(right, b"line")
    assert tasklet.result(15) == 4 and room == b"line"
    for wrong in (b"line", memoryview(room)[::2], 5):
        with pytest.raises(TypeError, match="must be read-write bytes-like object, not "):
            descriptors.readinto(left, wrong)


@pytest.mark.parametrize("name", ["readinto", "statx"])
def test_functions_of_newer_pythons_are_replaced(name):
    """The first is of Python 3.14, the other of 3.15."""
    if not hasattr(os, name):
        pytest.skip(f"this Python has no os.{name}")
    with patched():
        assert f"os.{name}" in describe()


def test_a_thread_without_a_loop_blocks(pipe):
    left, right = pipe
    got = []
    thread = threading.Thread(target=lambda: got.append(descriptors.read(left, 10)))
    thread.start()
    os.write(right, b"x")
    syncless.run_in_thread(thread.join)
    assert got == [b"x"]


def test_killed_while_it_waits(pipe):
    left, right = pipe
    tasklet = while_parked(descriptors.read, left, 100)
    tasklet.kill()
    os.write(right, b"x")
    assert descriptors.read(left, 10) == b"x"
