"""Numbers that each system tells in its own way."""

import os
import resource
import sys
from types import SimpleNamespace

import pytest

from syncless.server.status import reporter


@pytest.mark.parametrize(("platform", "unit"), [("darwin", 1), ("freebsd14", 1024)])
def test_memory_is_in_bytes(monkeypatch, platform, unit):
    """getrusage() tells bytes on macOS, and kilobytes elsewhere."""

    def no_proc(*_):
        raise FileNotFoundError

    monkeypatch.setattr(reporter, "open", no_proc, raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(resource, "getrusage", lambda _: SimpleNamespace(ru_maxrss=5000))
    assert reporter.memory() == 5000 * unit


class FakeLoop:
    idle = 0.0

    def idle_seconds(self):
        return self.idle


def test_utilization_is_that_of_the_last_seconds_of_the_busiest_loop(monkeypatch):
    now = 100.0
    monkeypatch.setattr(reporter, "time", SimpleNamespace(monotonic=lambda: now))
    used = reporter.Utilization(5)
    busy, idle = FakeLoop(), FakeLoop()
    assert used.of([busy, idle]) == 0.0  # no time has passed
    for share in (0.25, 0.75):
        for _ in range(10):
            now += 1
            busy.idle += 1 - share
            idle.idle += 1
            told = used.of([busy, idle])
            assert used.of([idle]) == 0.0
        assert told == pytest.approx(share)
    now += 5  # it stands still
    assert used.of([busy, idle, FakeLoop()]) == pytest.approx(1.0)  # and one is new
    busy.idle += 1000  # the clock of a sleep is read a little later
    assert used.of([busy]) == 0.0


def test_open_files_are_counted():
    before = reporter.open_files()
    fds = os.pipe()
    try:
        assert reporter.open_files() == before + 2
    finally:
        for fd in fds:
            os.close(fd)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="/dev/fd lists the descriptors, as on macOS")
def test_open_files_are_counted_without_proc(monkeypatch):
    before, listed = reporter.open_files(), os.listdir

    def no_proc(*_):
        raise FileNotFoundError

    monkeypatch.setattr(sys, "platform", "darwin")
    there = SimpleNamespace(
        stat=no_proc, listdir=lambda path: listed(path) if path == "/dev/fd" else no_proc()
    )
    monkeypatch.setattr(reporter, "os", there)
    assert abs(reporter.open_files() - before) <= 1
