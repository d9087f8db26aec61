"""Code that holds the loop is named: the C function, how often, how long, where, and what would cure it."""

import ctypes
import importlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import zlib
from types import SimpleNamespace

import pytest

import syncless
from syncless import debug
from syncless.tools import blockers
from syncless.tools.blockers import Blockers, Stall
from syncless.tools.knownlibraries import LIBRARIES
from tests.kernel import needs_stacks
from tests.waiting import eventually

native_stack = pytest.importorskip(
    "syncless._core.nativestack", reason="stacks are read on Linux only"
).native_stack

LIBC = ctypes.CDLL(None)
DATA = bytes(1_000_000)
EXTENSION = """
#include <Python.h>
#include <unistd.h>
static int __attribute__((noinline)) waits(int us) { return usleep(us) + 1; }
static PyObject *sleep_in_c(PyObject *self, PyObject *us) {
    int ms = (int)PyLong_AsLong(us), done;
    Py_BEGIN_ALLOW_THREADS
    done = waits(ms);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(done);
}
static PyMethodDef methods[] = {{"sleep", sleep_in_c, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_parts", NULL, -1, methods};
PyMODINIT_FUNC PyInit__parts(void) { return PyModule_Create(&definition); }
"""
"""Its functions are static, as those of most extension modules."""
LIBRARY = "/usr/lib/libmariadb.so.3"


def stall(*frames):
    return Stall(0.1, "", "app.py:1 in run()", list(frames))


@needs_stacks
def test_c_function_that_another_thread_is_in_is_found():
    thread = threading.Thread(target=LIBC.usleep, args=(400_000,))
    thread.start()
    found = set()
    while thread.is_alive():
        found.update(native_stack(thread.ident, thread.native_id) or [])
    thread.join()
    assert any("sleep" in (name or "") and "libc" in path for name, path in found), found


def test_nothing_is_known_of_a_thread_that_does_not_exist():
    assert native_stack(threading.get_ident(), 2**30) is None


def test_computation_in_python_is_told_from_c():
    reports = []
    with debug.Watchdog(20, report=lambda seconds, stack: reports.append(stack)):
        count = 0
        while not reports:  # no call of C at all: one look must not meet it
            count += 1
    assert "it computes in Python" in reports[0] and "in C: " not in reports[0]


