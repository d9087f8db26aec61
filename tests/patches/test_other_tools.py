"""Tools that have put something of their own in the place of what is patched, or do so afterwards: waits stay
cooperative, and undoing the patch leaves the tools at work."""

import pytest

from tests import needs
from tests.programs import run_python, run_unchecked

BEGIN = """
import faulthandler, sys
faulthandler.dump_traceback_later(150, exit=True)
"""
MEET = """
from tests.patches.rendezvous import meet
assert meet() == [], meet()
"""
PATCH = "from syncless.patches import patch_all, unpatch; patch_all()\n"

WRAPPER = """
import importlib
def wrap(old, proxy):
    class Wrapper:
        "Stands in for a class, and makes its objects."
        __slots__ = ()
        def __call__(self, *args, **kwargs): return old(*args, **kwargs)
        def __mro_entries__(self, bases): return (old,)
        def __instancecheck__(self, thing): return isinstance(thing, old)
        def __getattribute__(self, name):
            if name == "__class__" and not proxy:
                return Wrapper
            if name == "__mro_entries__":
                return object.__getattribute__(self, name)
            return getattr(old, name)
    return Wrapper()
made = {}
for name in sys.argv[1:]:
    module, _, name = name.rpartition(".")
    module = importlib.import_module(module)
    old = getattr(module, name)
    new = {make}
    setattr(module, name, new)
    made[module, name] = new
"""
WRAPPERS = {
    "an object": "wrap(old, False)",
    "an object that says it is the class": "wrap(old, True)",
    "a subclass": "type(name, (old,), {'__module__': old.__module__, '__qualname__': old.__qualname__})",
}
CLASSES = """
threading.Condition threading.Event threading.Semaphore threading.BoundedSemaphore threading.Barrier
threading.Thread threading.Timer threading.local queue.Queue queue.LifoQueue queue.PriorityQueue
socket.socket subprocess.Popen ssl.SSLContext selectors.DefaultSelector
concurrent.futures.ThreadPoolExecutor
""".split()
SEALED = ["queue.SimpleQueue", "select.epoll"]
"""Classes that have no subclasses."""

TOOLS = {
    "wrapt": """
import wrapt
NAMES = ("threading.Thread.start", "threading.Condition.wait", "threading.Event.wait", "time.sleep",
    "threading.Event", "queue.Queue.get", "socket.socket.recv", "subprocess.Popen.wait", "os.read")
for name in NAMES:
    module, _, name = name.partition(".")
    wrapt.wrap_function_wrapper(module, name, lambda wrapped, _, args, kwargs: wrapped(*args, **kwargs))
""",
    "ddtrace": "import ddtrace.auto",
    "ddtrace, which loads threading anew": """
import os
os.environ["DD_UNLOAD_MODULES_FROM_SITECUSTOMIZE"] = "1"
import ddtrace.auto
""",
    "ddtrace's profiler of locks": """
from ddtrace.profiling.collector import threading as collectors
for name in ("Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition"):
    getattr(collectors, f"Threading{name}Collector")(tracer=None).start()
""",
    "newrelic": """
import newrelic.agent
newrelic.agent.initialize()
newrelic.agent.register_application(timeout=0.1)
""",
    "sentry_sdk": """
import sentry_sdk
sentry_sdk.init("http://key@127.0.0.1:9/1", traces_sample_rate=1.0, transport=lambda event: None)
""",
    "opentelemetry.instrumentation.threading": """
from opentelemetry.instrumentation.threading import ThreadingInstrumentor
ThreadingInstrumentor().instrument()
""",
    "elasticapm": "import elasticapm; elasticapm.instrument()",
    "freezegun": "import freezegun; freezegun.freeze_time('2020-01-01').start()",
    "freezegun, ticking": "import freezegun; freezegun.freeze_time('2020-01-01', tick=True).start()",
    "time_machine": "import time_machine; time_machine.travel('2020-01-01').start()",
    "pyfakefs": """
from pyfakefs.fake_filesystem_unittest import Patcher
from tests.patches.rendezvous import meet
with Patcher():
    assert meet("by_process") == []     # no program is in the file system
""",
    "pytest_socket": """
import pytest_socket
pytest_socket.disable_socket(allow_unix_socket=True)
""",
    "vcr": "import vcr; cassette = vcr.use_cassette('/nonexistent/cassette'); cassette.__enter__()",
}

