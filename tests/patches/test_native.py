"""Calls of C libraries that wait park the tasklet: each call, by a small library that is compiled for it."""

import ctypes
import errno
import importlib
import importlib.util
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import threading
import time
import types

import pytest

import syncless
from syncless._core.current import uninterrupted, wait_readable
from syncless.patches import (
    AREAS,
    changes,
    describe,
    is_patched,
    native_stats,
    patch_all,
    patch_native,
    patched,
    unpatch,
)
from syncless.tools.knownlibraries import LIBRARIES
from tests.programs import run_unchecked
from tests.waiting import eventually

entries = pytest.importorskip(
    "syncless.patches.libraries.parking", reason="C libraries can be patched on Linux only"
)
entries_of_file, loaded_objects = entries.entries_of_file, entries.loaded_objects
Rule = importlib.import_module("syncless.patches.libraries.objects").Rule

COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = pytest.mark.skipif(
    COMPILER is None or not sys.platform.startswith("linux"), reason="needs a C compiler, on Linux"
)
SOURCE = os.path.join(os.path.dirname(__file__), "waits_in_c.c")
BIG = 3_000_000
"""Bytes: more than a socket or pipe takes at once."""


class PollFd(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]


def build(folder, name, *options):
    path = str(folder / name)
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-O1", *options, "-o", path, SOURCE, "-pthread"], check=True
    )
    return path


def extension(folder):
    """The library as the extension module waits_in_c."""
    include = sysconfig.get_path("include")
    if not os.path.exists(f"{include}/Python.h"):
        pytest.skip("the headers of this Python are not installed")
    return build(folder, f"waits_in_c{sysconfig.get_config_var('EXT_SUFFIX')}", "-DPYTHON", f"-I{include}")


@pytest.fixture(scope="module", params=["lazy", "now,-z,relro"])
def path(request, tmp_path_factory):
    """The library, bound at each first call; or when it is loaded, into read-only pages."""
    folder = tmp_path_factory.mktemp("native")
    # tests may run in an order that needs it again, and what was loaded before is still found by its name
    return build(folder, f"lib{folder.name}{request.param[:3]}.so", f"-Wl,-z,{request.param}")


@pytest.fixture
def lib(path):
    loaded = ctypes.CDLL(path, use_errno=True)
    assert patch_native(path)
    yield loaded
    unpatch(f"native {path}")


def waiting(function, *args):
    """A tasklet that has begun to wait in the call."""
    tasklet = syncless.spawn(function, *args)
    assert eventually(lambda: tasklet.status == "waiting")
    return tasklet


@pytest.mark.parametrize("call", ["recv", "recvfrom", "recvmsg", "by_pointer"])
def test_receiving_parks_until_data_comes(lib, pair, call):
    buffer = ctypes.create_string_buffer(100)
    waiter = waiting(getattr(lib, f"w_{call}"), pair[0].fileno(), buffer, 100, 0)
    assert waiter.waiting_for == "descriptor in a C library"
    pair[1].send(b"hello")
    assert waiter.result(60) == 5 and buffer.value == b"hello"


@pytest.mark.parametrize("call", ["read", "readv"])
@pytest.mark.parametrize("kind", ["socket", "pipe"])
def test_reading_parks_until_data_comes(lib, call, kind):
    if kind == "pipe":
        source, sink = os.pipe()
    else:
        source, sink = (sock.detach() for sock in socket.socketpair())
    buffer = ctypes.create_string_buffer(100)
    waiter = waiting(getattr(lib, f"w_{call}"), source, buffer, 100)
    os.write(sink, b"hello")
    assert waiter.result(60) == 5 and buffer.value == b"hello"
    os.close(sink)
    assert getattr(lib, f"w_{call}")(source, buffer, 100) == 0
    os.close(source)


@pytest.mark.parametrize("call", ["send", "sendto", "sendmsg", "write", "writev"])
def test_sending_parks_until_all_is_sent(lib, pair, call):
    data = os.urandom(BIG)
    flags = () if call.startswith("write") else (0,)
    waiter = waiting(getattr(lib, f"w_{call}"), pair[0].fileno(), data, BIG, *flags)
    received = b""
    while len(received) < BIG:
        wait_readable(pair[1])
        received += pair[1].recv(1 << 16)
    assert waiter.result(60) == BIG and received == data


def test_writing_to_a_full_pipe_parks_until_all_is_written(lib):
    source, sink = os.pipe()
    data = os.urandom(BIG)
    waiter = waiting(lib.w_write, sink, data, BIG)
    received = b""
    while len(received) < BIG:
        wait_readable(source)
        received += os.read(source, 1 << 16)
    assert waiter.result(60) == BIG and received == data
    os.close(source)
    os.close(sink)


def test_waitall_waits_for_all(lib, pair):
    buffer = ctypes.create_string_buffer(10)
    waiter = waiting(lib.w_recv, pair[0].fileno(), buffer, 10, socket.MSG_WAITALL)
    pair[1].send(b"12345")
    for _ in range(5):
        syncless.sleep(0)
    assert waiter.status == "waiting"
    pair[1].send(b"67890")
    assert waiter.result(60) == 10 and buffer.raw == b"1234567890"


def test_end_of_the_connection_ends_waitall(lib, pair):
    buffer = ctypes.create_string_buffer(10)
    waiter = waiting(lib.w_recv, pair[0].fileno(), buffer, 10, socket.MSG_WAITALL)
    pair[1].send(b"123")
    pair[1].close()
    assert waiter.result(60) == 3