def look_until_unknown(threads_that_look):
    """Reads this thread's stack in others, while it computes in C, until one of them cannot."""

    def look():
        while None not in seen:
            seen.append(native_stack(main, number))

    main, number, seen = threading.get_ident(), threading.get_native_id(), []
    threads = [threading.Thread(target=look) for _ in range(threads_that_look)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        zlib.crc32(DATA)


@needs_stacks
def test_stack_is_not_read_by_a_signal_that_the_program_handles():
    before = signal.signal(signal.SIGURG, lambda *_: None)
    try:
        look_until_unknown(1)
    finally:
        signal.signal(signal.SIGURG, before)


@needs_stacks
def test_stacks_are_read_one_at_a_time():
    look_until_unknown(2)
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL


FORKED_MEANWHILE = """
import os, signal, sys, threading, zlib
from syncless._core.nativestack import native_stack

DATA = bytes(1_000_000)

def is_asked():
    with open("/proc/self/status") as status:
        caught = next(line for line in status if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> signal.SIGURG - 1 & 1

def compute():
    while True:
        zlib.crc32(DATA)

def look(thread, number):
    while not children:
        native_stack(thread, number)

def fork():
    while not is_asked():
        pass
    child = os.fork()
    if child:
        children.append(child)
        return
    signal.alarm(20)    # nobody else would end it
    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    while native_stack(thread.ident, thread.native_id) is None or is_asked():
        pass
    os._exit(7)

children = []
threads = [threading.Thread(target=fork)]
threads.append(threading.Thread(target=look, args=(threading.get_ident(), threading.get_native_id())))
for thread in threads:
    thread.start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])   # it does not answer
while not children:
    zlib.crc32(DATA)
print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
"""


@needs_stacks
def test_child_that_is_forked_while_a_stack_is_read_reads_stacks():
    command = [sys.executable, "-c", FORKED_MEANWHILE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.stdout == "7\n", done.stderr


def test_stack_that_cannot_be_read_is_not_said_to_be_a_computation():
    unread = Stall(0.1, "", "app.py:1 in run()", None)
    assert "if it computes, " in unread.cure and "if it waits, " in unread.cure
    assert unread.blocker == "app.py:1 in run()" and "in C: " not in unread.text


@needs_stacks
def test_tasklet_without_python_code_is_told_by_its_c_function():
    reports = []
    with debug.Watchdog(20, report=lambda seconds, stack: reports.append(stack)):
        while not reports:  # a busy machine may not look at once
            syncless.spawn(time.sleep, 0.1).join()
            syncless.sleep(0)
    assert "in C: " in reports[0] and ", a tasklet without Python code\n" in reports[0], reports


IN_TASKLET = """
import syncless
from syncless import debug
reports = []
def watch():
    with debug.Watchdog(20, report=lambda seconds, stack: reports.append(stack)):
        while not reports:
            pass
syncless.spawn(watch).join()
print("in watch" in reports[0] or reports[0])
"""


def test_watchdog_of_a_tasklet_reports_under_the_patch(tmp_path):
    (tmp_path / "program.py").write_text(IN_TASKLET)
    command = [sys.executable, "-m", "syncless", "run", str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.stdout == "True\n", done.stderr


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


def waits_in(*paths, call="__poll"):
    """A stall in libc, called by objects: the innermost first."""
    return stall((call, "/lib/libc.so.6"), *((None, path) for path in paths))


def test_wait_of_a_library_is_cured_by_patching_its_package(monkeypatch):
    monkeypatch.setattr(sys, "path", ["/env/grpc/site-packages", "/env"])
    extension = "/env/grpc/site-packages/MySQLdb/_mysql.cpython-311-x86_64-linux-gnu.so"
    found = stall(
        ("__poll", "/lib/libc.so.6"), ("pvio_wait", LIBRARY), ("mysql_real_query", LIBRARY), (None, extension)
    )
    assert found.blocker == "mysql_real_query in libmariadb.so.3, app.py:1 in run()"
    assert found.cure == 'patch_native("MySQLdb")'


@pytest.mark.parametrize(
    ("package", "path"),
    [
        ("psycopg2", "psycopg2/_psycopg.cpython-311-x86_64-linux-gnu.so"),
        ("ldap", "_ldap.cpython-311-x86_64-linux-gnu.so"),
        ("zmq", "zmq/backend/cython/_zmq.abi3.so"),
        ("unknown", "unknown/parts/_waits.abi3.so"),
        ("_waits", "_waits.cpython-311-x86_64-linux-gnu.so"),
    ],
)
def test_cure_names_the_package_that_a_program_imports(monkeypatch, package, path):
    monkeypatch.setattr(sys, "path", ["/site-packages"])
    assert waits_in(LIBRARY, f"/site-packages/{path}").cure == f'patch_native("{package}")'


def test_cure_in_a_project_whose_folder_is_called_syncless(monkeypatch):
    site = "/home/syncless/site-packages"
    monkeypatch.setattr(sys, "path", ["/home/syncless", site])
    extension = f"{site}/MySQLdb/_mysql.cpython-311-x86_64-linux-gnu.so"
    monkeypatch.setattr(
        blockers, "native_stack", lambda thread, number: [("poll", "/libc.so.6"), (None, extension)]
    )
    frames = blockers._c_functions(0, 0)
    assert stall(*frames).cure == 'patch_native("MySQLdb")'


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("libmariadb.so.3", "MySQLdb"),
        ("libmysqlclient.so.21", "MySQLdb"),
        ("libpq.so.5", "psycopg2"),
        ("libpq-e8a033dd.so.5.16", "psycopg2"),
        ("libcurl-gnutls.so.4", "pycurl"),
    ],
)
def test_cure_names_the_imported_module_where_the_stack_shows_only_its_library(monkeypatch, file, module):
    for name in ("MySQLdb", "psycopg2", "pycurl"):
        monkeypatch.setitem(sys.modules, name, sys)
    assert waits_in(f"/usr/lib/{file}").cure == f'patch_native("{module}")'
    monkeypatch.delitem(sys.modules, module)
    assert waits_in(f"/usr/lib/{file}").cure == f'patch_native("{file}")'


@pytest.mark.parametrize(
    ("path", "cure"),
    [
        (
            "apsw/__init__.cpython-311-x86_64-linux-gnu.so",
            'patch_all(offload=["apsw.Connection", "apsw.Cursor"])',
        ),
        (
            "confluent_kafka/cimpl.cpython-311-x86_64-linux-gnu.so",
            "patch_all(), whose area `drivers` ",
        ),
        ("grpc/_cython/cygrpc.cpython-311-x86_64-linux-gnu.so", "patch_all(), whose area `drivers` "),
        (
            "lib-dynload/_sqlite3.cpython-311-x86_64-linux-gnu.so",
            "patch_all(), under which other tasklets run ",
        ),
        ("lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so", "patch_all() for Python itself"),
        ("lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so", "below ctypes: @offload, "),
        ("libssl.so.3", "@offload, patch_all(offload=[...])"),
    ],
)
@pytest.mark.parametrize("call", ["__poll", "nanosleep"])
def test_cure_is_never_what_patch_native_refuses(monkeypatch, path, cure, call):
    monkeypatch.setattr(sys, "path", ["/site-packages"])
    found = waits_in("/lib/libsqlite3.so.0", f"/site-packages/{path}", call=call).cure
    if path.startswith("lib"):  # called by Python, or a part of it
        found = waits_in(f"/site-packages/{path}", call=call).cure
    assert cure in found and 'patch_native("' not in found


def test_each_library_that_is_refused_has_a_cure_where_python_code_can_use_it():
    for row in LIBRARIES:
        is_module = ".so" not in row.name
        assert bool(row.instead) == (row.verdict == "refused" and is_module), row.name


def test_other_causes_have_other_cures():
    waits = stall(("pthread_cond_wait", "/lib/libc.so.6"), ("poll_workers", "/usr/lib/libworkers.so.1"))
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


def test_cure_that_is_in_force_is_not_named(monkeypatch):
    patches = SimpleNamespace(is_patched=lambda area: True)
    monkeypatch.setitem(sys.modules, "syncless.patches", patches)
    waits = stall(("clock_nanosleep", "/lib/libc.so.6"))
    assert "it waits: " in waits.cure and "patch_all()" not in waits.cure
    hashes = stall(
        ("SHA256_Update", "/lib/libcrypto.so.3"),
        (None, "/lib/lib-dynload/_hashlib.cpython-313-x86_64-linux-gnu.so"),
    )
    assert "computes in C" in hashes.cure and "cpu=True" not in hashes.cure


@pytest.mark.realtime("a thread looks at C code that really sleeps, and guesses which function it is in")
@needs_stacks
def test_blockers_are_counted_with_their_times():
    found = Blockers(20)
    assert "nothing blocked the loop" in found.report()

    def both():
        return "2 times" in found.report()

    found.start()
    try:
        for _ in range(2):
            LIBC.usleep(100_000)
            syncless.sleep(0.03)
        assert eventually(both), found.report()
    finally:
        found.stop()
    # its stack is read word by word, and one of an earlier call may be taken for the innermost
    assert " in libc" in found.report() and "test_blockers.py" in found.report()


def test_calls_of_the_same_line_are_one_row_whatever_function_a_look_met(monkeypatch):
    reports = []

    class Watch:
        def __init__(self, seconds, report, to_the_end):
            reports.append(report)

        def stop(self):
            pass

    monkeypatch.setattr(blockers, "Watch", Watch)
    found = Blockers()
    found.start()
    extension = "/site/_mysql.cpython-311-x86_64-linux-gnu.so"
    query = stall(("__poll", "/lib/libc.so.6"), ("mysql_real_query", LIBRARY), (None, extension))
    ping = stall(("recv", "/lib/libc.so.6"), ("mysql_ping", LIBRARY), (None, extension))
    other = stall()._replace(line="app.py:7 in think()")
    for seconds, seen in (0.3, query), (0.25, ping), (0.5, other), (0.1, query), (0.05, query):
        reports[0](seen._replace(seconds=seconds), False)
        reports[0](seen._replace(seconds=seconds, looks=(seen._replace(seconds=seconds),)), True)
    found.stop()
    _, first, cure, second, _ = found.report().splitlines()
    assert first.split(maxsplit=2) == ["0.700", "s", "4 times, at most 0.300 s: " + query.blocker]
    assert cure.strip() == f"fix: {query.cure}"
    assert second.endswith("once, at most 0.500 s: app.py:7 in think()")


def function_at(line, name):
    """The frame of a function that stands at this line of a program."""
    scope = {}
    exec(compile("\n" * (line - 1) + f"def {name}(): yield", "app.py", "exec"), scope)
    return scope[name]().gi_frame


def test_time_of_a_hold_is_booked_on_each_place_that_was_seen(monkeypatch):
    query, spin, spin_on, helper = (
        function_at(3, "query"),
        function_at(7, "spin"),
        function_at(8, "spin"),
        function_at(20, "helper"),
    )
    in_c = [("usleep", "/lib/libc.so.6")]
    looks = [  # the time for which the loop is held, and the place
        (0.05, query, in_c),
        (0.30, query, in_c),
        (0.40, spin, []),
        (0.50, spin_on, []),
        (0.52, helper, []),
        (0.60, query, in_c),
        (0.625, spin, []),
        (0.0, query, []),
    ]

    class Loop:
        held = 0
        thread_id = threading.get_ident()

        def held_for(self):
            return self.held

    class Beside:
        def __init__(self, look):
            self.look = look

        def start(self):
            pass

        def stop(self):
            return True

    loop = Loop()
    monkeypatch.setattr(blockers, "current_loop", lambda: loop)
    monkeypatch.setattr(blockers, "SideThread", Beside)
    monkeypatch.setattr(blockers, "wait_readable", lambda descriptors, seconds: set())
    found = Blockers(50)
    found.start()
    for held, frame, c_functions in looks:
        loop.held = held
        monkeypatch.setattr(blockers, "_c_functions", lambda thread, number, found=c_functions: found)
        monkeypatch.setattr(
            blockers, "_current_frames", lambda frame=frame: {threading.get_ident(): frame}, raising=True
        )
        found._watch._beside.look(0)
    monkeypatch.undo()
    rows = found.report().splitlines()[1::2]
    assert [row.split(": ")[0].split(maxsplit=2)[::2] for row in rows] == [
        ["0.400", "once, at most 0.400 s"],  # with the helper, which was seen for 0.02 s
        ["0.225", "once, at most 0.225 s"],
    ]
    assert "in query()" in rows[0] and "in spin()" in rows[1]


@pytest.mark.realtime("a thread looks at C code that really sleeps, and guesses which function it is in")
@needs_stacks
def test_watchdog_names_the_c_function_and_the_cure():
    reports = []
    with debug.Watchdog(20, report=lambda seconds, stack: reports.append(stack)):
        syncless.sleep(0)
        LIBC.usleep(150_000)
        syncless.sleep(0.01)
    assert "test_blockers.py" in reports[0]
    assert "in C: " in reports[0] and "sleep in libc" in reports[0] and "fix: " in reports[0]


@pytest.fixture
def sleeper(tmp_path, monkeypatch):
    """An installed package `sleeper`, whose function sleep() calls an extension module."""
    compiler, include = shutil.which("gcc") or shutil.which("cc"), sysconfig.get_path("include")
    if compiler is None or not os.path.exists(f"{include}/Python.h"):
        pytest.skip("needs a C compiler, and the headers of this Python")
    package = tmp_path / "site-packages" / "sleeper"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from sleeper import _parts\ndef sleep(us):\n    return _parts.sleep(us)\n"
    )
    (tmp_path / "parts.c").write_text(EXTENSION)
    made = str(package / f"_parts{sysconfig.get_config_var('EXT_SUFFIX')}")
    options = ["-shared", "-fPIC", "-O2", f"-I{include}", "-o", made]
    subprocess.run([compiler, *options, str(tmp_path / "parts.c")], check=True)
    monkeypatch.syspath_prepend(str(package.parent))
    yield importlib.import_module("sleeper")
    del sys.modules["sleeper"], sys.modules["sleeper._parts"]


@pytest.mark.realtime("a thread looks at C code that really sleeps, and guesses which function it is in")
@needs_stacks
def test_extension_module_is_named_with_the_line_of_the_program(sleeper):
    found = Blockers(20)
    found.start()
    syncless.sleep(0.001)
    sleeper.sleep(150_000)
    found.stop()
    assert 'fix: patch_native("sleeper")' in found.report()
    assert "sleeper/__init__.py:3 in sleep(), called from " in found.report()
    assert "test_blockers.py:" in found.report()


@pytest.mark.realtime("a thread looks at C code that really sleeps, and guesses which function it is in")
@needs_stacks
def test_program_tells_at_its_end_what_blocked(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import ctypes\ndef blocks():\n    ctypes.CDLL(None).usleep(200_000)\nblocks()\n")
    command = [sys.executable, "-m", "syncless", "run", "--blockers", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "once, at most 0." in done.stderr and f"{program}:3 in blocks()" in done.stderr
    assert "sleep in libc" in done.stderr
