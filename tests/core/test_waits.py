"""Waits for descriptors of others; each backend alike."""

import fcntl
import os
import socket

import pytest

from syncless import sleep, spawn, wait_readable, wait_writable

pytestmark = pytest.mark.virtual_time


def test_descriptors_of_others(in_backend):
    def body():
        reading, writing = os.pipe()
        try:
            assert wait_writable(writing, 1) is True
            assert wait_readable(reading, 0.001) is False
            spawn(lambda: (sleep(0.01), os.write(writing, b"x")))
            assert wait_readable(reading, 5) is True
            assert wait_readable(reading, 5) is True  # still: nobody has read it
            assert os.read(reading, 1) == b"x"
            assert wait_readable(reading, 0.001) is False
        finally:
            os.close(reading)
            os.close(writing)

    in_backend(body)


def test_a_reused_descriptor_number_starts_afresh(in_backend):
    def body():
        for _ in range(20):
            a, b = socket.socketpair()
            with a, b:
                assert wait_readable(a, 0.0005) is False
                b.send(b"x")
                assert wait_readable(a, 1) is True

    in_backend(body)


def test_several_tasklets_wait_for_one_descriptor(in_backend):
    def body():
        a, b = socket.socketpair()
        with a, b:
            waiters = [spawn(wait_readable, a, 5) for _ in range(3)] + [spawn(wait_writable, a, 5)]
            sleep(0.01)
            b.send(b"x")
            assert [waiter.result() for waiter in waiters] == [True] * 4

    in_backend(body)


def test_a_regular_file_is_always_ready(tmp_path):
    with open(tmp_path / "file", "w+b") as file:
        assert wait_readable(file, 1) is True


def test_a_closed_descriptor_is_an_error(in_backend):
    def body():
        reading, writing = os.pipe()
        closed = fcntl.fcntl(reading, fcntl.F_DUPFD, 500)  # a number that nobody else gets meanwhile
        for each in (reading, writing, closed):
            os.close(each)
        with pytest.raises(OSError):
            if wait_readable(closed, 1):  # select reports it as ready, so that the caller meets the error
                os.read(closed, 1)
        with pytest.raises(OSError):
            wait_readable(-1)

    in_backend(body)
