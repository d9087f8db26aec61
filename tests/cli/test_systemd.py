"""Messages of the command to a service manager: the tests listen in its place."""

import os
import signal
import socket
import subprocess

import pytest

from syncless.server.program.process import ServiceManager
from tests.cli.test_loading import HELLO, command, environment
from tests.waiting import eventually


class Manager:
    """Starts a service as systemd would, and notes what it says."""

    def __init__(self, folder, *arguments, watchdog=0):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(folder / "notify"))
        self.sock.setblocking(False)
        self.messages = []
        more = {"NOTIFY_SOCKET": str(folder / "notify")}
        if watchdog:
            more["WATCHDOG_USEC"] = str(watchdog)
        line = command("hello:app", "--bind", "127.0.0.1:0", *arguments)
        self.process = subprocess.Popen(line, cwd=folder, env=environment(**more), stdout=subprocess.DEVNULL)

    def heard(self):
        while True:
            try:
                self.messages.append(self.sock.recv(4096).decode().split("\n"))
            except BlockingIOError:
                return self.messages

    def hears(self, word):
        return eventually(lambda: any(word in message for message in self.heard()), 60)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.process.kill()
        self.process.wait()
        self.sock.close()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hello.py").write_text(HELLO)
    return tmp_path


@pytest.mark.parametrize("workers", ["0", "2"])
def test_service_manager_hears_ready_reloading_and_stopping(folder, workers):
    with Manager(folder, "--workers", workers) as manager:
        assert manager.hears("READY=1")
        assert ("STATUS=2 workers" if workers == "2" else "STATUS=Serving") in manager.messages[0]
        manager.messages.clear()
        manager.process.send_signal(signal.SIGHUP)
        assert manager.hears("READY=1")
        first, *_, last = manager.messages
        assert first[0] == "RELOADING=1" and first[1].startswith("MONOTONIC_USEC=") and last[0] == "READY=1"
        manager.messages.clear()
        manager.process.terminate()
        assert manager.hears("STOPPING=1") and manager.process.wait(60) == 0
        assert [message[0] for message in manager.heard()] == ["STOPPING=1"]


@pytest.mark.parametrize("workers", ["0", "1"])
def test_watchdog_is_told_as_often_as_it_wants(folder, workers):
    with Manager(folder, "--workers", workers, watchdog=200_000) as manager:
        assert eventually(lambda: manager.heard().count(["WATCHDOG=1"]) >= 5, 60)


def test_broken_application_is_never_ready(folder):
    (folder / "hello.py").write_text("raise ValueError\n")
    with Manager(folder) as manager:
        assert manager.process.wait(60) == 2 and manager.heard() == []


def test_missing_service_manager_harms_no_request(folder):
    with Manager(folder, watchdog=100_000) as manager:
        assert manager.hears("READY=1")
        os.unlink(folder / "notify")
        manager.process.send_signal(signal.SIGHUP)
        manager.process.terminate()
        assert manager.process.wait(60) == 0


def test_watchdog_of_another_process_is_left_alone():

    own = {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "2000000"}
    assert (
        ServiceManager(own).interval
        == ServiceManager({**own, "WATCHDOG_PID": str(os.getpid())}).interval
        == 1.0
    )
    assert (
        ServiceManager({**own, "WATCHDOG_PID": "1"}).interval
        == ServiceManager({"WATCHDOG_USEC": "2000000"}).interval
        == 0
    )
