"""Coverage, debuggers and profilers, as programs use them: they show what they show of plain Python."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from tests import needs
from tests.debugadapter import Debugger
from tests.programs import free_port, run_python

SECONDS = 120
SYNCLESS = ["-m", "syncless", "run"]
THREADS = """
import threading, time, queue
numbers = queue.Queue()
def put():
    for number in range(3):
        time.sleep(0.001)
        numbers.put(number)
    numbers.put(None)
def take():
    got = []
    while True:
        number = numbers.get()
        if number is None:
            break
        if number > 100:
            print("never")
        got.append(number)
    return got
def both():
    thread = threading.Thread(target=put)
    thread.start()
    got = take()
    thread.join()
    last = got
    return last
print(both())
"""
SERVER = """
import threading, time, urllib.request
from syncless import run_in_thread
from syncless.wsgi import Server
def app(environ, start_response):
    number = int(environ["PATH_INFO"][1:])
    time.sleep(0.001)
    if number > 1:
        body = b"many"
    else:
        body = b"few"
    start_response("200 OK", [])
    return [body]
async def asgi(scope, receive, send):
    import asyncio
    if scope["type"] != "http":
        return
    await asyncio.sleep(0.001)
    status = 200
    if scope["path"] == "/5":
        status = 404
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b"x"})
def get(server, number):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.address[1]}/{number}") as response:
        return response.read()
for each in app, asgi:
    with Server(each, port=0) as server:
        for number in range(3):
            run_in_thread(get, server, number)
"""


def execute(*words, folder, **options):
    command = [sys.executable, *words]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def measured(folder, words, program, *options):
    """What coverage says of the program: lines that never ran, branches that were never taken."""
    (folder / "program.py").write_text(program)
    coverage = ["-m", "coverage"]
    include = f"--include={folder}/program.py"
    execute(*coverage, "run", include, *options, *words, "program.py", folder=folder)
    execute(*coverage, "json", "-o", "result.json", folder=folder)
    (found,) = json.loads((folder / "result.json").read_text())["files"].values()
    return found["missing_lines"], found.get("missing_branches")


@pytest.mark.parametrize("branch", [(), ("--branch",)], ids=["lines", "branches"])
@pytest.mark.parametrize("concurrency", [(), ("--concurrency=thread,greenlet",)], ids=["default", "greenlet"])
def test_coverage_of_threads_is_that_of_plain_python(tmp_path, branch, concurrency):
    needs.module("coverage", "measures which lines run")
    lines, branches = measured(tmp_path, [], THREADS, *branch)
    assert lines == [16]
    assert measured(tmp_path, SYNCLESS, THREADS, *branch, *concurrency) == (lines, branches)


@pytest.mark.parametrize("patched", [(), tuple(SYNCLESS)], ids=["plain", "patched"])
def test_coverage_of_requests(tmp_path, patched):
    needs.module("coverage", "measures which lines run")
    (missing,) = [SERVER.splitlines().index("        status = 404") + 1]
    lines, branches = measured(tmp_path, patched, SERVER, "--branch")
    assert lines == [missing]
    assert branches == [[missing - 1, missing]]


# -- pdb -----------------------------------------------------------------------------------------------------

STEPS = """
import threading, time
def other():
    for number in range(1000):
        seen = number
        time.sleep(0)
def debugged():
    breakpoint()
    first = 1
    time.sleep(0.01)
    second = 2
    helper()
    return first + second
def helper():
    time.sleep(0.01)
threads = [threading.Thread(target=other) for _ in range(3)]
for thread in threads: thread.start()
one = threading.Thread(target=debugged)
one.start()
one.join()
print("the end")
"""


class Terminal:
    """A program at a pseudo-terminal."""

    def __init__(self, *words, folder):
        self.ours, theirs = pty.openpty()
        environ = {**os.environ, "TERM": "dumb", "PYTHON_COLORS": "0", "NO_COLOR": "1"}
        self.process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env=environ,
        )
        os.close(theirs)
        self.text = ""

    def until(self, word):
        """What it prints up to there."""
        while word not in self.text:
            assert select.select([self.ours], [], [], SECONDS)[0], self.text
            try:
                more = os.read(self.ours, 65536)
            except OSError:  # EIO: it has ended
                more = b""
            assert more, self.text
            self.text += more.decode(errors="replace")
        found, _, self.text = self.text.partition(word)
        return found

    def say(self, line):
        os.write(self.ours, line.encode() + b"\n")

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.ours)


def places(terminal, command, times):
    """Where pdb stops: the lines of the program."""
    found = []
    for _ in range(times):
        terminal.say(command)
        found += re.findall(r"-> (.*?)\r?\n", terminal.until("(Pdb) "))
    return found


@pytest.mark.parametrize("words", [(), tuple(SYNCLESS)], ids=["plain", "patched"])
def test_steps_of_pdb_stay_in_their_thread(tmp_path, words):
    (tmp_path / "program.py").write_text(STEPS)
    terminal = Terminal(*words, "program.py", folder=tmp_path)
    try:
        terminal.until("(Pdb) ")
        stops = places(terminal, "step", 7)
        for line in ("first = 1", "time.sleep(0.01)", "second = 2", "helper()", "def helper():"):
            assert line in stops or line == "first = 1", stops  # pdb of Python 3.13 stops at breakpoint()
        assert not any("number" in line for line in stops), stops
        terminal.say("continue")
        terminal.until("the end")
    finally:
        terminal.close()


TASKS = """
import asyncio, pdb, time
def count():
    time.sleep(0)
