"""Schedules of programs that use other packages: each finds a fault of the program, and none where there is
none."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from tests.contrib.test_pytest_plugin import ROOT, run_pytest

BEGIN = """
import asyncio, os, queue, threading, time, unittest
from concurrent.futures import ThreadPoolExecutor
import pytest

def in_two(function, *args):
    threads = [threading.Thread(target=function, args=args) for _ in range(2)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""

FLASK = """
from flask import Flask

def sell(lock):
    app, stock = Flask("shop"), [1]
    @app.post("/buy")
    def buy():
        with lock:
            if not stock[0]:
                return "sold out"
            stock[0] -= 1
            return "yours"
    answers = []
    in_two(lambda: answers.append(app.test_client().post("/buy").text))
    assert sorted(answers) == ["sold out", "yours"]

def test_bad(): sell(threading.Semaphore(2))
def test_good(): sell(threading.Lock())
"""

DJANGO = """
import tempfile, django
from django.conf import settings
FILE = os.path.join(tempfile.mkdtemp(), "db")
settings.configure(ROOT_URLCONF=__name__, SECRET_KEY="x", ALLOWED_HOSTS=["*"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FILE}})
django.setup()
from django.db import connection, connections, models
from django.http import HttpResponse
from django.test import Client
from django.urls import path

class Counter(models.Model):
    value = models.IntegerField(default=0)
    class Meta: app_label = "counters"

def bad(request):
    counter = Counter.objects.get(pk=1)
    counter.value += 1
    counter.save()
    return HttpResponse()

def good(request):
    Counter.objects.filter(pk=1).update(value=models.F("value") + 1)
    return HttpResponse()

urlpatterns = [path("bad", bad), path("good", good)]

@pytest.fixture
def table():
    with connection.schema_editor() as editor:
        editor.create_model(Counter)
    Counter.objects.create(pk=1)
    yield
    with connection.schema_editor() as editor:
        editor.delete_model(Counter)

def count(address):
    def visit():
        assert Client().get(address).status_code == 200
        connections.close_all()
    in_two(visit)
    assert Counter.objects.get(pk=1).value == 2

def test_bad(table): count("/bad")
def test_good(table): count("/good")
"""

SQLALCHEMY = """
from sqlalchemy import Integer, create_engine
from sqlalchemy.orm import Session, declarative_base, mapped_column
from sqlalchemy.pool import StaticPool

Base = declarative_base()
class Account(Base):
    __tablename__ = "accounts"
    id = mapped_column(Integer, primary_key=True)
    balance = mapped_column(Integer)

def with_table(engine):
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Account(id=1, balance=0))
        session.commit()
    return engine

@pytest.fixture
def engine(tmp_path):
    engine = with_table(create_engine(f"sqlite:///{tmp_path / 'db'}"))
    yield engine
    engine.dispose()

def deposit(engine):
    with Session(engine) as session:
        session.get(Account, 1).balance += 10
        session.commit()

def deposit_in_a_statement(engine):
    with Session(engine) as session:
        session.query(Account).filter_by(id=1).update({"balance": Account.balance + 10})
        session.commit()

def total(engine, function):
    in_two(function, engine)
    with Session(engine) as session:
        return session.get(Account, 1).balance

def test_bad_row(engine): assert total(engine, deposit) == 20
def test_good(engine): assert total(engine, deposit_in_a_statement) == 20
def test_bad_session():
    memory = {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    engine = with_table(create_engine("sqlite://", **memory))
    session = Session(engine)
    def deposit():
        session.get(Account, 1).balance += 10
        session.commit()
    in_two(deposit)
    assert session.get(Account, 1).balance == 20
    session.close()
    engine.dispose()
"""

QUEUE = """
def drain(get):
    waiting, seen = queue.Queue(), []
    for number in range(3):
        waiting.put(number)
    def work():
        while not waiting.empty():
            seen.append(get(waiting))
    in_two(work)
    assert sorted(each for each in seen if each is not None) == [0, 1, 2]

def get_now(waiting):
    try:
        return waiting.get_nowait()
    except queue.Empty:
        return None

def test_bad(): drain(queue.Queue.get)
def test_good(): drain(get_now)
"""

FUTURES = """
pool = ThreadPoolExecutor(2)

def count(executor, lock):
    counter = [0]
    def add():
        with lock:
            counter[0] += 1
    for each in [executor.submit(add) for _ in range(2)]:
        each.result()
    assert counter == [2]

def test_bad(): count(pool, threading.Semaphore(2))
def test_good(): count(pool, threading.Lock())
def test_good_map(): assert list(pool.map(abs, range(5))) == [0, 1, 2, 3, 4]
def test_bad_own_pool():
    with ThreadPoolExecutor() as own:
        count(own, threading.Semaphore(2))
"""

ASYNCIO = """
async def in_order(ordered):
    seen, first = [], asyncio.Event()
    async def fetch(name):
        await asyncio.sleep(1)
        if ordered and name == "b":
            await first.wait()
        seen.append(name)
        first.set()
    await asyncio.gather(fetch("a"), fetch("b"))
    assert seen == ["a", "b"]

async def leak():
    free = ["connection"]
    async def ask():
        connection = free.pop()
        await asyncio.sleep(5)
        free.append(connection)
    try:
        await asyncio.wait_for(ask(), 5)
    except asyncio.TimeoutError:
        pass
    assert free

def test_bad_order(): asyncio.run(in_order(False))
def test_good(): asyncio.run(in_order(True))
def test_bad_timeout(): asyncio.run(leak())
"""

UNITTEST = """
class Test(unittest.TestCase):
    def setUp(self):
        self.count, self.lock = 0, threading.Lock()
    def add(self):
        self.count += 1
    def add_locked(self):
        with self.lock:
            self.count += 1
    def test_bad(self):
        in_two(self.add)
        self.assertEqual(self.count, 2)
    def test_good(self):
        in_two(self.add_locked)
        self.assertEqual(self.count, 2)
"""

PYTEST = """
@pytest.fixture(params=[1, 2])
def counter(request):
    counter = [0]
    yield counter
    assert counter[0] in (0, request.param, 2 * request.param)
    counter.clear()

def test_bad(counter, request):
    def add(): counter[0] += request.node.callspec.params["counter"]
    in_two(add)
    assert counter[0] % 4 == 0 or counter[0] == 2 * request.node.callspec.params["counter"]

@pytest.mark.parametrize("step", [1, 10])
def test_good(step, tmp_path, capsys):
    in_two(print, step)
    assert capsys.readouterr().out.split() == [str(step)] * 2
    (tmp_path / "file").touch(exist_ok=False)
"""

PROGRAMS = {
    "flask": (FLASK, 1, 1),
    "django": (DJANGO, 1, 1),
    "sqlalchemy": (SQLALCHEMY, 2, 1),
    "queue": (QUEUE, 1, 1),
    "concurrent.futures": (FUTURES, 2, 2),
    "asyncio": (ASYNCIO, 2, 1),
    "unittest": (UNITTEST, 1, 1),
    "pytest": (PYTEST, 2, 2),
}


def needs(package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


@pytest.mark.parametrize("package", PROGRAMS)
def test_faults_are_found(package, tmp_path):
    needs(package)
    program, bad, good = PROGRAMS[package]
    status, said = run_pytest(tmp_path, BEGIN + program, "--schedules=200", "-k", "bad")
    assert status == 1 and f"{bad} failed, {good} deselected" in said, said
    assert said.count("to repeat it: --seed") == bad, said
    status, said = run_pytest(tmp_path, BEGIN + program, "--schedules=20", "-k", "good")
    assert status == 0 and f"{good} passed" in said, said


@pytest.mark.wide
@pytest.mark.parametrize(
    ("package", "which"),
    {"flask": "bad", "sqlalchemy": "bad_session", "concurrent.futures": "bad", "asyncio": "bad"}.items(),
)
def test_a_failure_repeats(package, which, tmp_path):
    """The database is in memory: one in a file has its calls in OS threads, which a busy machine delays."""
    needs(package)
    program = BEGIN + PROGRAMS[package][0]
    _, said = run_pytest(tmp_path, program, "--schedules=200", "-x", "-k", which)
    name = re.search(r"^_+ (test_\w+) _+$", said, re.MULTILINE)[1]
    seed, shortest = re.search(r"--seed (\d+), or --seed (\S+)", said).groups()
    status, again = run_pytest(
        tmp_path, program, f"test_it.py::{name}", "--schedules=1", f"--seed={shortest}"
    )
    assert status == 1 and lines_of(again) == lines_of(said) != [], said + again
    status, again = run_pytest(tmp_path, program, f"test_it.py::{name}", "--schedules=1", f"--seed={seed}")
    assert status == 1 and f"--seed {seed}, or --seed" in again, again


def lines_of(said):
    return re.findall(r"^[A-Z]+\d* \(.*", said, re.MULTILINE)


def test_processes_of_xdist_run_schedules(tmp_path):
    needs("xdist")
    status, said = run_pytest(tmp_path, BEGIN + PYTEST, "--schedules=50", "-p", "xdist.plugin", "-n2")
    assert status == 1 and "2 failed, 2 passed" in said and "to repeat it: --seed" in said, said


@pytest.mark.parametrize("method", ["signal", "thread"])
def test_pytest_timeout_has_real_time(method, tmp_path):
    needs("pytest_timeout")
    program = BEGIN + "def test_good(): in_two(time.sleep, 3600)"
    status, said = run_pytest(
        tmp_path,
        program,
        "-p",
        "pytest_timeout",
        "--schedules=50",
        "--timeout=300",
        f"--timeout-method={method}",
    )
    assert status == 0, said


@pytest.mark.parametrize("core", ["ctrace", "sysmon"])
def test_coverage_is_told_of_where_it_keeps_threads_from_being_stopped(core, tmp_path):
    needs("coverage")
    if core == "sysmon" and sys.version_info < (3, 12):
        pytest.skip("sys.monitoring is new in Python 3.12")
    (tmp_path / "test_it.py").write_text(BEGIN + UNITTEST)
    (tmp_path / ".coveragerc").write_text(f"[run]\ncore = {core}\n")
    options = "-q -p pytest_syncless -p no:cacheprovider --schedules=200"
    done = subprocess.run(
        [sys.executable, "-m", "coverage", "run", "-m", "pytest", *options.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    told = "threads are not stopped between bytecodes: a debugger or coverage has set a trace function"
    if sys.version_info < (3, 12):
        assert done.returncode == 0 and told in done.stdout, done.stdout + done.stderr
    else:
        assert done.returncode == 1 and told not in done.stdout, done.stdout + done.stderr
        assert "self.count += 1" in done.stdout, done.stdout


HYPOTHESIS = """
from hypothesis import given, settings, strategies as st
from syncless.testing import schedules

numbers = st.lists(st.integers(0, 100), max_size=4)
settings.register_profile("slow", deadline=None, derandomize=True, database=None)
settings.load_profile("slow")

def add_all(numbers, lock):
    total = [0]
    def add(number):
        with lock:
            total[0] += number
    threads = [threading.Thread(target=add, args=(number,)) for number in numbers]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert total[0] == sum(numbers)
"""
PLUGIN = "-p", "_hypothesis_pytestplugin"


def test_hypothesis_shrinks_an_example_and_its_schedule(tmp_path):
    needs("hypothesis")
    program = """
@given(numbers)
def test_bad(numbers): add_all(numbers, threading.Semaphore(9))

@given(numbers)
def test_good(numbers): add_all(numbers, threading.Lock())
"""
    status, said = run_pytest(tmp_path, BEGIN + HYPOTHESIS + program, *PLUGIN, "--schedules=200")
    assert status == 1 and "1 failed, 1 passed" in said, said
    assert re.search(r"numbers=\[(?=[01, ]*1)[01](, [01]){1,3}\]", said), said
    assert "threads are not stopped" not in said, said
    seed = re.search(r"to repeat it: --seed (\d+)", said)[1]
    status, said = run_pytest(
        tmp_path, BEGIN + HYPOTHESIS + program, *PLUGIN, "--schedules=200", "-k", "bad", f"--seed={seed}"
    )
    assert status == 1 and f"fails with seed {seed}," in said, said


def test_hypothesis_draws_the_seed_of_schedules(tmp_path):
    needs("hypothesis")
    program = """
@given(numbers, st.integers(0, 200))
def test_bad(numbers, seed): schedules(1, seed=seed)(add_all)(numbers, threading.Semaphore(9))
"""
    status, said = run_pytest(tmp_path, BEGIN + HYPOTHESIS + program, *PLUGIN)
    assert status == 1 and re.search(r"numbers=\[(?=[01, ]*1)[01](, [01]){1,3}\]", said), said
    assert "interrupted: total[0] += number" in said, said