def test_descriptor_that_never_waits_says_so(lib, pair):
    pair[0].setblocking(False)
    buffer = ctypes.create_string_buffer(10)
    before = native_stats()["waits"]
    assert lib.w_recv(pair[0].fileno(), buffer, 10, 0) == -1
    assert ctypes.get_errno() == errno.EAGAIN
    pair[0].setblocking(True)
    assert lib.w_recv(pair[0].fileno(), buffer, 10, socket.MSG_DONTWAIT) == -1
    assert ctypes.get_errno() == errno.EAGAIN
    assert native_stats()["waits"] == before


def test_timeout_of_the_socket_bounds_the_wait(lib, pair):
    pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 20_000))
    buffer = ctypes.create_string_buffer(10)

    def receive():
        return lib.w_recv(pair[0].fileno(), buffer, 10, 0), ctypes.get_errno()

    before = native_stats()["waits"]
    assert syncless.spawn(receive).result(60) == (-1, errno.EAGAIN)
    assert native_stats()["waits"] == before + 1


def test_errno_is_left_as_it_was(lib, pair):
    waiter = waiting(lib.w_errno, pair[0].fileno())
    pair[1].send(b"x")
    assert waiter.result(60) == 1


@pytest.mark.parametrize("call", ["accept", "accept4"])
def test_accept_parks_until_a_client_comes(lib, call):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        waiter = waiting(getattr(lib, f"w_{call}"), listener.fileno())
        with socket.create_connection(listener.getsockname()):
            accepted = waiter.result(60)
            assert os.get_blocking(listener.fileno()) and os.get_blocking(accepted)
            os.close(accepted)


def test_connect_parks_while_the_listener_has_no_room(lib, tmp_path):
    address = str(tmp_path / "listener")
    packed = struct.pack("H108s", socket.AF_UNIX, address.encode())
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(address)
        listener.listen(0)
        first = socket.socket(socket.AF_UNIX)
        first.connect(address)
        waiter = waiting(lib.w_connect, client.fileno(), packed, len(packed))
        listener.accept()[0].close()
        first.close()
        assert waiter.result(60) == 0
        assert os.get_blocking(client.fileno())


def test_connect_tells_of_a_refusal(lib):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    packed = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port), b"\x7f\0\0\1")
    with socket.socket() as client:
        assert lib.w_connect(client.fileno(), packed, len(packed)) == -1
        assert ctypes.get_errno() == errno.ECONNREFUSED


def test_poll_parks_until_one_of_several_is_ready(lib, pair):
    other = socket.socketpair()
    fds = (PollFd * 3)(
        (pair[0].fileno(), select.POLLIN, 0),
        (-1, select.POLLIN, 0),
        (other[0].fileno(), select.POLLIN | select.POLLPRI, 0),
    )
    waiter = waiting(lib.w_poll, fds, 3, -1)
    other[1].send(b"x")
    assert waiter.result(60) == 1
    assert [fd.revents for fd in fds] == [0, 0, select.POLLIN]
    for sock in other:
        sock.close()


@pytest.mark.parametrize("timeout", [0, 20])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_poll_ends_with_its_time(lib, pair, count, timeout):
    fds = (PollFd * 2)((pair[0].fileno(), select.POLLIN, 0), (pair[1].fileno(), select.POLLIN, 0))
    assert syncless.spawn(lib.w_poll, fds, count, timeout).result(60) == 0
    assert syncless.spawn(lib.w_ppoll, fds, count, timeout * 1_000_000).result(60) == 0


def test_several_tasklets_poll_one_descriptor(lib, pair):
    lists = [(PollFd * 1)((pair[0].fileno(), select.POLLIN, 0)) for _ in range(5)]
    waiters = [waiting(lib.w_poll, fds, 1, -1) for fds in lists]
    pair[1].send(b"x")
    assert [waiter.result(60) for waiter in waiters] == [1] * 5


def test_more_tasklets_poll_a_descriptor_than_epoll_takes(lib, pair):
    other = os.eventfd(0) if hasattr(os, "eventfd") else os.dup(pair[1].fileno())
    mine = pair[0].fileno()
    lists = [(PollFd * 2)((mine, select.POLLIN, 0), (other, select.POLLPRI, 0)) for _ in range(600)]
    waiters = [syncless.spawn(lib.w_poll, fds, 2, 10_000) for fds in lists]
    assert eventually(lambda: all(waiter.status == "waiting" for waiter in waiters))
    pair[1].send(b"x")
    assert {waiter.result(60) for waiter in waiters} == {1}
    os.close(other)


def test_descriptor_that_stands_in_a_list_several_times_is_watched_for_all(lib, pair):
    mine, other = (sock.fileno() for sock in pair)
    fds = (PollFd * 3)((mine, select.POLLPRI, 0), (other, select.POLLIN, 0), (mine, select.POLLIN, 0))
    waiter = waiting(lib.w_poll, fds, 3, -1)
    pair[1].send(b"x")
    assert waiter.result(60) == 1 and [fd.revents for fd in fds] == [0, 0, select.POLLIN]


