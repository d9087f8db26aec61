"""Areas of the patch: chosen, described, undone, and refused in other threads."""

import os
import pathlib
import sys
import threading
from types import ModuleType

import pytest

from syncless import patches
from syncless.patches.registry import Patcher, Registry
from tests.programs import run_unchecked

ROOT = pathlib.Path(__file__).parent.parent.parent


def test_everything_is_given_back():
    """In a fresh interpreter, with modules that have taken things over by name, before and after the
    patch."""
    done = run_unchecked("""
import _thread, os, queue, select, selectors, signal, socket, ssl, sys, threading, time
from time import sleep
import logging
def state():
    found = {}
    for owner in (socket.socket, ssl.SSLSocket, select.epoll, _thread.LockType, _thread.RLock,
                  queue.SimpleQueue, queue.Queue, threading.Event, threading._DummyThread,
                  selectors.PollSelector, selectors.SelectSelector):
        for name in vars(owner).keys() - {"__dict__", "__weakref__"}:
            found[owner.__qualname__, name] = vars(owner)[name]
    for module in (time, socket, ssl, select, selectors, signal, os, threading, _thread, logging):
        found.update({(module.__name__, name): value for name, value in vars(module).items()})
    return found, sleep
def calls_ours(function):
    return function.__self__.__spec__ is None
before, _ = state()
from syncless.patches import describe, patch_all, patched, is_patched, unpatch, AREAS, OFF
assert describe().count("\\n") == 0
with patched() as areas:
    assert areas == [area for area in AREAS if area not in OFF] and patch_all() == []          # idempotent
    assert sleep is time.sleep is before["time", "sleep"]      # wherever it is kept
    assert type(sleep).__name__ == "builtin_function_or_method"
    assert sleep.__module__ == "time"             # pickled under its own name
    import pickle
    assert pickle.loads(pickle.dumps(sleep)) is sleep and "syncless.patches.clock.sleep" in describe()
    changed = {key for key, value in state()[0].items() if before.get(key) is not value}
    assert len(changed) > 30, len(changed)
    assert calls_ours(time.sleep) and calls_ours(os.stat)
    exec("from time import sleep as taken_inside", globals())
    with patched() as again:
        assert again == []
    assert is_patched("time")
after, slept = state()
assert not calls_ours(time.sleep) and not calls_ours(os.stat)
assert not is_patched("time") and slept is taken_inside is sleep
different = {key for key in before.keys() | after.keys() if before.get(key) is not after.get(key)}
assert not different, different
lock = threading.Lock(); lock.acquire(); threading.Timer(0.05, lock.release).start()
assert lock.acquire(timeout=60)
print("given back")
""")
    assert done.stdout == "given back\n", done.stderr


def test_areas_can_be_chosen():
    done = run_unchecked("""
import time, threading
from syncless.patches import patch_all, patch_time, is_patched, unpatch
assert patch_time() is True and patch_time() is False
assert "thread" not in patch_all(thread=False, queue=False)
assert not is_patched("thread") and is_patched("socket")
for wrong in (lambda: patch_all(nonsense=True), lambda: is_patched("nonsense")):
    try:
        wrong()
    except (TypeError, ValueError) as told:
        assert "choose from time, socket" in str(told)
    else:
        raise AssertionError
unpatch("socket")
assert not is_patched("socket") and is_patched("time")
seen = []
thread = threading.Thread(target=lambda: seen.append(threading.get_native_id()))
thread.start(); thread.join()
assert seen[0] != threading.get_native_id()        # a real thread
print("chosen")
""")
    assert done.stdout == "chosen\n", done.stderr


def test_each_area_changes_something_or_waits_for_a_module():
    done = run_unchecked("""
import warnings
from syncless.patches import AREAS, changes, describe, is_patched, patched
for area in AREAS:
    with patched(**{each: each == area for each in AREAS}) as areas:
        assert areas == [area] and is_patched(area)
        assert area in {change.area for change in changes()} or f"{area} " in describe(), area
    assert not changes()
    with patched(cpu=True, native=True, **({area: False} if area not in ("cpu", "native") else {})) as areas:
        assert (area in areas) == (area in ("cpu", "native"))
print("changed")
""")
    assert done.stdout == "changed\n", done.stderr


@pytest.mark.parametrize(
    "choice",
    [{"time": ["sleep"]}, {"cpu": "zlib"}, {"thread": None}, {"native": 5}, {"native": [5]}],
    ids=str,
)
def test_area_is_turned_on_or_off_by_nothing_but_a_truth_value(choice):
    with pytest.raises(TypeError):
        patches.patch_all(**choice)
    test_process_is_not_patched()


def test_an_area_that_fails_leaves_nothing(monkeypatch):
    owner, taker = ModuleType("owner"), ModuleType("taker")
    owner.function = taker.taken = original = lambda: "old"
    monkeypatch.setitem(sys.modules, "taker", taker)
    replacement = lambda: "new"  # noqa: E731

    class Target:
        member = "old"

    def patch(patcher: Patcher):
        patcher.member(Target, "member", "new", "why")
        patcher.rebind(owner, "function", replacement, "why")
        assert Target.member == "new"
        raise RuntimeError("half way")

    registry = Registry()
    with pytest.raises(RuntimeError):
        registry.apply({"area": patch})
    assert Target.member == "old" and registry.areas() == [] and registry.changes() == []
    assert owner.function is taker.taken is original
    registry.apply({"area": lambda patcher: patcher.rebind(owner, "function", replacement, "why")})
    assert owner.function is taker.taken is replacement
    registry.undo("area")
    assert owner.function is taker.taken is original


