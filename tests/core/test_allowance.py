"""Processors and memory that a process may use: by the files of control groups (real ones where the machine
lets a test make some), and by the processors that the scheduler may choose."""

import contextlib
import os
import pathlib
import subprocess
import sys
import threading

import pytest

from syncless._core import allowance
from syncless._core.allowance import Allowance
from syncless._core.calls.threads import ThreadPool
from tests.waiting import eventually

MANY = 1000
V2 = "31 24 0:27 {root} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "33 25 0:28 {root} /sys/fs/cgroup/{name} rw,nosuid shared:9 - cgroup cgroup rw,{options}\n"
MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def system(tmp_path, monkeypatch):
    """system({file: text}) -> what a machine of many processors allows that has these files."""
    monkeypatch.setattr(allowance, "_affinity", lambda pid: set(range(MANY)))

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Allowance(str(tmp_path))

    return write


def v2(group, root="/", **files):
    return {
        "proc/self/cgroup": f"0::{group}\n",
        "proc/self/mountinfo": "1 1 0:1 / /proc rw - proc proc rw\n" + V2.format(root=root),
        **{
            f"sys/fs/cgroup/{name.replace('__', '/').replace('_', '.')}": text for name, text in files.items()
        },
    }


def v1(group, root="/", **files):
    names = "cpu,cpuacct", "memory"
    groups = ("9:cpuset:/x", f"5:cpu,cpuacct:{group}", f"4:memory:{group}", "1:name=systemd:/x", "0::/x")
    return {
        "proc/self/cgroup": "".join(f"{line}\n" for line in groups),
        "proc/self/mountinfo": "".join(V1.format(root=root, name=name, options=name) for name in names),
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }


OF_TWO = {"a": "4096", "a/b": "8192"}
CPU = {"cpu,cpuacct/cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("files", "processors", "memory"),
    [
        ({}, MANY, MACHINE),
        (v2("/", cpu_max="max 100000\n", memory_max="max\n"), MANY, MACHINE),
        (v2("/", cpu_max="200000 100000\n", memory_max="1048576\n"), 2, 1048576),
        (v2("/", cpu_max="150000 100000\n"), 2, MACHINE),
        (v2("/", cpu_max="1000 100000\n"), 1, MACHINE),
        (v2("/", cpu_max="200000\n", memory_max="\n"), MANY, MACHINE),
        # a group in a group: the least of them
        (v2("/pod/app", pod__app__cpu_max="max 1000", pod__cpu_max="3000 1000", pod__memory_max="7"), 3, 7),
        (v2("/pod/app", pod__app__cpu_max="100000 50000", pod__cpu_max="300000 100000"), 2, MACHINE),
        (v2("/pod/app", pod__application__cpu_max="100000 50000"), MANY, MACHINE),
        # a mount that shows only a part of the groups, as in a container
        (v2("/pod/app", "/pod/app", cpu_max="400000 100000", pod__cpu_max="1 1"), 4, MACHINE),
        (v2("/pod/app/inner", "/pod/app", inner__cpu_max="400000 100000"), 4, MACHINE),
        (v2("/../other", "/", cpu_max="500000 100000"), 5, MACHINE),
        (v2("/docker/1", "/docker/2", cpu_max="600000 100000"), 6, MACHINE),
        (v1("/", **CPU, **{"cpu,cpuacct/cpu.cfs_quota_us": "-1\n"}), MANY, MACHINE),
        (v1("/", **CPU, **{"cpu,cpuacct/cpu.cfs_quota_us": "250000\n"}), 3, MACHINE),
        (v1("/", **{"memory/memory.limit_in_bytes": "9223372036854771712\n"}), MANY, MACHINE),
        (v1("/docker/1", "/docker/1", **{"memory/memory.limit_in_bytes": "8192\n"}), MANY, 8192),
        (v1("/a/b", **{f"memory/{a}/memory.limit_in_bytes": n for a, n in OF_TWO.items()}), MANY, 4096),
        ({**v2("/"), "proc/self/mountinfo": "31 24 0:27 /", "proc/self/cgroup": "0::\n\n:"}, MANY, MACHINE),
    ],
)  # fmt: skip
def test_control_groups(system, files, processors, memory):
    allowed = system(files)
    assert (allowed.processors(), allowed.memory()) == (processors, memory)


SOME = "some avg10=1.00 avg60=0.50 avg300=0.10 total=2500000\n"
FULL = "full avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n"


