"""Modules that do something when they are looked at: the patch looks into what they have and asks them for
nothing."""

import pytest

from tests.programs import run_python


def test_module_whose_names_are_made_on_demand():
    """As those of the package py: `__name__` is a class there, and `__dict__` loads everything."""
    assert (
        run_python("""
import sys, time, types
from time import sleep
asked = []
class Maker(types.ModuleType):
    sleep = sleep
    def __getattribute__(self, name):
        asked.append(name)
        return type(name, (Exception,), {})
    @property
    def __dict__(self):
        asked.append("__dict__")
        return {}
    @property
    def __class__(self):
        asked.append("__class__")
        return Maker
class NoModule:
    def __getattribute__(self, name):
        asked.append(name)
        raise RuntimeError(name)
made = sys.modules["made"] = Maker("made")
sys.modules["none"], sys.modules[5] = None, NoModule()
types.ModuleType.__setattr__(made, "taken", sleep)
types.ModuleType.__setattr__(made, "__name__", Exception)
from syncless.patches import patch_all, unpatch
patch_all()
assert not asked, asked
assert types.ModuleType.__getattribute__(made, "taken") is time.sleep is Maker.sleep
unpatch()
assert not asked, asked
assert types.ModuleType.__getattribute__(made, "taken") is time.sleep is Maker.sleep
del sys.modules[5]
print("left alone")
""")
        == "left alone\n"
    )


@pytest.mark.parametrize("when", ["before", "after"])
def test_lazily_loaded_modules_stay_unloaded_and_are_patched_when_they_load(tmp_path, when):
    """Those of the application, which take what is patched, and those in which something is to be changed."""
    (tmp_path / "lazy.py").write_text("from time import sleep\nprint('executed')\n")
    assert (
        run_python(
            f"""
import importlib.util, sys, time
def load_lazily(name):
    spec = importlib.util.find_spec(name)
    loader = spec.loader = importlib.util.LazyLoader(spec.loader)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
import multiprocessing
def load():
    for name in ("lazy", "sqlite3", "multiprocessing.synchronize"):
        modules[name] = load_lazily(name)
modules = {{}}
original = [time.sleep]
if {when == "before"}:
    load()
from syncless.patches import changes, patch_all, unpatch
patch_all()
if {when == "after"}:
    load()
lazy_type = importlib.util._LazyModule
assert all(type(module) is lazy_type for module in modules.values()), modules
def is_changed():
    return any(change.target.startswith("sqlite3.") for change in changes())
assert not is_changed()
print("patched", flush=True)
assert modules["lazy"].sleep is time.sleep is original[0] and time.sleep.__self__ is not time
database = modules["sqlite3"]
assert database.Connection and is_changed() and type(database) is not lazy_type
assert type(database.__spec__.loader).__name__ == "SourceFileLoader"
multiprocessing.synchronize = modules["multiprocessing.synchronize"]
with multiprocessing.Lock():
    pass
unpatch()
assert modules["lazy"].sleep is time.sleep is original[0] and time.sleep.__self__ is time and not is_changed()
""",
            cwd=tmp_path,
        )
        == "patched\nexecuted\n"
    )


def test_package_py():
    pytest.importorskip("py.error", reason="a package whose modules make names on demand: pip install py")
    program = """
import sys, py
from syncless.patches import patch_all
patch_all()
import time
print(py.path.local('/').check())
"""
    assert run_python(program) == "True\n"


@pytest.mark.parametrize("how", ["kill", "timeout"])
def test_tasklet_interrupted_while_another_one_imports_ends_at_once(tmp_path, how):
    """Its wait for the module's lock must import nothing itself: until Python 3.11 that breaks the lock."""
    (tmp_path / "slow.py").write_text("import wait_here\nwait_here.event.wait()\n")
    assert (
        run_python(f"""
import sys, types
from syncless.patches import patch_all
patch_all()
import syncless
sys.path.insert(0, {str(tmp_path)!r})
sys.modules["wait_here"] = types.SimpleNamespace(event=syncless.Event())
told = []
def imports():
    import slow
def is_interrupted():
    try:
        with syncless.Timeout(0.001 if {how!r} == "timeout" else None):
            import slow
    except BaseException as error:
        told.append(type(error).__name__)
first, second = syncless.spawn(imports), syncless.spawn(is_interrupted)
syncless.sleep(0)
if {how!r} == "kill":
    second.kill()
second.join()
sys.modules["wait_here"].event.set()
first.join()
print(*told, "slow" in sys.modules)
""")
        == {"kill": "TaskletExit True\n", "timeout": "Timeout True\n"}[how]
    )
