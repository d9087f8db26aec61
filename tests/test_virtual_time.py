"""On the virtual clock time passes only while everything waits, and then exactly."""

import contextlib
import os
import queue
import select
import socket
import subprocess
import threading
import time

import pytest

import syncless
from syncless._core.poll.backends import BACKENDS
from syncless.io import socket as waiting
from tests.conftest import run_in_loop
from tests.virtualtime import real_time

pytestmark = pytest.mark.virtual_time


def elapsed(call, *args):
    began = time.monotonic()
    call(*args)
    return round(time.monotonic() - began, 9)


def test_computing_takes_no_time():
    assert elapsed(sum, range(1_000_000)) == 0


def test_busy_wait_for_the_clock_ends():
    began = time.monotonic()
    while time.monotonic() < began + 0.001:
        pass
    assert time.monotonic() < began + 0.0011


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_tasklet_sleeps_exactly_as_long_as_asked(backend):
    assert run_in_loop(backend, elapsed, syncless.sleep, 3600) == 3600


def test_each_call_that_waits_takes_exactly_its_timeout(pair):
    left, _ = pair
    left.settimeout(7)
    watched = select.poll()
    watched.register(left, select.POLLIN)
    with select.epoll() as epoll:
        epoll.register(left, select.EPOLLIN)
        lock = threading.Lock()
        lock.acquire()

        def in_vain(error, call, *args, **kwargs):
            with pytest.raises(error):
                call(*args, **kwargs)

        waits = {
            "time.sleep": lambda: time.sleep(7),
            "select": lambda: select.select([left], [], [], 7),
            "poll": lambda: watched.poll(7000),
            "epoll": lambda: epoll.poll(7),
            "recv": lambda: in_vain(TimeoutError, left.recv, 1),
            "lock": lambda: lock.acquire(timeout=7),
            "queue": lambda: in_vain(queue.Empty, queue.SimpleQueue().get, timeout=7),
        }
        assert {name: elapsed(wait) for name, wait in waits.items()} == dict.fromkeys(waits, 7)


def test_wall_clock_goes_along():
    began = time.time()
    syncless.sleep(1000)
    assert time.time() - began == pytest.approx(1000, abs=1e-3)


def test_clock_never_goes_back_when_virtual_time_ends():
    syncless.sleep(5000)
    before = time.monotonic()
    with real_time():
        assert before <= time.monotonic() < before + 60
        between = time.monotonic()
    assert between <= time.monotonic() < between + 60


def test_clock_stands_still_while_a_child_process_lives():
    with subprocess.Popen(["sleep", "0.1"]) as child:
        assert child.wait(0.001) == 0


def test_child_that_has_ended_does_not_hide_one_that_lives():
    with subprocess.Popen(["true"]) as ended, subprocess.Popen(["sleep", "0.1"]) as living:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert living.wait(0.001) == 0


@pytest.mark.parametrize("seconds", [0.01, 100])
def test_clock_stands_still_while_a_thread_computes(seconds):
    """The thread's tenth of a second of work is over before the tasklet's 0.01 seconds are."""
    told = []

    def compute():
        ends = time.thread_time() + 0.1
        while time.thread_time() < ends:
            pass
        told.append(time.monotonic())

    began = time.monotonic()
    thread = threading.Thread(target=compute)
    thread.start()
    syncless.sleep(seconds)
    assert told == [began]
    thread.join()


def test_clock_stands_still_while_a_thread_looks_at_its_children():
    """To the kernel's eye it sleeps, though it runs."""
    ended = [subprocess.Popen(["true"]) for _ in range(30)]
    for child in ended:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    told = []

    def look():
        ends = time.thread_time() + 0.1
        while time.thread_time() < ends:
            with contextlib.suppress(ChildProcessError):  # none of them is stopped
                os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOHANG)
        told.append(time.monotonic())

    began = time.monotonic()
    thread = threading.Thread(target=look)
    thread.start()
    syncless.sleep(100)
    thread.join()
    assert told == [began]
    assert [child.wait() for child in ended] == [0] * 30


def test_thread_that_blocks_in_a_system_call_is_woken_before_the_clock_jumps(pair):
    """The echo in a thread of its own has no deadline; each answer comes in no time."""
    left, right = pair

    def echo():
        while data := right.recv(100):
            right.send(data)

    thread = threading.Thread(target=echo)
    thread.start()
    left.settimeout(0.001)
    assert elapsed(lambda: [left.send(b"x") and left.recv(1) for _ in range(300)]) == 0
    left.shutdown(socket.SHUT_WR)
    thread.join()


def test_threads_and_tasklets_sleep_beside_each_other():
    log = []

    def note(name, sleep, seconds):
        for _ in range(5):
            sleep(seconds)
            log.append((name, round(time.monotonic() - began, 9)))

    began = time.monotonic()
    thread = threading.Thread(target=note, args=("thread", time.sleep, 0.3))
    thread.start()
    tasklet = syncless.spawn(note, "tasklet", syncless.sleep, 0.2)
    tasklet.join()
    syncless.sleep(5)
    thread.join()
    assert sorted(log) == sorted(
        [("thread", round(0.3 * i, 9)) for i in range(1, 6)]
        + [("tasklet", round(0.2 * i, 9)) for i in range(1, 6)]
    )


def test_packets_arrive_before_the_clock_jumps():
    """Also in a thread that answers by blocking calls."""
    with waiting.create_server(("127.0.0.1", 0)) as server:

        def client():
            with socket.create_connection(server.getsockname()) as sock:
                while data := sock.recv(65536):
                    sock.sendall(data)

        thread = threading.Thread(target=client)
        thread.start()
        sock, _ = server.accept()
        sock.settimeout(0.001)
        began = time.monotonic()
        for size in [1, 1000, 60_000] * 30:
            sock.sendall(b"x" * size)
            while size:
                size -= len(sock.recv(size))
        assert time.monotonic() == began
        sock.close()
        thread.join()
