"""Code that holds the loop is named: the C function, how often, how long, where, and what would cure it."""

import ctypes
import subprocess
import sys
import threading
import time

import pytest

import syncless
from syncless import debug
from syncless.tools import blockers
from syncless.tools.blockers import Blockers, Stall
from tests.waiting import eventually

native_stack = pytest.importorskip(
    "syncless._core.nativestack", reason="stacks are read on Linux only"
).native_stack

LIBC = ctypes.CDLL(None)
LIBRARY = "/usr/lib/libmariadb.so.3"


def stall(*frames):
    return Stall(0.1, "", "app.py:1 in run()", list(frames))


def test_c_function_that_another_thread_is_in_is_found():
    thread = threading.Thread(target=LIBC.usleep, args=(400_000,))
    thread.start()
    found = set()
    while thread.is_alive():
        found.update(native_stack(thread.ident, thread.native_id))
    thread.join()
    assert any("sleep" in (name or "") and "libc" in path for name, path in found), found


def test_thread_that_does_not_exist_has_no_c_functions():
    assert native_stack(threading.get_ident(), 2**30) == []


def test_computation_in_python_is_told_from_c():
    reports = []
    with debug.Watchdog(20, report=lambda seconds, stack: reports.append(stack)):
        count = 0
        while not reports:  # no call of C at all: one look must not meet it
            count += 1
    assert "it computes in Python" in reports[0] and "in C: " not in reports[0]


@pytest.mark.parametrize("name", [None, "clock_gettime"])
def test_reading_the_clock_is_no_computation_in_c(monkeypatch, name):
    frames = [(name, "linux-vdso.so.1"), (None, "/lib/libc.so.6")]
    monkeypatch.setattr(blockers, "native_stack", lambda thread, number: frames)
    reports = []
    with debug.Watchdog(20, report=lambda seconds, stack: reports.append(stack)):
        while not reports:
            pass
    assert "it computes in Python" in reports[0] and "in C: " not in reports[0]


def test_wait_is_not_cut_short_by_the_look():
    with debug.Watchdog(10, report=lambda seconds, stack: None):
        started = time.monotonic()
        LIBC.usleep(150_000)
        assert time.monotonic() - started >= 0.15
        syncless.sleep(0)


def test_wait_of_a_library_is_cured_by_patching_it():
    found = stall(
        ("__poll", "/lib/libc.so.6"), ("pvio_wait", LIBRARY), ("mysql_real_query", LIBRARY),
        (None, "/site/_mysql.cpython-311-x86_64-linux-gnu.so"),
    )  # fmt: skip
    assert found.blocker == "mysql_real_query in libmariadb.so.3, app.py:1 in run()"
    assert found.cure == 'patch_native("libmariadb.so.3")'


def test_other_causes_have_other_cures():
    waits = stall(("pthread_cond_wait", "/lib/libc.so.6"), ("rd_kafka_poll", "/usr/lib/librdkafka.so.1"))
    assert "thread of its own" in waits.cure
    computes = stall(("deflate", "/lib/libz.so.1"))
    assert "computes in C" in computes.cure and computes.blocker.startswith("deflate in libz.so.1")
    hashes = stall(
        ("SHA256_Update", "/lib/libcrypto.so.3"),
        (None, "/lib/lib-dynload/_hashlib.cpython-313-x86_64-linux-gnu.so"),
    )
    assert "patch_all(cpu=True)" in hashes.cure
    assert "computes in Python" in stall().cure and stall().blocker == "app.py:1 in run()"
    assert "patch_all()" in stall(("clock_nanosleep", "/lib/libc.so.6")).cure


@pytest.mark.realtime("a thread looks at C code that really sleeps, and guesses which function it is in")
def test_blockers_are_counted_with_their_times():
    found = Blockers(20)
    assert "nothing held the loop" in found.report()

    def both():
        """A look at the stack may name usleep one time, and what it calls the other time."""
        return "2 times" in found.report() or found.report().count(" once, ") == 2

    found.start()
    try:
        for _ in range(2):
            LIBC.usleep(100_000)
            syncless.sleep(0.03)
        assert eventually(both), found.report()
    finally:
        found.stop()
    assert "sleep in libc" in found.report() and "test_blockers.py" in found.report()


@pytest.mark.realtime("a thread looks at C code that really sleeps, and guesses which function it is in")
def test_watchdog_names_the_c_function_and_the_cure():
    reports = []
    with debug.Watchdog(20, report=lambda seconds, stack: reports.append(stack)):
        syncless.sleep(0)
        LIBC.usleep(150_000)
        syncless.sleep(0.01)
    assert "test_blockers.py" in reports[0]
    assert "in C: " in reports[0] and "sleep in libc" in reports[0] and "cure: " in reports[0]


@pytest.mark.realtime("a thread looks at C code that really sleeps, and guesses which function it is in")
def test_program_tells_at_its_end_what_blocked(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import ctypes, time\ndef blocks():\n    ctypes.CDLL(None).usleep(200_000)\n"
        "blocks()\ntime.sleep(0.05)\n"
    )
    command = [sys.executable, "-m", "syncless", "run", "--blockers", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert "once, at most 0." in done.stderr and f"{program}:3 in blocks()" in done.stderr
    assert "sleep in libc" in done.stderr
