"""Built-in functions and types look the same under the patch."""

from tests.programs import run_python


def test_functions_in_the_place_of_builtins_are_builtins():
    """They are the same objects, with name, module, signature and text of before. They do not bind where a
    class takes them over."""
    assert (
        run_python("""
import inspect, pickle, sys
import _thread, builtins, bz2, fcntl, hashlib, lzma, os, posix, select, signal, socket
import sqlite3, threading, time, types, zlib
modules = (_thread, builtins, fcntl, os, posix, select, signal, socket, threading, time, zlib)
functions = {(module, name): value for module in modules for name, value in vars(module).items()
          if isinstance(value, types.BuiltinFunctionType)}
def signature(function):
    try:
        return str(inspect.signature(function))
    except (TypeError, ValueError) as error:
        return type(error)
def shown(function):
    names = [getattr(function, key) for key in ("__name__", "__qualname__", "__doc__", "__module__")]
    return [*names, function.__self__.__name__, signature(function), repr(function), hash(function)]
before = {key: shown(function) for key, function in functions.items()}
insides = {key: function.__self__ for key, function in functions.items()}
from syncless.patches import patch_all, unpatch
patch_all(cpu=True)
changed = [key for key in functions if functions[key].__self__ is not insides[key]]
assert len(changed) > 60, len(changed)
for module, name in changed:
    new = vars(module)[name]
    what = f"{module.__name__}.{name}: {new!r}"
    assert new is functions[module, name], what
    taken = type("Taker", (), {"taken": new})
    assert taken().taken is new and inspect.isbuiltin(new), what
    assert shown(new) == before[module, name], (what, shown(new), before[module, name])
    if new.__self__.__name__ == new.__module__:
        assert pickle.loads(pickle.dumps(new)) is new, what
assert os.stat in os.supports_dir_fd and os.stat in os.supports_follow_symlinks
class Taker:
    read, sleep, now = os.read, time.sleep, select.select
assert Taker().now([], [], [], 0) == ([], [], []) and Taker().sleep(0) is None
left, right = os.pipe()
os.write(right, b"x")
assert Taker().read(left, 5) == b"x"
assert inspect.isbuiltin(os.read) and repr(time.sleep) == "<built-in function sleep>"
unpatch()
for (module, name), function in functions.items():
    assert vars(module)[name] is function and function.__self__ is insides[module, name]
    assert shown(function) == before[module, name]
print("built in")
""")
        == "built in\n"
    )


def test_timeouts_are_refused_as_unpatched():
    program = """
import select, sys
if "patched" in sys.argv:
    from syncless.patches import patch_all
    patch_all()
def outcome(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)
for timeout in (1e30, 2**31, 2**31 - 2000.5, 2**40, 2**63, 2**64, -1e30, -2**40, -(2**70), float("nan"),
                float("inf"), float("-inf"), "x", b"", [], 0, 0.0, False, object, -1 - 0j):
    with select.epoll() as epoll:
        right = sys.stdout.fileno()
        poll = select.poll()
        poll.register(right, select.POLLOUT)
        epoll.register(right, select.EPOLLOUT)
        for name, wait in (("poll", poll.poll), ("epoll", epoll.poll)):
            found = outcome(wait, timeout)
            print(timeout, name, "ready" if type(found) is list else found)
        found = outcome(select.select, [], [right], [], timeout)
        print(timeout, "select", found if type(found[0]) is str else "ready")
"""
    patched = run_python("import sys; sys.argv.append('patched')" + program)
    assert patched == run_python(program) and "OverflowError" in patched


def test_poll_takes_milliseconds():
    program = """
import os, select
from syncless.patches import patch_all
patch_all()
import syncless
left, right = os.pipe()
watched = select.poll()
watched.register(left, select.POLLIN)
with syncless.Timeout(60):
    print(watched.poll(100))
"""
    assert run_python(program) == "[]\n"


def test_select_goes_on_waiting_when_another_tasklet_has_read():
    program = """
import os, select
from syncless.patches import patch_all
patch_all()
import syncless
left, right = os.pipe()

def read():
    found = select.select([left], [], [])
    return found == ([left], [], []) and os.read(left, 1)

readers = [syncless.spawn(read), syncless.spawn(read)]
syncless.sleep(0)
for sent in (b"x", b"y"):
    os.write(right, sent)
    syncless.wait(readers, count=1)
    for _ in range(5):
        syncless.sleep(0)
    assert [reader.result() for reader in readers if reader.done()] == [sent]
    readers = [reader for reader in readers if not reader.done()]
print(not readers)
"""
    assert run_python(program) == "True\n"


def test_poll_objects_of_before_wait_cooperatively():
    assert (
        run_python("""
import os, select, types
left, right = os.pipe()
old = select.poll()
old.register(left, select.POLLIN)
made = select.poll
from syncless.patches import patch_all
patch_all()
import syncless
assert select.poll is made and type(made) is types.BuiltinFunctionType and type(select.poll()) is type(old)
waiter = syncless.spawn(old.poll)
syncless.sleep(0)
assert not waiter.done() and old.poll(1) == []
old.modify(left, select.POLLIN | select.POLLPRI)
os.write(right, b"x")
assert waiter.result() == old.poll(None) == [(left, select.POLLIN)]
old.unregister(left)
assert old.poll(0.5) == []
print("polled")
""")
        == "polled\n"
    )


def test_iterator_of_a_slow_directory_is_like_the_original(tmp_path):
    (tmp_path / "file").write_text("")
    assert (
        run_python(
            """
import os, warnings
with os.scandir(".") as entries:
    original = type(entries)
from syncless.patches import patch_all
patch_all()
from syncless.io import files
files.set_mode("pool")
def warned(use):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        use()
    return [(each.category, str(each.message).partition(" <")[0]) for each in told]
entries = os.scandir(".")
assert type(entries) is not original and type(entries).__name__ == original.__name__ == "ScandirIterator"
assert [entry.name for entry in entries] == ["file"] and next(entries, None) is None
for kind in (original, type(entries)):
    try:
        kind()
    except TypeError as error:
        assert "cannot create 'posix.ScandirIterator' instances" in str(error)
    else:
        raise AssertionError
def close():
    with os.scandir(".") as entries:
        next(entries)
assert warned(lambda: list(os.scandir("."))) == warned(close) == []
unclosed = [(ResourceWarning, "unclosed scandir iterator")]
assert warned(lambda: os.scandir(".")) == warned(lambda: next(os.scandir("."))) == unclosed
print("alike")
""",
            cwd=tmp_path,
        )
        == "alike\n"
    )
