"""Every test ends at the counts of what the engine owns with which it began, and inside a time limit."""

import compileall
import faulthandler
import gc
import importlib.util
import os
import signal
import sys
import threading

import pytest
from _pytest import timing

import syncless
from syncless._core.poll.backends import BACKENDS
from tests import virtualtime
from tests.wide import is_wide, leaves_out

pytest_plugins = ["tests.plugin"]

# A shell that starts this in the background has it ignore Ctrl-C, and all that the tests start inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as nohup has it: a handler is not inherited
    signal.signal(signal.SIGHUP, lambda number, frame: None)

sys.dont_write_bytecode = False  # pytest takes a quarter of a minute to rewrite all assertions
# A module that a test writes twice within a second may be taken for the one that was compiled.
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

TEST_SECONDS = float(os.environ.get("SYNCLESS_TEST_SECONDS", "180"))


def pytest_configure(config):
    if virtualtime.AVAILABLE and not virtualtime.preloaded():
        config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
    distributes = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    virtualtime.preload(for_children=bool(distributes))  # its workers cannot start themselves again
    timing.perf_counter = virtualtime.real_seconds  # of tests on the virtual clock it says what they cost


OF_PROGRAMS = """
syncless aiohttp amqp billiard celery engineio eventlet gevent granian gunicorn kombu opentelemetry
prometheus_client prompt_toolkit sentry_sdk socketio sqlalchemy
""".split()
"""Packages that the programs of tests import, and most test processes do not."""


def pytest_sessionstart(session):
    """Hundreds of tests start an interpreter, where bytecode is not written, and pip writes none either."""
    if not hasattr(session.config, "workerinput"):
        for name in OF_PROGRAMS:
            found = importlib.util.find_spec(name)
            for folder in (found and found.submodule_search_locations) or ():
                compileall.compile_dir(folder, quiet=2)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items):
    # they search all objects, which are many more once other tests have run in the process
    items.sort(key=lambda item: item.path.name != "test_leaks.py")
    for item in items:
        if is_wide(item.path, getattr(item, "originalname", "")):
            item.add_marker("wide")


def pytest_ignore_collect(collection_path, config):
    """A file of which -m leaves out all is not read: each of the processes that run tests would read it."""
    return True if leaves_out(config.option.markexpr) and is_wide(collection_path) else None


def pytest_collection_finish():
    """Each test ends with a look for garbage: not among what was there before the first of them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def left_by_others():
    """Nor among what other modules have left, such as the reports of their tests."""
    gc.collect()
    gc.freeze()


def too_long(number, frame):
    """Raises in the main tasklet; ends the process if that never has its turn."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(10)
    faulthandler.dump_traceback()
    raise AssertionError(f"the test is not over after {TEST_SECONDS} s of real time")


@pytest.fixture(autouse=True)
def clock(request):
    """A test that is marked `virtual_time` runs on a clock of its own, from its first fixture to its last."""
    marker = request.node.get_closest_marker("virtual_time")
    if marker is None or marker.args == (False,) or request.node.get_closest_marker("realtime"):
        yield "real"
    elif not virtualtime.AVAILABLE:
        pytest.skip("the clock can be replaced where glibc is")
    else:
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(int(TEST_SECONDS))
        with virtualtime.virtual_time():
            yield "virtual"
        signal.alarm(0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def nothing_to_report(request):
    """No tasklet ends by an exception, unless the test asks for the fixture `reports`."""
    if "reports" in request.fixturenames:
        yield
        return
    seen = []
    previous = syncless.set_error_handler(lambda where, error: seen.append((where, error)))
    yield
    syncless.set_error_handler(previous)
    assert not seen, "a tasklet ended by an exception that nobody caught"


@pytest.fixture(autouse=True)
def balanced_census(clock):
    """Nothing is left behind: no tasklet, timer, waiter, watched descriptor."""
    loop = syncless.current_loop()
    before = loop.census()
    seconds = TEST_SECONDS if clock == "real" else 1e6  # which come at once if nothing else does
    with syncless.Timeout(seconds, AssertionError(f"the test took longer than {seconds} s")):
        yield
    gc.collect()
    for _ in range(200):
        if loop.census() == before:
            break
        syncless.sleep(0.005)
    assert loop.census() == before
    assert syncless.current().name == "main"


@pytest.fixture
def reports():
    """(where, exception) of each exception that nobody caught."""
    seen = []
    previous = syncless.set_error_handler(lambda where, error: seen.append((where, error)))
    yield seen
    syncless.set_error_handler(previous)


def run_in_loop(backend, function, *args):
    """function(*args) in a fresh OS thread, whose loop uses that backend; returns its result and its loop's
    census."""
    outcome = []

    def main():
        try:
            outcome.append(
                (function(*args), syncless.current_loop().backend, syncless.current_loop().census())
            )
        except BaseException as error:
            outcome.append(error)

    previous = os.environ.get("SYNCLESS_LOOP")
    os.environ["SYNCLESS_LOOP"] = backend
    try:
        thread = threading.Thread(target=main)
        thread.start()
        syncless.run_in_thread(thread.join)
    finally:
        if previous is None:
            del os.environ["SYNCLESS_LOOP"]
        else:
            os.environ["SYNCLESS_LOOP"] = previous
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    result, used, census = outcome[0]
    assert used == backend
    assert census["parked"] == census["timers"] == census["awaited descriptors"] == 0
    return result


@pytest.fixture(params=list(BACKENDS))
def in_backend(request):
    """Runs a function under each backend."""
    return lambda function, *args: run_in_loop(request.param, function, *args)
