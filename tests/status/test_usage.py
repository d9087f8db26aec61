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
