"""Two servers in network namespaces of their own, as on two machines, behind HAProxy and on one Redis, which
is killed and started in the midst."""

import contextlib
import os
import pathlib
import shutil
import subprocess

import pytest

from tests.patches.servers import free_port, program, running
from tests.shared.daemon import Daemon
from tests.shared.test_redis_workers import CODE
from tests.shared.test_workers import Held, Stream
from tests.supervised import Program
from tests.waiting import eventually

HAPROXY = """
global
    maxconn 512
defaults
    mode http
    timeout connect 10s
    timeout client 600s
    timeout server 600s
"""
ENTRY = """
listen entry{number}
    bind 127.0.0.1:{port}
"""
NAMES = ("one", "two")


class Machine:
    """A network namespace that has one wire, to ours."""

    def __init__(self, name, number):
        net = f"198.18.{os.getpid() % 250}"  # RFC 2544: of tests, and of no network
        self.name, self.wire = f"syncless-{os.getpid()}-{name}", f"sl{os.getpid()}{name}"[:15]
        self.here, self.address = f"{net}.{4 * number + 1}", f"{net}.{4 * number + 2}"

    def begin(self):
        inside = ["ip", "-n", self.name]
        for command in (
            ["ip", "netns", "add", self.name],
            ["ip", "link", "add", self.wire, "type", "veth", "peer", "name", "eth0", "netns", self.name],
            ["ip", "addr", "add", f"{self.here}/30", "dev", self.wire],
            ["ip", "link", "set", self.wire, "up"],
            [*inside, "addr", "add", f"{self.address}/30", "dev", "eth0"],
            [*inside, "link", "set", "eth0", "up"],
            [*inside, "link", "set", "lo", "up"],
        ):
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                pytest.skip(f"this process may make no network namespace: {done.stderr.strip()}")

    def end(self):
        for command in (["ip", "link", "del", self.wire], ["ip", "netns", "del", self.name]):
            subprocess.run(command, stderr=subprocess.DEVNULL)


class Inside(Program):
    """A server on a machine."""

    def __init__(self, machine, folder, url):
        self.command = ("ip", "netns", "exec", machine.name, *Program.command)
        options = ["--workers", "2", "--shared", url, "-l", "shared_seconds=2"]
        super().__init__(folder, options, bind=f"{machine.address}:0")


class Entry:
    """A port of HAProxy."""

    get = Program.get

    def __init__(self):
        self.port = free_port()


@pytest.fixture
def machines():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    made = [Machine(name, number) for number, name in enumerate(NAMES)]
    try:
        for machine in made:
            machine.begin()
        yield made
    finally:
        for machine in made:
            machine.end()


@pytest.fixture
def daemon(machines):
    made = Daemon(*(machine.here for machine in machines), "--protected-mode", "no")
    yield made
    made.end()


@pytest.fixture
def entries(tmp_path, machines, daemon):
    """Ports of HAProxy: one for each server, and one for both in turn."""
    made = [Entry(), Entry(), Entry()]
    rows = []
    with contextlib.ExitStack() as opened:
        for machine, name in zip(machines, NAMES, strict=True):
            folder = pathlib.Path(tmp_path / name)
            folder.mkdir()
            (folder / "app.py").write_text(CODE.format(version=1))
            server = Inside(machine, folder, daemon.url.replace("127.0.0.1", machine.here))
            opened.callback(server.end)
            rows.append(f"    server {name} {machine.address}:{server.port}\n")
        chosen = [rows[:1], rows[1:], rows]
        text = [ENTRY.format(number=n, port=made[n].port) + "".join(chosen[n]) for n in range(3)]
        configuration = tmp_path / "configuration"
        configuration.write_text(HAPROXY + "".join(text))
        command = [program("haproxy"), "-db", "-q", "-f", str(configuration)]
        opened.enter_context(running(command, made[2].port))
        yield made


@pytest.mark.slow  # two servers of two workers, HAProxy and Redis
def test_servers_on_two_machines_are_one(entries, daemon):
    *each, both = entries
    assert [both.get("/add?all")[2] for _ in range(8)] == [str(number) for number in range(1, 9)]
    streams = [kind(entry, "news") for entry in each * 2 for kind in (Stream, Held)]
    for entry, name in zip(each, NAMES, strict=True):
        assert entry.get(f"/publish?news:20:{name}")[0] == 200
        for stream in streams:
            assert [stream.line() for _ in range(20)] == [f"{name} {number}" for number in range(20)]
    daemon.kill()
    for entry in each:
        assert entry.get("/tell")[2].startswith("Unavailable Redis at 198.18.")
        assert entry.get("/")[2] == "1"
    daemon.start()
    for entry in each:
        assert eventually(lambda entry=entry: entry.get("/tell")[2].isdecimal())

    def told_of_the_gap(stream):
        return stream.line() in ("lagged 0", "0")

    assert all(map(told_of_the_gap, streams))
    for entry, name in zip(each, NAMES, strict=True):
        assert entry.get(f"/publish?news:20:again-{name}")[0] == 200
        for stream in streams:
            assert [stream.line() for _ in range(20)] == [f"again-{name} {number}" for number in range(20)]
    assert int(both.get("/add?all")[2]) == 1
    for stream in streams:
        stream.close()
