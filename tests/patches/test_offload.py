"""offload: functions whose calls run in real OS threads; and the same by import paths."""

import contextvars
import ctypes
import sys
import threading
import zlib
from _thread import get_ident

import pytest

import syncless
from syncless import offload
from syncless.patches import AREAS, changes, describe, patch_all, patched, unpatch
from syncless.threads import Offload
from tests.waiting import eventually

NOTHING_ELSE = dict.fromkeys(AREAS, False)
blocks = ctypes.CDLL(None).usleep
"""Waits in C, where no patch reaches."""


class Task:
    """A call that waits in its thread until it is told to go on."""

    def __init__(self):
        self.gate = syncless.Event()
        self.threads = []

    def __call__(self, value):
        self.threads.append(get_ident())
        self.gate.wait(60)
        return value


def test_call_runs_in_another_thread_while_tasklets_go_on():
    @offload
    def wait(microseconds):
        """Waits."""
        blocks(microseconds)
        return get_ident()

    assert wait.__name__ == "wait" and wait.__doc__ == "Waits."
    turns = []
    waiter = syncless.spawn(wait, 50_000)
    while not waiter.done():
        turns.append(1)
        syncless.sleep(0.001)
    assert waiter.result() != get_ident() and len(turns) > 3


def test_exception_is_raised_in_the_caller():
    @offload
    def fail():
        raise KeyError("in the thread")

    with pytest.raises(KeyError, match="in the thread"):
        fail()


def test_context_variables_are_visible_in_the_call():
    variable = contextvars.ContextVar("variable")
    variable.set("here")
    assert offload(variable.get)() == "here"


def test_threads_are_bounded_and_named():
    names, most, running = set(), [0], [0]

    @offload(threads=2, name="printer")
    def run():
        running[0] += 1
        most[0] = max(most[0], running[0])
        names.add(threading.current_thread().name)
        blocks(2000)
        running[0] -= 1

    tasklets = [syncless.spawn(run) for _ in range(10)]
    syncless.join_all(tasklets)
    assert most[0] <= 2 and names <= {"printer_0", "printer_1"}


def test_call_that_is_queued_is_dropped_when_its_tasklet_is_killed():
    task = Task()
    run = offload(threads=1)(task)
    first = syncless.spawn(run, 1)
    assert eventually(lambda: task.threads)
    second = syncless.spawn(run, 2)
    syncless.sleep(0)
    assert second.kill(timeout=60)
    with pytest.raises(TimeoutError), syncless.deadline(0.01):
        run(3)
    task.gate.set()
    assert first.result(60) == 1
    assert run(4) == 4 and len(task.threads) == 2


def test_call_inside_of_a_call_is_made_at_once():
    inner = offload(threads=1)(get_ident)

    @offload(threads=1)
    def outer():
        syncless.sleep(0)  # from here on the thread has a loop
        return get_ident() == inner()

    @offload(threads=1)
    def deeper(depth):
        syncless.sleep(0)  # from now on this thread has tasklets, too
        return depth and deeper(depth - 1) + 1

    assert outer()
    assert syncless.spawn(deeper, 3).result(60) == 3


def test_pool_is_a_context():
    with Offload(threads=1, name="few") as run:
        assert run(threading.current_thread).name == "few_0"
    with pytest.raises(RuntimeError, match="shutdown"):
        run(get_ident)


def test_function_whose_code_runs_elsewhere_is_refused():
    async def coroutine():
        pass

    def generator():
        yield

    for function in (coroutine, generator, 5):
        with pytest.raises(TypeError, match=r"offload needs|is a (generator|coroutine) function"):
            offload(function)


# -- by import path ------------------------------------------------------------------------------------------

SOURCE = """
from _thread import get_ident
def function(): return get_ident()
def _private(): return get_ident()
def generator(): yield get_ident()
class Class:
    def method(self): return get_ident()
    def other(self): return get_ident()
    @classmethod
    def of_class(cls): return cls, get_ident()
    @staticmethod
    def static(): return get_ident()
"""


@pytest.fixture(params=["before", "after"])
def module(request, tmp_path, monkeypatch):
    """A function that patches and imports a module, in this or the other order."""
    name = f"offloaded_{request.param}_{tmp_path.name}".replace("-", "_").replace("[", "").replace("]", "")
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    areas = []

    def make(*names):
        names = [f"{name}.{each}" for each in names]
        if request.param == "before":
            __import__(f"{name}.module")
        areas.extend(patch_all(offload=names, **NOTHING_ELSE))
        __import__(f"{name}.module")
        return sys.modules[f"{name}.module"]

    yield make
    unpatch(*areas)
    sys.modules.pop(f"{name}.module", None)
    sys.modules.pop(name, None)


def test_function_of_the_table_runs_in_a_thread(module):
    found = module("module.function")
    assert found.function() != get_ident()
    assert found._private() == get_ident()
    assert "should run in an OS thread" in describe()


@pytest.mark.parametrize("name", ["module", "module.*"])
def test_module_means_its_public_functions(module, name):
    found = module(name)
    assert found.function() != get_ident()
    assert found._private() == get_ident() and next(found.generator()) == get_ident()
    assert found.Class().method() == get_ident()


@pytest.mark.parametrize("name", ["module.Class", "module.Class.*"])
def test_class_means_its_public_methods(module, name):
    found = module(name)
    assert found.Class().method() != get_ident() and found.Class.static() != get_ident()
    kind, thread = found.Class.of_class()
    assert kind is found.Class and thread != get_ident()
    assert found.function() == get_ident()


def test_method_of_the_table_runs_in_a_thread(module):
    found = module("module.Class.method", "module.Class.static")
    assert found.Class().method() != get_ident() and found.Class.static() != get_ident()
    assert found.Class().other() == get_ident()


def test_undoing_puts_the_functions_back():
    before = zlib.compress
    with patched(offload=["zlib.compress"], **NOTHING_ELSE) as areas:
        assert areas == ["offload zlib.compress"]
        assert before.__self__ is not zlib and zlib.decompress(zlib.compress(b"data")) == b"data"
    assert (
        zlib.compress is before
        and before.__self__ is zlib
        and not [c for c in changes() if c.area.startswith("offload")]
    )


def test_wrong_names_are_refused():
    with pytest.raises(AttributeError, match="nothing"):
        patch_all(offload=["zlib.compressobj.nothing"], **NOTHING_ELSE)
    for name in ("", "zlib.*.compress", "a b"):
        with pytest.raises(ValueError, match="is not an import path"):
            patch_all(offload=[name], **NOTHING_ELSE)


@pytest.mark.parametrize("name", ["json.dmups", "json.decoder.JSONDecoder.dcode", "json.dmups.deeper"])
def test_name_that_an_imported_module_lacks_is_refused(name):
    with pytest.raises(AttributeError, match=r"offload='json\..*': json.* has no "):
        patch_all(offload=[name], **NOTHING_ELSE)
    assert f"offload {name}" not in {change.area for change in changes()}


def test_name_that_is_no_text_is_refused():
    with pytest.raises(TypeError, match="offload expects import paths as str"):
        patch_all(offload=[3], **NOTHING_ELSE)


def test_name_of_a_module_that_is_not_loaded_yet_is_described():
    with patched(offload=["not_loaded_yet.function"], **NOTHING_ELSE):
        assert [line for line in describe().splitlines() if line.endswith("is not loaded yet")] != []
        assert "offload not_loaded_yet.function" in describe()