async def other():
    while True:
        count()
        await asyncio.sleep(0)
async def debugged():
    task = asyncio.ensure_future(other())
    await asyncio.sleep(0)
    pdb.Pdb(BACKEND).set_trace()
    first = 1
    await asyncio.sleep(0.01)
    second = 2
    await asyncio.to_thread(time.sleep, 0.01)
    third = 3
asyncio.run(debugged())
print("the end")
"""


@pytest.mark.parametrize("words", [(), tuple(SYNCLESS)], ids=["plain", "patched"])
@pytest.mark.parametrize("backend", ["settrace", "monitoring"])
def test_tasks_that_run_during_a_prompt_of_pdb_begin_no_other(tmp_path, words, backend):
    if backend == "monitoring" and sys.version_info < (3, 14):
        pytest.skip("pdb has used sys.monitoring since Python 3.14")
    argument = "" if sys.version_info < (3, 14) else f"backend={backend!r}"
    (tmp_path / "program.py").write_text(TASKS.replace("BACKEND", argument))
    terminal = Terminal(*words, "program.py", folder=tmp_path)
    try:
        terminal.until("(Pdb) ")
        stops = places(terminal, "next", 4)
        lines = ["first = 1", "await asyncio.sleep(0.01)", "second = 2"]
        lines += ["await asyncio.to_thread(time.sleep, 0.01)", "third = 3"]
        # since Python 3.13 the first stop is in set_trace()
        assert stops == (lines[:4] if stops[0] == lines[0] else lines[1:])
        terminal.say("continue")
        terminal.until("the end")
    finally:
        terminal.close()


# -- debugpy -------------------------------------------------------------------------------------------------

BREAKPOINTS = """
import time
def work(number):
    doubled = 2 * number
    time.sleep(0.001)
    return doubled
for number in range(3):
    work(number)
"""


REQUESTS = """
import asyncio, threading
from pathlib import Path
from syncless.patches import patch_all
patch_all()
import time
from syncless.wsgi import Server
arrived = []
def wsgi(environ, start_response):
    number = int(environ["PATH_INFO"][1:])
    arrived.append(number)
    while len(arrived) < 3:
        time.sleep(0.001)
    doubled = 2 * number
    body = str(doubled).encode()
    start_response("200 OK", [])
    return [body]
async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    number = int(scope["path"][1:])
    arrived.append(number)
    while len(arrived) < 3:
        WAIT
    doubled = 2 * number
    body = str(doubled).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
with Server(APPLICATION, port=0) as server:
    Path("new").write_text(str(server.address[1]))
    Path("new").rename("port")
    threading.Event().wait()