@pytest.mark.parametrize(
    ("files", "pressure"),
    [
        ({}, {}),
        (v2("/"), {}),
        (v1("/", **{"memory/memory.pressure": SOME}), {"memory": {"some": 2.5}}),
        (
            v2("/pod", pod__cpu_pressure=SOME + FULL, cpu_pressure=SOME, io_pressure=FULL),
            {"cpu": {"some": 2.5, "full": 0.5}, "io": {"full": 0.5}},
        ),
        (v2("/", cpu_pressure="some avg10=0.00\n"), {"cpu": {}}),
    ],
)
def test_pressure_is_that_of_the_nearest_group_that_tells(system, files, pressure):
    assert system(files).pressure() == pressure


def test_a_mount_whose_name_has_a_space(system):
    files = v2("/")
    files["proc/self/mountinfo"] = V2.format(root="/").replace("/sys/fs/cgroup", r"/sys/fs/my\040cgroup")
    assert system({**files, "sys/fs/my cgroup/cpu.max": "100000 100000"}).processors() == 1


def test_limits_are_read_again(system, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(allowance, "_monotonic", lambda: now[0])
    allowed = system(v2("/", cpu_max="200000 100000", memory_max="100"))
    assert (allowed.processors(), allowed.memory()) == (2, 100)
    system({"sys/fs/cgroup/cpu.max": "max 100000", "sys/fs/cgroup/memory.max": "200"})
    assert (allowed.processors(), allowed.memory()) == (2, 100)
    now[0] = allowance.SECONDS
    assert (allowed.processors(), allowed.memory()) == (MANY, 200)


@contextlib.contextmanager
def group(controller):
    """A control group of the machine's own: a function that writes its files."""
    lists = Allowance()._folders(controller)
    for top in lists:
        new = pathlib.Path(top, f"syncless-test-{os.getpid()}")
        name = {"cpu": "cpu.max", "memory": "memory.max"}[controller]
        old = {"cpu": "cpu.cfs_quota_us", "memory": "memory.limit_in_bytes"}[controller]
        try:
            new.mkdir()
        except OSError:
            continue
        try:
            if (new / name).exists() or (new / old).exists():
                yield lambda file, text, new=new: (new / file).write_text(text)
                return
        finally:
            assert eventually(lambda new=new: not (new / "cgroup.procs").read_text()), "it has processes"
            new.rmdir()
    pytest.skip(f"this machine lets no test make a control group with {controller}")


ASK = """
import os, sys
from syncless._core import allowance
for line in sys.stdin:
    allowance._own._read_at = float("-inf")
    print(allowance.processors(), allowance.memory(), flush=True)
"""


def test_real_control_groups_that_change_while_a_process_runs():
    with contextlib.ExitStack() as stack:
        cpu, memory = stack.enter_context(group("cpu")), stack.enter_context(group("memory"))
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )

        def ask():
            process.stdin.write("\n")
            process.stdin.flush()
            return [int(word) for word in process.stdout.readline().split()]

        def limit(processors, size):
            try:
                cpu("cpu.max", f"{processors}00000 100000")
            except OSError:
                cpu("cpu.cfs_quota_us", f"{processors}00000")
            try:
                memory("memory.max", f"{size}")
            except OSError:
                memory("memory.limit_in_bytes", f"{size}")

        before = ask()
        limit(1, 1 << 29)
        cpu("cgroup.procs", f"{process.pid}")
        memory("cgroup.procs", f"{process.pid}")
        assert ask() == [1, 1 << 29]
        limit(before[0] + 5, 1 << 28)
        assert ask() == [before[0], 1 << 28]
        process.stdin.close()


def test_a_pool_follows_its_size():
    sizes = [3]
    pool = ThreadPool(lambda: sizes[0])
    gate, running, most = threading.Semaphore(0), [], []

    def call():
        running.append(None)
        most.append(len(running))
        gate.acquire()
        running.pop()

    for _ in range(6):
        pool.start(call)
    assert eventually(lambda: len(running) == 3)
    sizes[0] = 1
    for _ in range(3):
        gate.release()
    assert eventually(lambda: pool._threads == 1 and len(running) == 1)
    sizes[0] = 2
    pool.start(call)
    assert eventually(lambda: len(running) == 2)
    for _ in range(4):
        gate.release()
    assert eventually(lambda: not running and not pool._backlog)
    assert max(most) == 3