def test_the_table_names_everything():
    done = run_unchecked("import ssl; from syncless.patches import *; patch_all(); print(describe())")
    for target in (
        "time.sleep",
        "socket.socket.recv",
        "ssl.SSLSocket.read",
        "select.epoll.poll",
        "_thread.lock.acquire",
        "os.waitpid",
    ):
        assert target in done.stdout
    assert not done.stderr and set(patches.__all__) >= {f"patch_{area}" for area in patches.AREAS}


def test_the_table_tells_of_modules_that_are_changed_when_they_are_imported():
    done = run_unchecked("""
from syncless.patches import describe, patch_all, unpatch
patch_all()
def rows(area):
    return [line.split(maxsplit=3)[1:] for line in describe().splitlines() if line.startswith(area + " ")]
assert rows("ssl") == rows("sqlite3") == [["-", "-", "is not loaded yet"]], describe()
import hashlib, sqlite3, ssl, subprocess
for area, target in (
    ("ssl", "ssl.SSLSocket.read"),
    ("sqlite3", "sqlite3.Connection.commit"),
    ("kdf", "hashlib.pbkdf2_hmac"),
    ("subprocess", "subprocess._USE_POSIX_SPAWN"),
):
    assert target in [row[0] for row in rows(area)], (target, describe())
ours = ssl.SSLSocket.read, ssl.SSLContext.load_cert_chain, sqlite3.Connection.commit
unpatch()
assert not {*ours} & {ssl.SSLSocket.read, ssl.SSLContext.load_cert_chain, sqlite3.Connection.commit}
""")
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_process_is_not_patched():
    assert not any(patches.is_patched(area) for area in patches.AREAS)
    assert threading.get_ident() == threading.main_thread().ident and os.getpid()


def test_system_whose_libraries_cannot_be_patched_is_told_so():
    done = run_unchecked("""
import sys
sys.modules["syncless.patches.libraries.parking"] = None  # as if it had not been built
from syncless.patches import is_patched, native_stats, patch_all, patch_native
patch_all(thread=False)
for patch in (lambda: patch_all(native=True), patch_native, lambda: patch_native("MySQLdb")):
    try:
        patch()
    except NotImplementedError as error:
        assert "only on Linux" in str(error)
    else:
        raise AssertionError
assert is_patched("socket") and not is_patched("native") and native_stats() == {}
print("told")
""")
    assert done.stdout == "told\n", done.stderr


def test_slots_of_types_are_given_back():
    """Those that the interpreter calls without looking for a method; types of files that are made later take
    them over."""
    done = run_unchecked("""
import _io, ctypes, mmap
SLOTS = NEXT, INIT, NEW, FINALIZE = 224, 296, 312, 392  # where they are in a PyTypeObject, on 64 bits
def types(base):
    yield base
    for each in base.__subclasses__():
        yield from types(each)
def slots():
    return {
        (each, at): ctypes.c_void_p.from_address(id(each) + at).value
        for each in (*types(_io._IOBase), mmap.mmap) for at in SLOTS
    }
import syncless
from syncless.patches import patch_all, unpatch
class Early(_io.FileIO): pass
before = slots()
patch_all()
replaced = {at for each, at in before if slots()[each, at] != before[each, at]}
assert replaced == {NEXT, INIT, NEW, FINALIZE}, replaced
class Late(_io.FileIO): pass
class LateReader(_io.BufferedReader): pass
taken = [((late, at), (early, at)) for late, early in ((Late, Early), (LateReader, _io.BufferedReader))
         for at in SLOTS]
assert all(slots()[late] == slots()[early] for late, early in taken)
unpatch()
assert before.items() <= slots().items()
assert all(slots()[late] == before[early] for late, early in taken)
print("slots")
""")
    assert done.stdout == "slots\n", done.stderr


def test_patching_inside_a_tasklet_is_right_and_in_another_thread_refused():
    done = run_unchecked("""
import threading, time, _thread
real = threading.Thread
import syncless
from syncless.patches import AREAS, OFF, describe, patch_all, unpatch
def inside():
    assert patch_all(cpu=True) == [area for area in AREAS if area == "cpu" or area not in OFF]
    present = []
    def meet():
        present.append(None)
        while len(present) < 20: time.sleep(0.01)
    threads = [threading.Thread(target=meet) for _ in range(20)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert syncless.run_in_thread(threading.get_native_id) != threading.get_native_id()
    return threading.get_native_id()
assert syncless.spawn(inside).result() == threading.get_native_id()
unpatch()
found = []
def patch():
    try:
        patch_all()
    except RuntimeError as error:
        found.append(str(error))
thread = threading.Thread(target=patch)
thread.start()
thread.join()
assert "patched only in the main thread" in found[0], found
patch_all()
before = describe()
def undo():
    try:
        unpatch()
    except RuntimeError as error:
        found.append(str(error))
syncless.run_in_thread(undo)
assert "unpatched only in the main thread" in found[1] and describe() == before
unpatch()
assert describe() != before
print("patched")
""")
    assert done.stdout == "patched\n", done.stderr
