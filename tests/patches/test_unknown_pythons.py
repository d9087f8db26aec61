"""On a Python whose insides are unknown, patch_all() leaves out the areas that need them, with a warning.
Each program lies about one thing."""

import json
import sys
import textwrap

import pytest

from tests.core.test_layouts import LIES, refusal, run
from tests.programs import run_unchecked

LEFT_OUT = {
    "socket objects": {"socket", "ssl", "dns"},
    "io.FileIO objects": {"files"},
    "locks": {"thread", "queue", "multiprocessing"},
    "poll objects": {"select"},
    "buffered files": {"files"},
}

PATCH_ALL = """
import json, sys, warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    from syncless.patches import AREAS, OFF, is_patched, patch_all, patch_{area}, unpatch
    {before}
    patched = patch_all()
    assert patched == [area for area in AREAS if is_patched(area)]
try:
    patch_{area}()
except Exception as error:
    pass
else:
    raise AssertionError("an area that is asked for by name must not fail silently")
unpatch()
assert not any(is_patched(area) for area in AREAS)
left_out = [area for area in AREAS if area not in OFF and area not in patched]
print(json.dumps([left_out, [(str(each.message), each.filename) for each in told]]))
"""


def left_out_and_warnings(program):
    done = run(program)
    assert done.returncode == 0, done.stderr
    left_out, warnings = json.loads(done.stdout)
    assert all(where == "<string>" for _, where in warnings), warnings  # the program that patches
    return left_out, [text for text, _ in warnings]


@pytest.mark.parametrize("kind", LEFT_OUT)
def test_areas_that_need_an_unknown_layout_are_left_out(kind):
    lie = textwrap.dedent(LIES[kind]).rpartition("import ")[0]
    first = min(LEFT_OUT[kind])
    left_out, warnings = left_out_and_warnings(lie + PATCH_ALL.format(area=first, before=""))
    assert set(left_out) == LEFT_OUT[kind]
    assert [text.split("'")[1] for text in warnings] == left_out
    assert all(refusal(kind) in text for text in warnings)


LOCKS = textwrap.dedent(LIES["locks"]).rpartition("import ")[0]
CURE = (
    "syncless cannot patch thread, queue, multiprocessing on this Python",
    refusal("locks"),
    "pip install --upgrade syncless",
    "--no-patch-thread --no-patch-queue --no-patch-multiprocessing",
)


def test_strict_patch_names_all_areas_that_it_cannot_make_and_makes_none():
    done = run(
        LOCKS
        + """
from syncless.patches import AREAS, CannotPatch, is_patched, patch_all
try:
    patch_all(strict=True)
except CannotPatch as error:
    print(error)
assert not any(is_patched(area) for area in AREAS)
patch_all(strict=True, thread=False, queue=False, multiprocessing=False)
assert is_patched("socket")
"""
    )
    assert done.returncode == 0, done.stderr
    assert all(text in done.stdout for text in CURE) and not done.stderr, done


def run_command(lie, *command):
    return run_unchecked(lie + f"import sys\nfrom syncless.cli import main\nsys.exit(main({list(command)}))")


SERVER = ("examples.demo", "--bind", "127.0.0.1:0")


COMMANDS = [SERVER, (*SERVER, "--check"), ("run", "-m", "this"), ("console",)]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_command_ends_with_the_cure_where_locks_would_block(command):
    done = run_command(LOCKS, *command)
    assert done.returncode == 2 and all(text in done.stderr for text in CURE), done
    assert "Traceback" not in done.stderr and "RuntimeWarning" not in done.stderr


def test_master_ends_with_the_cure_where_its_workers_would_block():
    lie = textwrap.dedent(LIES["poll objects"]).rpartition("import ")[0]  # which a fork does not notice
    # quietly, because the log of events asks a poll object, too
    done = run_command(lie, *SERVER, "--workers", "1", "--quiet")
    assert done.returncode == 3 and "--no-patch-select" in done.stderr, done
    assert "Traceback" not in done.stderr and refusal("poll objects") in done.stderr


def test_command_goes_on_without_areas_that_are_turned_off():
    off = [f"--no-patch-{area}" for area in ("thread", "queue", "multiprocessing")]
    done = run_command(LOCKS, "run", *off, "-m", "this")
    assert done.returncode == 0 and "Zen" in done.stdout, done


def test_area_that_fails_on_a_newer_python_is_undone_and_left_out():
    before = "import threading; own = threading.Event.set; del threading._DummyThread"
    program = "from syncless._core.cpython import layouts; layouts.NEWEST = (3, 9)\n" + PATCH_ALL.format(
        area="thread", before=before
    )
    left_out, warnings = left_out_and_warnings(program + "assert threading.Event.set is own\n")
    assert left_out == ["thread"] and "'thread'" in warnings[0]


def test_area_that_fails_on_a_known_python_is_an_error():
    before = "import threading; del threading._DummyThread"
    done = run(PATCH_ALL.format(area="thread", before=before))
    assert done.returncode == 1 and "AttributeError" in done.stderr


@pytest.mark.skipif(sys.maxsize < 2**32, reason="a Lock has no unused bytes")
@pytest.mark.parametrize("newer", [False, True])
def test_holder_of_a_lock_is_noted_on_known_pythons_only(newer):
    """The unused bytes of a Lock may be used on a newer Python."""
    done = run(f"""
import sys, threading, warnings
if {newer}:
    sys.version_info = (3, 99, 0, "final", 0)
warnings.simplefilter("ignore")
from syncless.patches import is_patched, patch_all
patch_all()
import syncless
from syncless import debug
assert is_patched("thread")
locks = [threading.Lock(), threading.Lock()]
def take(first, second):
    with locks[first]:
        syncless.sleep(0.01)
        with locks[second]:
            pass
crossed = [syncless.spawn(take, 0, 1), syncless.spawn(take, 1, 0)]
syncless.sleep(0.05)
print(len(debug.find_deadlocks()))
""")
    assert done.stdout == f"{int(not newer)}\n", done.stderr
