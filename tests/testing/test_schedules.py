"""Schedules of a test: what they find, that a seed repeats them, and what is reported."""

import pathlib
import re

import pytest

from tests.contrib.test_pytest_plugin import run_pytest
from tests.programs import run_python

EXAMPLES = pathlib.Path(__file__).parent.parent.parent / "examples" / "testing"

BEGIN = """
import queue, sys, threading, time
import syncless
from syncless.patches import patch_all
patch_all()
from syncless.testing.search import Run, Search, encode, parse
from syncless.testing import schedules
from syncless.testing.virtualtime import clocks_replaced

def search(test, count=200, seed=None):
    "The Search, after it has looked."
    def attempt(run):
        try:
            run.call(test)
        except Exception as error:
            run.error = error
        return run.error is not None
    found = Search(attempt, count, seed)
    with clocks_replaced():
        found.failed = found.find()
    return found

def in_threads(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

def lose_an_update():
    count = 0
    def add():
        nonlocal count
        count += 1
    in_threads(add, add)
    assert count == 2
"""


def run(program, tmp_path):
    """In a file of its own, whose lines the report can show."""
    (tmp_path / "program.py").write_text(BEGIN + program)
    return run_python(f"import runpy; runpy.run_path({str(tmp_path / 'program.py')!r})")


def test_a_lost_update_is_found_within_a_hundred_schedules(tmp_path):
    program = """
found = search(lose_an_update, 100)
assert found.failed and isinstance(found.last.error, AssertionError)
print(found.report())
"""
    said = run(program, tmp_path)
    assert "is interrupted: count += 1" in said
    assert re.search(r"the shortest schedule that fails has [12] unusual choices?: ", said)


def test_a_failing_seed_gives_the_same_lines_each_time(tmp_path):
    program = """
found = search(lose_an_update)
for seed in (found.seed, encode(found.shortest)):
    lines = set()
    for _ in range(10):
        again = search(lose_an_update, seed=seed)
        assert again.failed and again.runs == 1
        lines.add("\\n".join(again.last.interleaving.lines))
    assert len(lines) == 1, lines
    print(found.seed, encode(found.shortest), *lines, sep="\\n")
"""
    first = run(program, tmp_path)
    assert first.count("is interrupted") >= 2
    assert run(program, tmp_path) == first, "nor does it depend on the process"


def test_a_seed_repeats_each_choice(tmp_path):
    program = """
def test():
    items, got = queue.Queue(2), []
    def put():
        for number in range(3):
            items.put(number)
            time.sleep(number)
    def get():
        for _ in range(3):
            try:
                got.append(items.get(timeout=1))
            except queue.Empty:
                got.append(None)
    in_threads(put, get, put, get)
    results.append(got)

results = []
with clocks_replaced():
    for seed in range(60):
        taken = []
        for _ in range(2):
            run = Run(parse(seed))
            run.call(test)
            taken.append(list(run.choices.taken))
        assert taken[0] == taken[1] and results[-1] == results[-2], seed
        given = Run(parse(encode(taken[0])))
        given.call(test)
        assert given.choices.taken == taken[0] and results[-1] == results[-2], (seed, taken)
print(len({str(each) for each in results}))
"""
    assert int(run(program, tmp_path)) > 2


def test_a_deadlock_fails_and_says_who_waits_for_whom(tmp_path):
    program = """
def test():
    one, two = threading.Lock(), threading.Lock()
    def forth():
        with one, two: pass
    def back():
        with two, one: pass
    in_threads(forth, back)

found = search(test)
assert type(found.last.error).__name__ == "Deadlock"
print(found.last.error)
print(found.report())
"""
    said = run(program, tmp_path)
    assert re.search(r"deadlock: .* \((forth|back)\) waits for .* \((forth|back)\) waits for ", said)
    assert re.search(
        r"[BC] \(forth\) program.py:\d+ waits for lock of [BC] \(back\): with one, two: pass", said
    )


def test_a_circle_of_threads_that_nobody_joins_fails(tmp_path):
    program = """
def test():
    one, two = threading.Lock(), threading.Lock()
    def hold(first, second):
        with first:
            time.sleep(1)
            with second: pass
    for pair in (one, two), (two, one):
        threading.Thread(target=hold, args=pair, daemon=True).start()
    time.sleep(10)

found = search(test)
print(type(found.last.error).__name__, found.runs, len(syncless.tasklets()))
"""
    assert run(program, tmp_path).split() == ["Deadlock", "2", "1"]