THREADS = {"newrelic": "NR-Activate-Session"}
"""Tool -> its thread, which may be a tasklet."""
UNDO_BESIDE = """
try:
    unpatch()
except RuntimeError as error:
    assert "{thread}" in str(error), error
"""


def need(tool):
    name = tool.partition(",")[0].partition("'")[0]
    try:
        needs.module(name, f"runs beside {name}")
    except ModuleNotFoundError:  # the package that it would be in
        pytest.skip(f"runs beside {name}: pip install {name.replace('.', '-')}")


@pytest.mark.parametrize("kind", WRAPPERS)
def test_class_is_found_behind_what_stands_in_its_place(kind):
    """As a profiler of locks replaces them before the patch."""
    names = CLASSES if kind == "a subclass" else [*CLASSES, *SEALED]
    program = BEGIN + f"sys.argv[1:] = {names!r}\n" + WRAPPER.replace("{make}", WRAPPERS[kind]) + PATCH + MEET
    program += "unpatch()\nassert all(getattr(*where) is new for where, new in made.items())\n" + MEET
    assert run_python(program) == ""


def test_class_of_ours_is_made_though_what_stands_for_its_base_is_none():
    program = """
import threading
original = threading.Barrier
threading.Barrier = lambda *args: original(*args)
import syncless
assert issubclass(syncless.Barrier, original)
"""
    assert run_python(program) == ""


def test_what_stands_for_no_class_is_left_alone_with_a_warning():
    program = """
import warnings
from syncless.patches.registry import Globals, Methods, Patcher
patcher = Patcher("some", Globals(), Methods())
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    patcher.member(len, "wait", 1, "")
    patcher.member_in_place(len, "wait", 1, "")
patcher.undo()
assert [type(each.message) for each in told] == [RuntimeWarning] * 2, told
assert "wait() of <built-in function len> is not patched, because" in str(told[0].message), told[0]
"""
    assert run_python(program) == ""


def test_threads_are_started_and_joined_beside_a_debugger_that_starts_them():
    """As pydevd does: both modules have a function of its own, which calls the interpreter's."""
    program = """
import _thread, threading
def wrapper(original):
    def start(function, *args, **kwargs):
        begun.append(function)
        return original(function, *args, **kwargs)
    return start
begun, names = [], ("start_new_thread", "start_joinable_thread")
originals = {name: getattr(_thread, name) for name in names if hasattr(_thread, name)}
for name, original in originals.items():
    for module, prefix in ((_thread, ""), (threading, "_")):
        if hasattr(module, prefix + name):
            setattr(module, prefix + name, wrapper(original))
from syncless.patches import patch_all, unpatch
def meet():
    here, there = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (here.set(), there.wait()))
    thread.start()
    here.wait()
    assert thread.is_alive()
    there.set()
    thread.join()
    assert not thread.is_alive()
for change in (patch_all, unpatch):
    change()
    meet()
assert len(begun) == 2, begun
"""
    assert run_python(program) == ""


@pytest.mark.slow
@pytest.mark.parametrize("order", ["before the patch", "after the patch"])
@pytest.mark.parametrize("tool", TOOLS)
def test_waits_let_others_run_beside_a_tool_that_begins(tool, order):
    need(tool)
    parts = [TOOLS[tool] + "\n", PATCH]
    if order == "after the patch":
        parts.reverse()
    undo = UNDO_BESIDE.replace("{thread}", THREADS[tool]) if tool in THREADS else "unpatch()\n"
    program = BEGIN + "".join(parts) + MEET + undo + MEET + "print('well')\nimport os; os._exit(0)"
    ended = run_unchecked(program, "-W", "ignore", timeout=170)
    assert (ended.returncode, ended.stdout) == (0, "well\n"), ended.stderr