"""


@contextlib.contextmanager
def debugged(folder, *words, log=None, environ=None):
    needs.module("debugpy", "the debugger of VS Code")
    port = free_port()
    listen = ["-m", "debugpy", "--listen", f"127.0.0.1:{port}", "--wait-for-client"]
    if log is not None:
        listen += ["--log-to", str(log)]
    program = subprocess.Popen(
        [sys.executable, "-Xfrozen_modules=off", *listen, *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **(environ or {})},
    )
    try:
        with contextlib.closing(Debugger(port, SECONDS)) as debugger:
            yield debugger
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def all_stops(debugger, path):
    """At line 4 of the program, until it ends."""
    debugger.begin(path, [4])
    stops = []
    while (stop := debugger.stop()) is not None:
        stops.append(stop[0])
        debugger.go_on(stop[1])
    return stops


@pytest.mark.parametrize("words", [(), tuple(SYNCLESS)], ids=["plain", "patched"])
def test_debugpy_stops_at_each_breakpoint(tmp_path, words):
    path = tmp_path / "program.py"
    path.write_text(BREAKPOINTS)
    with debugged(tmp_path, *words, "program.py") as debugger:
        assert all_stops(debugger, path) == [("work", 4)] * 3


def first_true(look):
    """The first result that is true."""
    end = time.monotonic() + SECONDS
    while not (found := look()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


@pytest.mark.parametrize(
    ("application", "wait"),
    [("wsgi", ""), ("asgi", "await asyncio.sleep(0.001)"), ("asgi", "time.sleep(0.001)")],
    ids=["wsgi", "asgi", "asgi that blocks"],
)
def test_debugpy_stops_in_three_requests_at_once(tmp_path, application, wait):
    """debugpy tells of one of several threads that stop at the same time, and lets all go on together."""
    path = tmp_path / "program.py"
    program = REQUESTS.replace("APPLICATION", application).replace("WAIT", wait or "pass")
    path.write_text(program)
    lines = program.splitlines()
    stop = 1 + lines.index("    body = str(doubled).encode()", lines.index(program_line(lines, application)))
    seen, known, answers = {}, set(), []

    def get(number):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{number}", timeout=SECONDS) as response:
            answers.append(response.read())

    def standing():
        """All that have not been seen, when all of them stand somewhere."""
        others = (each for each, name in debugger.threads().items() if "Dummy" in name and each not in known)
        found = {each: top for each in others if (top := debugger.top_of(each)) and top[0][0] == application}
        return found if len(found) == 3 - len(seen) else None

    # the page on tools names it for Python 3.12 and later; it changes nothing before
    environ = {"PYDEVD_USE_SYS_MONITORING": "0"} if application == "asgi" else None
    with debugged(tmp_path, "program.py", environ=environ) as debugger:
        debugger.begin(path, [stop])
        first_true((tmp_path / "port").exists)
        port = int((tmp_path / "port").read_text())
        clients = [threading.Thread(target=get, args=(number,)) for number in range(3)]
        for client in clients:
            client.start()
        while len(seen) < 3:
            thread = debugger.wait("stopped")[1]["threadId"]
            for each, (place, values) in first_true(standing).items():
                if place[1] == stop:
                    seen[values["number"]] = values["doubled"]
                    known.add(each)
            debugger.go_on(thread)
        for client in clients:
            client.join()
    assert seen == {"0": "0", "1": "2", "2": "4"}
    assert sorted(answers) == [b"0", b"2", b"4"]


def program_line(lines, name):
    """The one that begins the function."""
    return next(line for line in lines if line.split("(")[0].endswith(f"def {name}"))


def test_debugpy_writes_its_log(tmp_path):
    """Its threads wait for files while they know of threads of ours."""
    path = tmp_path / "program.py"
    path.write_text(BREAKPOINTS)
    with debugged(tmp_path, *SYNCLESS, "program.py", log=tmp_path / "log") as debugger:
        assert all_stops(debugger, path) == [("work", 4)] * 3


# -- profilers -----------------------------------------------------------------------------------------------

PATCHED = """
from syncless.patches import patch_all
patch_all()
import threading, time
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="one at a time in a process since Python 3.12")
def test_cprofile_counts_the_calls_of_its_thread():
    program = f"""{PATCHED}
import cProfile, pstats
counts = {{}}
def busy():
    pass
def profiled(number):
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(number):
        busy()
        time.sleep(0.001)
    profile.disable()
    stats = pstats.Stats(profile).stats
    counts[number] = [entry[0] for key, entry in stats.items() if key[2] == "busy"]
threads = [threading.Thread(target=profiled, args=(number,)) for number in (2, 3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(counts)
"""
    assert run_python(program) == "{2: [2], 3: [3]}\n"


def test_pyinstrument_sees_the_function_that_takes_long(tmp_path):
    needs.module("pyinstrument", "a sampling profiler")
    program = """
import threading, time
def computes():
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
def waits():
    time.sleep(0.1)
thread = threading.Thread(target=waits)
thread.start()
computes()
thread.join()
"""
    (tmp_path / "program.py").write_text(program)
    execute("-m", "pyinstrument", "-r", "json", "-o", "result.json", *SYNCLESS, "program.py", folder=tmp_path)
    assert '"function": "computes"' in (tmp_path / "result.json").read_text()


def test_times_of_imports_are_printed(tmp_path):
    (tmp_path / "other.py").write_text("import time\ntime.sleep(0)\n")
    (tmp_path / "program.py").write_text("import other\n")
    command = [sys.executable, "-X", "importtime", *SYNCLESS, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert re.search(r"^import time: +\d+ \| +\d+ \| other$", done.stderr, re.M)