def test_an_error_of_a_thread_fails(tmp_path):
    program = """
found = search(lambda: in_threads(lambda: 1 / 0))
print(repr(found.last.error))
found = search(lambda: syncless.spawn(lambda: [][0]).join())
print(repr(found.last.error))
"""
    said = run(program, tmp_path)
    assert said == "ZeroDivisionError('division by zero')\nIndexError('list index out of range')\n"


def test_green_threads_of_eventlet_that_a_test_leaves_are_ended(tmp_path):
    program = """
from syncless import eventlet
found = search(lambda: eventlet.spawn(time.sleep, 10), 2)
assert not found.failed and len(syncless.tasklets()) == 1, found.last.error
"""
    run(program, tmp_path)


def test_plain_tasklets_switch_where_they_wait_and_nowhere_else(tmp_path):
    program = """
def test():
    count = 0
    def add():
        nonlocal count
        count += 1
    for each in [syncless.spawn(add) for _ in range(3)]:
        each.join()
    assert count == 3

assert not search(test).failed

def test():
    count = 0
    def add():
        nonlocal count
        before = count
        syncless.sleep(0)
        count = before + 1
    for each in [syncless.spawn(add) for _ in range(3)]:
        each.join()
    assert count == 3

assert search(test).failed
"""
    run(program, tmp_path)


def test_a_call_that_need_not_wait_lets_others_run_at_times(tmp_path):
    program = """
def test():
    "Each lock is free, and the sum is read under one and written under another."
    count, lock = 0, threading.Lock()
    def add():
        nonlocal count
        with lock:
            before = count
        with lock:
            count = before + 1
    for each in [syncless.spawn(add) for _ in range(2)]:
        each.join()
    assert count == 2

found = search(test)
assert found.failed
print(encode(found.shortest))
"""
    assert re.fullmatch(r"c\d+\.\d\n", run(program, tmp_path))


def test_a_timeout_that_races_with_a_result_goes_either_way(tmp_path):
    program = """
def test():
    answers = queue.Queue()
    def answer():
        time.sleep(5)
        answers.put(1)
    threading.Thread(target=answer).start()
    try:
        seen.add(answers.get(timeout=5))
    except queue.Empty:
        seen.add(None)

seen = set()
assert not search(test, 1).failed
assert seen == {1}, "usually the result comes first"
search(test)
assert seen == {1, None}
"""
    run(program, tmp_path)


def test_a_test_without_choices_runs_once(tmp_path):
    program = """
ran = []
found = search(lambda: ran.append(1))
assert not found.failed and len(ran) == 1
assert not search(lambda: ran.append(1) or in_threads(int)).failed and len(ran) > 100
"""
    run(program, tmp_path)


def test_who_asks_again_and_again_does_not_keep_others_from_running(tmp_path):
    program = """
def spin():
    done = []
    def wait():
        time.sleep(1)
        done.append(1)
    threading.Thread(target=wait).start()
    while not done:
        pass

def ask():
    done = []
    def wait():
        time.sleep(1)
        done.append(1)
    threading.Thread(target=wait).start()
    while not done:
        time.sleep(0)

def look():
    until = time.monotonic() + 1
    while time.monotonic() < until:
        pass

for test in spin, ask, look:
    assert not search(test, 10).failed
"""
    run(program, tmp_path)


def test_the_decorator_raises_the_error_with_a_report(tmp_path):
    program = """
import unittest

class Test(unittest.TestCase):
    @schedules(200)
    def test(self):
        lose_an_update()

try:
    Test("test").test()
except AssertionError as error:
    print(*getattr(error, "__notes__", ()), sep="\\n", file=sys.stderr)
else:
    sys.exit("it has not failed")
ran = []
schedules(200, seed=3)(lambda: ran.append(1))()
assert len(ran) == 2, "the usual schedule comes first, as in a search"
"""
    (tmp_path / "program.py").write_text(BEGIN + program)
    said = run_python(
        f"import runpy, sys; sys.stderr = sys.stdout; runpy.run_path({str(tmp_path / 'program.py')!r})"
    )
    assert "to repeat it: --seed " in said


def test_a_bytecode_without_a_line_belongs_to_the_one_before():
    from types import SimpleNamespace

    from syncless.testing.interleaving import where

    code = test_wrong_seeds_are_refused.__code__
    start, _, line = list(code.co_lines())[-1]
    frame = SimpleNamespace(f_code=code, f_lineno=None, f_lasti=start)
    assert where(frame, "waits").startswith(f"test_schedules.py:{line} waits: ")