def test_select_and_epoll_park(lib, pair):
    fd = pair[0].fileno()
    waiters = [
        waiting(lib.w_select, fd, -1),
        waiting(lib.w_pselect, fd, -1),
        waiting(lib.w_epoll, fd, -1),
    ]
    pair[1].send(b"x")
    assert [waiter.result(60) for waiter in waiters] == [1 + 2, 1, 1]
    pair[0].recv(1)
    assert syncless.spawn(lib.w_select, fd, 20_000).result(60) == 4
    assert syncless.spawn(lib.w_pselect, fd, 20_000_000).result(60) == 0
    assert syncless.spawn(lib.w_epoll, fd, 20).result(60) == 0


def test_select_touches_no_more_of_a_set_than_the_kernel_does(lib, pair):
    fd = pair[0].fileno()
    words = (ctypes.c_ulong * 48)()
    words[fd // 64] = 1 << fd % 64
    waiter = waiting(lib.w_select_set, fd + 1, words)
    behind = range(fd // 64 + 1, 48)
    for number in behind:
        words[number] = number  # it belongs to others
    pair[1].send(b"x")
    assert waiter.result(60) == 1
    assert [words[number] for number in behind] == list(behind) and words[fd // 64] == 1 << fd % 64


@pytest.mark.parametrize("call", ["usleep", "nanosleep", "clock_nanosleep"])
def test_sleeping_parks(lib, call):
    length = 20_000 if call == "usleep" else 20_000_000
    started, before = time.monotonic(), native_stats()["waits"]
    waiter = syncless.spawn(getattr(lib, f"w_{call}"), length)
    assert waiter.result(60) == 0 and time.monotonic() - started >= 0.02
    assert native_stats()["waits"] == before + 1


def test_mutex_is_held_through_several_waits(lib, pair):
    before = native_stats()["with_lock"]
    waiter = waiting(lib.w_locked_recv_twice, pair[0].fileno(), ctypes.create_string_buffer(1))
    for count in (1, 2):
        pair[1].send(b"x")
        assert eventually(lambda count=count: native_stats()["with_lock"] == before + count)
    assert waiter.result(60) == 2


def test_library_means_those_that_it_needs_except_refused_ones(lib, path, tmp_path):
    made = str(tmp_path / "libuser.so")
    subprocess.run([COMPILER, "-shared", "-Wl,--no-as-needed", "-o", made, path], check=True)
    ctypes.CDLL(made)
    meant = Rule(made, None).objects(loaded_objects())
    assert meant == {made: True, path: False}


def test_name_is_looked_up_beside_others(lib):
    before = native_stats()["waits"]
    assert syncless.spawn(lib.w_getaddrinfo, b"localhost").result(60) == 0
    assert native_stats()["waits"] == before + 1
    assert syncless.spawn(lib.w_getaddrinfo, b"127.0.0.1").result(60) == 0
    assert native_stats()["waits"] == before + 1


def test_mutex_that_a_waiting_tasklet_holds_is_waited_for(lib, pair):
    buffers = [ctypes.create_string_buffer(1) for _ in range(3)]
    before = native_stats()
    waiters = [waiting(lib.w_locked_recv, pair[0].fileno(), buffer, 1) for buffer in buffers]
    assert [waiter.waiting_for for waiter in waiters[1:]] == ["pause in a C library"] * 2
    pair[1].send(b"abc")
    assert [waiter.result(60) for waiter in waiters] == [1] * 3
    after = native_stats()
    assert after["with_lock"] == before["with_lock"] + 1
    assert after["lock_waits"] == before["lock_waits"] + 2


def test_mutex_that_was_waited_for_leaves_errno_alone(lib, pair):
    holder = waiting(lib.w_locked_recv, pair[0].fileno(), ctypes.create_string_buffer(1), 1)
    waiter = waiting(lib.w_lock_errno)
    pair[1].send(b"x")
    assert waiter.result(60) == 77 and holder.result(60) == 1


def test_select_takes_more_than_a_second_of_microseconds(lib):
    before = native_stats()["waits"]
    waiter = waiting(lib.w_select_pause, 1_000_001)
    assert waiter.result(60) == 0
    assert native_stats()["waits"] == before + 1


def test_look_ahead_waits_for_all(lib, pair):
    flags = socket.MSG_PEEK | socket.MSG_WAITALL
    buffer = ctypes.create_string_buffer(10)
    pair[1].send(b"12345")
    waiter = waiting(lib.w_recv, pair[0].fileno(), buffer, 10, flags)
    pair[1].send(b"67890")
    assert waiter.result(60) == 10 and buffer.raw == b"1234567890"
    assert pair[0].recv(5) == b"12345"
    waiter = waiting(lib.w_recv, pair[0].fileno(), buffer, 10, flags)
    pair[1].close()
    assert waiter.result(60) == 5
    pair[0].setblocking(False)
    assert lib.w_recv(pair[0].fileno(), buffer, 10, flags) == 5


# -- kills and timeouts --------------------------------------------------------------------------------------


def receive(lib, sock):
    """As an extension module: an error of the call is an exception."""
    if lib.w_recv(sock.fileno(), ctypes.create_string_buffer(10), 10, 0) <= 0:
        raise ConnectionError("the library has lost its connection")


def test_killed_tasklet_shuts_its_connection_down(lib, pair):
    waiter = waiting(receive, lib, pair[0])
    assert waiter.kill(timeout=60)
    assert isinstance(waiter.exception(), syncless.TaskletExit)
    assert isinstance(waiter.exception().__context__, ConnectionError)
    assert pair[1].recv(1) == b""


def test_kill_is_raised_at_the_next_wait(lib, pair):
    caught = []

    def run():
        try:
            receive(lib, pair[0])
        except ConnectionError as error:
            caught.append(error)
            syncless.sleep(100)

    waiter = waiting(run)
    assert waiter.kill(timeout=60)
    assert isinstance(waiter.exception(), syncless.TaskletExit) and len(caught) == 1


def test_kill_that_came_before_the_call_breaks_it_off(lib, pair):
    def run():
        syncless.spawn(syncless.current().kill, block=False)
        uninterrupted(syncless.sleep, 0)
        receive(lib, pair[0])

    waiter = syncless.spawn(run)
    assert waiter.join(60)
    assert isinstance(waiter.exception(), syncless.TaskletExit)
    assert pair[1].recv(1) == b""


@pytest.mark.parametrize("block", [syncless.deadline, syncless.Timeout])
def test_deadline_is_raised_in_place_of_the_error_of_the_library(lib, pair, block):
    expected = TimeoutError if block is syncless.deadline else syncless.Timeout
    with pytest.raises(expected) as raised, block(0.02):
        receive(lib, pair[0])
    assert isinstance(raised.value.__cause__, ConnectionError)
    assert pair[1].recv(1) == b""


def try_again_and_again(lib, failures):
    """As a program that connects anew whenever the library fails."""
    while len(failures) < 1000:
        left, right = socket.socketpair()
        with left, right:
            try:
                receive(lib, left)
            except ConnectionError as error:
                failures.append(error)


@pytest.mark.parametrize("how", ["kill", "timeout", "deadline"])
def test_kill_ends_a_loop_that_tries_again(lib, how):
    failures = []
    before = native_stats()["broken"]
    if how == "kill":
        tasklet = waiting(try_again_and_again, lib, failures)
        assert tasklet.kill(timeout=60)
        assert isinstance(tasklet.exception(), syncless.TaskletExit)
    else:
        block, kind = {
            "timeout": (syncless.Timeout, syncless.Timeout),
            "deadline": (syncless.deadline, TimeoutError),
        }[how]
        with pytest.raises(kind), block(0.02):
            try_again_and_again(lib, failures)
    assert len(failures) <= 2 and native_stats()["broken"] - before == 2


def test_kill_ends_a_loop_that_tries_again_in_another_thread(lib):
    failures, ended = [], []

    def run():
        tasklet = waiting(try_again_and_again, lib, failures)
        ended.append((tasklet.kill(timeout=60), type(tasklet.exception())))

    thread = threading.Thread(target=run)
    thread.start()
    syncless.run_in_thread(thread.join)
    assert ended == [(True, syncless.TaskletExit)] and len(failures) <= 2


@pytest.mark.parametrize("traced", [False, True])
def test_ctrl_c_replaces_the_error_of_the_library(tmp_path, traced):
    """A debugger has the trace function that this needs, and sees the error."""
    extension(tmp_path)
    done = run_unchecked(
        f"""
import os, signal, socket, sys, syncless
from syncless.patches import patch_native
patch_native("waits_in_c")
import waits_in_c
left, right = socket.socketpair()
syncless.spawn(os.kill, os.getpid(), signal.SIGINT)
sys.settrace((lambda *event: None) if {traced} else None)
waits_in_c.receive(left.fileno())
""",
        cwd=tmp_path,
    )
    assert ("ConnectionError: the library's own" in done.stderr) is traced
    assert done.returncode == (1 if traced else -signal.SIGINT)


def test_ctrl_c_is_raised_before_a_library_is_called_again(lib):
    failures = []
    before = native_stats()["broken"]
    ctrl_c = syncless.spawn(
        lambda: (syncless.sleep(0.01), syncless.current_loop().interrupt(KeyboardInterrupt()))
    )
    with pytest.raises(KeyboardInterrupt):
        try_again_and_again(lib, failures)
    ctrl_c.result(60)
    assert len(failures) <= 1 and native_stats()["broken"] - before == 1


def test_silent_timeout_stays_silent(lib, pair):
    with syncless.Timeout(0.02, False):
        receive(lib, pair[0])
    assert pair[1].recv(1) == b""


def test_other_end_sees_the_end_when_poll_is_broken_off(lib, pair):
    fds = (PollFd * 1)((pair[0].fileno(), select.POLLIN, 0))
    waiter = waiting(lib.w_poll, fds, 1, -1)
    waiter.kill(block=False)
    waiter.join(60)
    assert pair[1].recv(1) == b"" and fds[0].revents & select.POLLIN


@pytest.mark.parametrize("call", ["poll", "select"])
def test_listener_that_is_polled_outlives_a_kill(lib, call):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fds = (PollFd * 1)((listener.fileno(), select.POLLIN, 0))
        args = (fds, 1, -1) if call == "poll" else (listener.fileno(), -1)
        waiter = waiting(getattr(lib, f"w_{call}"), *args)
        waiter.kill(block=False)
        syncless.sleep(0)
        with socket.create_connection(listener.getsockname(), timeout=60):
            assert waiter.join(60)


def test_kill_waits_for_a_pipe(lib):
    source, sink = os.pipe()
    waiter = waiting(lib.w_read, source, ctypes.create_string_buffer(10), 10)
    assert not waiter.kill(timeout=0.02)
    os.write(sink, b"x")
    assert waiter.join(60)
    os.close(source)
    os.close(sink)


def test_killed_sleeper_wakes_up(lib):
    waiter = waiting(lib.w_sleep, 1000)
    waiter.kill(block=False)
    assert 900 < waiter.result(60) <= 1000


@pytest.mark.parametrize(("call", "length"), [("nanosleep_all", 300_000_000), ("sleep_all", 1)])
@pytest.mark.virtual_time
def test_repeated_pause_goes_on_after_a_kill(lib, call, length):
    waiter = waiting(getattr(lib, f"w_{call}"), length)
    started = time.monotonic()
    waiter.kill(block=False)
    turns = 0
    while waiter.status != "ended":
        syncless.sleep(0.01)
        turns += 1
    assert turns > 3 and time.monotonic() - started > 0.2


@pytest.mark.virtual_time
def test_repeated_pause_outlasts_several_interrupts(lib):
    def run():
        raised = 0
        lib.w_nanosleep_all(300_000_000)
        for _ in range(4):
            try:
                syncless.sleep(0)
            except KeyboardInterrupt:
                raised += 1
        return raised

    waiter = waiting(run)
    started = time.monotonic()
    for _ in range(3):
        waiter.kill(KeyboardInterrupt(), block=False)
        syncless.sleep(0.01)
    assert waiter.status == "waiting"
    assert waiter.result(60) == 3 and time.monotonic() - started > 0.2


def test_lookup_that_is_repeated_after_a_kill_is_answered(lib):
    def run():
        syncless.spawn(syncless.current().kill, block=False)
        uninterrupted(syncless.sleep, 0)
        return lib.w_getaddrinfo_again(b"localhost")

    assert syncless.spawn(run).result(60) == 1


# -- kills and timeouts while connecting ---------------------------------------------------------------------


def address_of(listener):
    """As C has it."""
    host, port = listener.getsockname()
    return struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port), socket.inet_aton(host))


def connect(lib, client, address):
    """As an extension module: an error of the call is an exception."""
    if lib.w_connect(client.fileno(), address, len(address)) != 0:
        number = ctypes.get_errno()
        raise ConnectionError(number, os.strerror(number))


@pytest.fixture
def full():
    """A listener without room: the kernel drops attempts to connect, and repeats them after a second."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    with listener, socket.create_connection(listener.getsockname()):
        yield listener


@pytest.fixture
def client():
    with socket.socket() as client:
        yield client


def test_connect_goes_on_with_an_attempt_that_is_under_way(lib, full, client):
    client.setblocking(False)
    with pytest.raises(ConnectionError, match=r"in progress"):
        connect(lib, client, address_of(full))
    client.setblocking(True)
    waiter = waiting(connect, lib, client, address_of(full))
    full.accept()[0].close()
    assert waiter.join(60) and waiter.exception() is None


def test_connect_of_killed_tasklet_fails(lib, full, client):
    waiter = waiting(connect, lib, client, address_of(full))
    assert waiter.kill(timeout=60)
    assert isinstance(waiter.exception(), syncless.TaskletExit)
    assert isinstance(waiter.exception().__context__, ConnectionError)


@pytest.mark.parametrize("block", [syncless.deadline, syncless.Timeout])
def test_connect_that_is_late_fails(lib, full, client, block):
    expected = TimeoutError if block is syncless.deadline else syncless.Timeout
    with pytest.raises(expected) as raised, block(0.02):
        connect(lib, client, address_of(full))
    assert isinstance(raised.value.__cause__, ConnectionError)


def test_connect_of_killed_tasklet_fails_although_the_listener_has_accepted_it(lib, full, client):
    waiter = waiting(connect, lib, client, address_of(full))
    waiter.kill(block=False)
    full.accept()[0].close()
    ready = select.poll()
    ready.register(client, select.POLLOUT)
    assert ready.poll(10_000), "the kernel has not repeated its attempt"  # the thread waits, not the tasklet
    assert client.getpeername() == full.getsockname()
    assert waiter.join(60)
    assert isinstance(waiter.exception().__context__, ConnectionError)
    with full.accept()[0] as accepted:
        assert accepted.recv(1) == b""


def test_connect_to_a_listener_without_room_fails_when_killed(lib, tmp_path):
    address = str(tmp_path / "listener")
    packed = struct.pack("H108s", socket.AF_UNIX, address.encode())
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(address)
        listener.listen(0)
        first.connect(address)
        with socket.socket(socket.AF_UNIX) as client:
            waiter = waiting(connect, lib, client, packed)
            assert waiter.kill(timeout=60)
            assert isinstance(waiter.exception().__context__, ConnectionError)


def test_addresses_that_are_tried_after_a_kill_answer_as_they_are(lib, full):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        refused = address_of(closed)
    found = []

    def run(listener):
        for address in (address_of(full), refused, address_of(listener)):
            with socket.socket() as client:
                result = lib.w_connect(client.fileno(), address, len(address))
                found.append((result, ctypes.get_errno() if result else 0))
        syncless.sleep(100)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        waiter = waiting(run, listener)
        assert waiter.kill(timeout=60)
        assert isinstance(waiter.exception(), syncless.TaskletExit)
    assert found[0][0] == -1 and found[1:] == [(-1, errno.ECONNREFUSED), (0, 0)]


def test_others_run_while_a_library_connects_anew_after_a_kill(lib, full):
    stop = ctypes.c_int(0)

    def end():
        stop.value = 1

    address = address_of(full)
    waiter = waiting(lib.w_reconnect, address, len(address), ctypes.byref(stop))
    waiter.kill(block=False)
    syncless.sleep(0)
    syncless.spawn(end)
    assert waiter.join(60) and waiter.result() >= 2


# -- descriptors that others close --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["goes on", "killed"])
@pytest.mark.parametrize("kind", ["socket", "pipe"])
def test_call_does_not_touch_the_next_owner_of_its_descriptor(lib, kind, how):
    if kind == "socket":
        (source, sink), (other, other_sink) = ([end.detach() for end in socket.socketpair()] for _ in "ab")
    else:
        (source, sink), (other, other_sink) = os.pipe(), os.pipe()
    buffer = ctypes.create_string_buffer(10)

    def receive():
        return lib.w_read(source, buffer, 10), ctypes.get_errno()

    waiter = waiting(receive)
    os.dup2(other, source)
    if how == "goes on":
        waiting(wait_readable, source)  # the next owner, which is woken, too
    else:
        waiter.kill(block=False)
    os.write(other_sink, b"new")
    assert waiter.join(60) and waiter.result() == (-1, errno.EBADF)
    assert os.read(source, 10) == b"new" and os.write(other_sink, b"more") == 4
    for each in (source, sink, other, other_sink):
        os.close(each)


@pytest.mark.parametrize("call", ["poll", "poll two", "select", "peek"])
def test_kill_does_not_shut_down_the_next_owner_of_a_descriptor(lib, call):
    (source, sink), (other, other_sink) = ([end.detach() for end in socket.socketpair()] for _ in "ab")
    fds = (PollFd * 2)((source, select.POLLIN, 0), (sink, select.POLLPRI, 0))
    if call == "peek":
        os.write(sink, b"old")
        flags = socket.MSG_PEEK | socket.MSG_WAITALL
        waiter = waiting(lib.w_recv, source, ctypes.create_string_buffer(10), 10, flags)
    elif call == "select":
        waiter = waiting(lib.w_select, source, -1)
    else:
        waiter = waiting(lib.w_poll, fds, 2 if call == "poll two" else 1, -1)
    os.dup2(other, source)
    waiter.kill(block=False)
    os.write(other_sink, b"new")
    assert waiter.join(60)
    assert os.read(source, 10) == b"new" and os.write(other_sink, b"more") == 4
    for each in (source, sink, other, other_sink):
        os.close(each)


def test_connect_does_not_touch_the_next_owner_of_its_descriptor(lib, tmp_path):
    address = str(tmp_path / "socket")
    packed = struct.pack("H108s", socket.AF_UNIX, address.encode())
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(address)
        listener.listen(0)
        with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as other:
            first.connect(address)

            def connect():
                return lib.w_connect(client.fileno(), packed, len(packed)), ctypes.get_errno()

            waiter = waiting(connect)
            os.dup2(other.fileno(), client.fileno())
            listener.accept()[0].close()
            assert waiter.result(60) == (-1, errno.EBADF)
        with pytest.raises(OSError, match="not connected"):
            client.getpeername()


# -- calls left to libc --------------------------------------------------------------------------------------


def test_caller_that_keeps_the_gil_waits_as_before(lib, path, pair):
    holding = ctypes.PyDLL(path)
    before = native_stats()
    fds = (PollFd * 1)((pair[0].fileno(), select.POLLIN, 0))
    assert syncless.spawn(holding.w_poll, fds, 1, 5).result(60) == 0
    after = native_stats()
    assert after["holding_gil"] == before["holding_gil"] + 1 and after["waits"] == before["waits"]


def test_calls_that_need_not_wait_are_not_counted_as_holding_the_gil(lib, path, pair):
    holding = ctypes.PyDLL(path)
    pair[1].send(b"x")
    fds = (PollFd * 1)((pair[0].fileno(), select.POLLIN, 0))
    before = native_stats()
    for _ in range(200):
        assert holding.w_poll(fds, 1, 5000) == 1
    assert native_stats() == before


def test_thread_without_a_loop_waits_as_before(lib, pair):
    fds = (PollFd * 1)((pair[0].fileno(), select.POLLIN, 0))
    before = native_stats()["waits"]
    found = []
    thread = threading.Thread(target=lambda: found.append(lib.w_poll(fds, 1, 5)))
    thread.start()
    thread.join()
    assert found == [0] and native_stats()["waits"] == before


def test_each_thread_has_its_own_loop(lib):
    found = []

    def run():
        left, right = socket.socketpair()
        waiter = waiting(lib.w_recv, left.fileno(), ctypes.create_string_buffer(1), 1, 0)
        right.send(b"x")
        found.append(waiter.result(60))
        left.close()
        right.close()

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 3


def test_child_that_a_library_forks_runs_no_tasklets(lib):
    source, sink = os.pipe()

    def tell():
        while waiter.status != "ended":
            os.write(sink, b"%d " % os.getpid())
            syncless.sleep(0.005)

    waiter = waiting(lib.w_fork, 200_000_000)
    teller = syncless.spawn(tell)
    assert waiter.result(60) == 7 and teller.join(60)
    assert set(os.read(source, 1 << 16).split()) == {b"%d" % os.getpid()}
    os.close(source)
    os.close(sink)


# -- patching and undoing ------------------------------------------------------------------------------------


def test_changes_are_described_and_undone(path, pair):
    loaded = ctypes.CDLL(path)
    area = f"native {path}"
    made = patch_native(path)
    assert {change.area for change in made} == {area} and is_patched(area)
    assert f"{os.path.basename(path)}: recv" in {change.target for change in made}
    assert f"{os.path.basename(path)}: poll" in describe()
    assert patch_native(path) == []
    unpatch(area)
    assert area not in {change.area for change in changes()}
    before = native_stats()["waits"]
    fds = (PollFd * 1)((pair[0].fileno(), select.POLLIN, 0))
    assert syncless.spawn(loaded.w_poll, fds, 1, 5).result(60) == 0
    assert native_stats()["waits"] == before


def test_name_of_the_file_is_enough(path):
    ctypes.CDLL(path)
    name = os.path.basename(path)
    assert patch_native(name)
    unpatch(f"native {name}")


@pytest.mark.parametrize("how", ["relative", "absolute", "file"])
def test_object_that_was_loaded_by_a_relative_path_is_found(tmp_path, monkeypatch, how):
    file = f"librelative{how}.so"
    made = build(tmp_path, file)
    monkeypatch.chdir(tmp_path)
    ctypes.CDLL(f"./{file}")
    name = {"relative": f"./{file}", "absolute": made, "file": file}[how]
    assert patch_native(name)
    unpatch(f"native {name}")


def test_object_stays_patched_for_another_name(path, pair):
    loaded = ctypes.CDLL(path, use_errno=True)
    assert patch_native(path)
    name = os.path.basename(path)
    assert not patch_native(name)
    unpatch(f"native {path}")
    waiter = waiting(loaded.w_recv, pair[0].fileno(), ctypes.create_string_buffer(1), 1, 0)
    pair[1].send(b"x")
    assert waiter.result(60) == 1
    unpatch(f"native {name}")


def test_library_in_a_folder_called_syncless_can_be_patched(tmp_path):
    folder = tmp_path / "syncless"
    folder.mkdir()
    made = build(folder, f"lib{tmp_path.name}.so")
    ctypes.CDLL(made)
    assert patch_native(made)
    unpatch(f"native {made}")


@pytest.mark.parametrize(
    ("name", "path", "is_meant"),
    [
        ("pycurl", "/pycurl/site-packages/pycurl.abi3.so", True),
        ("pycurl", "/pycurl/site-packages/lxml/etree.abi3.so", False),
        ("pycurl", "/elsewhere/pycurl/etree.abi3.so", False),
        ("pycurl", "/elsewhere/pycurl.abi3.so", True),
        ("MySQLdb", "/pycurl/site-packages/MySQLdb/_mysql.abi3.so", True),
        ("MySQLdb._mysql", "/pycurl/site-packages/MySQLdb/_mysql.abi3.so", True),
        ("MySQLdb", "/pycurl/site-packages/other/MySQLdb/_mysql.abi3.so", False),
        ("edited", "/source/edited/part/_waits.abi3.so", True),
    ],
)
def test_module_is_found_below_the_folder_that_it_is_imported_from(monkeypatch, name, path, is_meant):
    monkeypatch.setattr(sys, "path", ["/pycurl", "", "/pycurl/site-packages"])
    edited = types.ModuleType("edited")
    edited.__path__ = ["/source/edited"]  # as after `pip install --editable`
    monkeypatch.setitem(sys.modules, "edited", edited)
    assert Rule(name, None).means(path) == is_meant


def test_extension_module_is_patched_when_imported(monkeypatch, tmp_path, pair):
    file = extension(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert patch_native("waits_in_c") == []
    spec = importlib.util.spec_from_file_location("waits_in_c", file)
    importlib.util.module_from_spec(spec)
    assert f"{os.path.basename(file)}: recv" in {change.target for change in changes()}
    waiter = waiting(ctypes.CDLL(file).w_recv, pair[0].fileno(), ctypes.create_string_buffer(1), 1, 0)
    pair[1].send(b"x")
    assert waiter.result(60) == 1
    unpatch("native waits_in_c")


def with_ctypes(path):
    return ctypes.CDLL(path)


def with_cffi(path):
    ffi = pytest.importorskip("cffi").FFI()
    ffi.cdef("int w_usleep(unsigned us);")
    return ffi.dlopen(path)


@pytest.mark.parametrize("load", [with_ctypes, with_cffi])
def test_library_is_patched_when_python_code_loads_it(tmp_path, load):
    made = build(tmp_path, f"lib{tmp_path.name}.so")
    assert patch_native(made) == []
    loaded = load(made)
    before = native_stats()["waits"]
    assert syncless.spawn(loaded.w_usleep, 1000).result(60) == 0
    assert native_stats()["waits"] == before + 1
    unpatch(f"native {made}")


def test_functions_that_load_libraries_are_as_before_after_undoing(path):
    import _imp

    before = _imp.create_dynamic, ctypes._dlopen
    patch_native(path)
    assert before != (_imp.create_dynamic, ctypes._dlopen)
    unpatch(f"native {path}")
    assert before == (_imp.create_dynamic, ctypes._dlopen)


def test_plug_in_is_patched_when_a_patched_library_loads_it(lib, tmp_path):
    name = f"lib{tmp_path.name}.so"
    plugin = build(tmp_path, name)
    with pytest.warns(RuntimeWarning, match="there is no library"):
        assert patch_native(name) == []
    assert lib.w_dlopen(plugin.encode())
    assert f"{name}: recv" in {change.target for change in changes()}
    unpatch(f"native {name}")


@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer's dlopen() looks elsewhere"
)
def test_plug_in_is_found_where_the_library_says(tmp_path):
    plugin = f"libplugin{tmp_path.name}.so"
    build(tmp_path, plugin)
    made = build(tmp_path, f"lib{tmp_path.name}.so", "-Wl,-rpath,$ORIGIN")
    lib = ctypes.CDLL(made)
    assert patch_native(made) and patch_native(plugin) == []
    assert lib.w_dlopen(plugin.encode())
    assert lib.w_usleep(1) == 0
    assert f"{plugin}: recv" in {change.target for change in changes()}
    unpatch(f"native {made}", f"native {plugin}")


@pytest.mark.parametrize(
    "name",
    "libc.so.6 /lib/x86_64-linux-gnu/libc.so.6 libpthread.so.0 libssl.so.3 libcrypto.so.3 "
    "ld-linux-x86-64.so.2 libpython3.11.so.1.0 libsqlite3.so.0 _sqlite3 grpc greenlet syncless "
    "sqlite3 ssl _ssl _socket select".split(),
)
def test_library_that_cannot_be_patched_is_refused_with_the_reason(name):
    with pytest.raises(ValueError, match=r"cannot be patched: .{20}"):
        patch_native(name)
    assert not [change for change in changes() if name in change.target]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("mysqlclient", "MySQLdb"),
        ("psycopg2-binary", "psycopg2"),
        ("psycopg2_binary", "psycopg2"),
        ("mysqldb", "MySQLdb"),
        ("pytest_asyncio_of_another_name", None),
    ],
)
def test_misspelt_library_is_told_of_with_the_name_to_use(name, meant):
    words = "there is no module" if meant is None else f"patch_native\\('{meant}'"
    with pytest.raises(ValueError, match=words):
        patch_native(name)
    assert f"native {name}" not in describe()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pytest", "has no extension module"),
        ("pytest.nosuch", "has no extension module"),
        ("greenlet.nosuch", "has no extension module"),
        ("module_of_nobody", "there is no module"),
    ],
)
def test_module_that_leads_to_nothing_in_c_is_refused(name, words):
    with pytest.raises(ValueError, match=words):
        patch_native(name)
    with pytest.raises(ValueError, match=words), patched(native=[name], thread=False):
        pass
    assert not is_patched("socket")


@pytest.mark.parametrize("name", ["libnosuchlibrary.so.9", "libc_of_nobody.so"])
def test_file_that_is_nowhere_yet_is_told_of(name):
    with pytest.warns(RuntimeWarning, match="there is no library") as told:
        patch_native(name)
    assert told[0].filename == __file__
    unpatch(f"native {name}")
    with pytest.warns(RuntimeWarning, match="there is no library"), patched(native=[name], thread=False):
        pass


@pytest.mark.parametrize(
    "name", ["libz.so.1", "libz.so", "psycopg2._psycopg", "greenlet_of_nobody", "Cython"]
)
def test_name_that_may_be_loaded_later_is_taken(monkeypatch, tmp_path, name):
    (tmp_path / "greenlet_of_nobody").mkdir()
    (tmp_path / f"greenlet_of_nobody/_waits{sysconfig.get_config_var('EXT_SUFFIX')}").touch()
    monkeypatch.syspath_prepend(tmp_path)
    if name.partition(".")[0] in ("psycopg2", "Cython"):
        pytest.importorskip(name.partition(".")[0])
    patch_native(name)
    unpatch(f"native {name}")


def test_name_that_can_mean_nothing_is_refused():
    with pytest.raises(TypeError, match="as str"):
        patch_native(b"pycurl")
    with pytest.raises(ValueError, match="not an empty string"):
        patch_native("")
    with pytest.warns(RuntimeWarning, match="there is no file"):
        patch_native("/no/such/file.so")
    unpatch("native /no/such/file.so")


def test_safe_libraries_are_an_area_of_their_own():
    with patched(native=True) as areas:
        assert "native" in areas
    with patched(time=False) as areas:
        assert "native" not in areas


def test_libraries_can_be_named_when_all_is_patched(path, tmp_path):
    other = build(tmp_path, "libother.so")
    ctypes.CDLL(path), ctypes.CDLL(other)
    only = dict.fromkeys(AREAS.keys() - {"native"}, False)
    for names in (path, [path, other]):
        with patched(native=names, **only) as areas:
            assert areas == [f"native {name}" for name in ([names] if names is path else names)]
            assert {change.area for change in changes()} == set(areas)
    for name in ("_queue", "mysqlclient", ""):
        with pytest.raises(ValueError, match=r"cannot be patched|patch_native"):
            patch_all(native=[path, name], **only)
    assert changes() == []


def test_program_is_run_with_the_areas_that_are_asked_for(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nfrom syncless.patches import is_patched\n"
        "print([is_patched(area) for area in ('time', 'cpu', 'native')], sys.argv[1:])\n"
    )

    def told(*options):
        command = [sys.executable, "-m", "syncless", "run", *options, str(program), "--patch-cpu"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    assert told() == "[True, False, False] ['--patch-cpu']\n"
    assert told("--patch-native", "--patch-cpu") == "[True, True, True] ['--patch-cpu']\n"


def test_every_library_says_why():
    for row in LIBRARIES:
        assert row.verdict in ("safe", "care", "refused") and row.why and not row.why.endswith(".")
        assert row.tested or row.verdict == "refused"


def test_reader_finds_what_is_patched(path):
    with open(path, "rb") as file:
        found = {name: version for name, version, _, _ in entries_of_file(file.read())}
    assert {"recv", "poll", "getaddrinfo", "pthread_mutex_lock"} <= set(found)