def test_wrong_seeds_are_refused(tmp_path):
    program = """
for seed in "x", "o1", "o1.1-", "":
    try:
        parse(seed)
    except ValueError as error:
        print(error)
"""
    said = run(program, tmp_path)
    assert said.splitlines()[0] == "a seed is a number, or such as 'o3.1-b40.2', not 'x'"
    assert len(said.splitlines()) == 4


FIXTURES = """
import threading, time
import pytest

made = []

@pytest.fixture
def fresh():
    made.append(1)
    yield []
    made.append(-1)

@pytest.fixture(scope="module")
def shared():
    yield []
    assert sum(made) == 0

@pytest.mark.schedules(20)
def test_fixtures_are_made_anew(fresh, shared):
    assert sum(made) == 1
    threads = [threading.Thread(target=fresh.append, args=(1,)) for _ in range(2)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert fresh == [1, 1]
    shared.append(1)

def test_those_of_the_module_are_kept(shared):
    assert len(shared) == 20 and made.count(1) == 20

@pytest.mark.schedules(20)
@pytest.mark.parametrize("number", [1, 2])
def test_skipped(number):
    pytest.skip("not here")

def count():
    global counted
    counted += 1

def test_bad():
    global counted
    counted = 0
    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert counted == 2
"""


def test_fixtures_of_each_run(tmp_path):
    status, said = run_pytest(tmp_path, FIXTURES)
    assert "3 passed, 2 skipped" in said and status == 0, said


def test_the_option_runs_all_tests_so_and_the_seed_repeats_one(tmp_path):
    status, said = run_pytest(tmp_path, FIXTURES, "--schedules=200", "-k", "bad")
    assert status == 1 and "assert 1 == 2" in said, said
    assert "test_it.py:37 is interrupted: counted += 1" in said, said
    for seed in re.search(r"to repeat it: --seed (\d+), or --seed (\S+)", said).groups():
        again = [
            run_pytest(tmp_path, FIXTURES, "--schedules=200", "-k", "bad", f"--seed={seed}") for _ in "ab"
        ]
        lines = [re.findall(r"^[ABC] \(.*", text, re.MULTILINE) for _, text in again]
        assert again[0][0] == 1 and lines[0] and lines[0] == lines[1], again
        assert f"fails with seed {seed}, the schedule number 1" in again[0][1]


def test_fixtures_for_time_and_network(tmp_path):
    program = """
import time
import urllib.request

def test_time(syncless_time):
    began = time.monotonic()
    time.sleep(100)
    syncless_time(50)
    assert round(time.monotonic() - began, 3) == 150

def app(environ, start_response):
    start_response("200 OK", [])
    return [b"hello"]

def test_network(syncless_network, syncless_server):
    syncless_network.host("api", "10.0.0.1")
    syncless_server(app, host="10.0.0.1", port=80)
    assert urllib.request.urlopen("http://api/").read() == b"hello"
"""
    for arguments in ([], ["--tasklets"], ["--schedules=2", "-k", "time"]):
        status, said = run_pytest(tmp_path, program, *arguments)
        assert status == 0, said


def test_a_project_keeps_its_own_option_seed(tmp_path):
    (tmp_path / "conftest.py").write_text(
        'def pytest_addoption(parser): parser.addoption("--seed", type=int, default=3)'
    )
    program = "def test_seed(request): assert request.config.getoption('seed') == 7"
    status, said = run_pytest(tmp_path, program, "--schedules=2", "--seed=7")
    assert status == 0, said


@pytest.mark.parametrize(
    ("name", "lines"),
    {
        "lost_update": ["is interrupted: self.balance += amount", "assert 10 == 20"],
        "deadlock": ["Deadlock: nothing can go on", "waits for lock of"],
        "leak": ["unusual choice: t0.", "assert 1 == 2"],
        "order_twice": [
            "unusual choice: n",
            "the network resets a connection to 10.0.0.1:80",
            "assert 2 <= 1",
        ],
        "crash": ["point 2: test_", "may let others run: self.log.put("],
    }.items(),
)
def test_an_example_of_the_guide_fails(name, lines, tmp_path):
    status, said = run_pytest(tmp_path, (EXAMPLES / f"test_{name}.py").read_text())
    assert status == 1
    for line in lines:
        assert line in said, said
