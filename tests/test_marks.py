"""Which tests wait for the system's clock: few, and each says why."""

import ast
import pathlib

from tests.wide import WIDE, is_wide, leaves_out

TESTS = pathlib.Path(__file__).parent
FILES = sorted(TESTS.rglob("test_*.py"))
MOST = 40
"""Tests that may be marked `realtime`."""

SHORT = 0.05
"""Seconds that any test may sleep, to let others go on."""

ENDLESS = 60
"""Seconds that no test can wait out."""


def marks(statements):
    """{name: call or None} of the marks among decorators, or in the value of `pytestmark`."""
    found = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pytest.mark":
                found.setdefault(node.attr, None)
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("pytest.mark."):
                found[node.func.attr] = node
    return found


def parts(path):
    """(top-level statement, its marks and those of its module) of a file of tests."""
    tree = ast.parse(path.read_text())
    of_module = marks(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node).startswith("pytestmark")
    )
    for node in tree.body:
        yield node, {**of_module, **marks(getattr(node, "decorator_list", ()))}


def lengths(seconds):
    """The numbers of seconds that an argument of sleep() stands for, as far as it says them."""
    if isinstance(seconds, ast.IfExp):
        return lengths(seconds.body) + lengths(seconds.orelse)
    return [seconds.value] if isinstance(seconds, ast.Constant) else []


def test_files_that_are_left_to_the_gate_are_there():
    for name in WIDE:
        file, _, test = name.partition("::")
        assert (TESTS / file).exists() and (not test or f"def {test}(" in (TESTS / file).read_text()), name
    assert is_wide(TESTS / "contrib/test_django.py") and not is_wide(TESTS / "wsgi/test_wsgi.py")
    name = "test_holder_of_the_lock_commits_however_many_wait"
    assert is_wide(TESTS / "patches/test_sqlite.py", name) and not is_wide(TESTS / "patches/test_sqlite.py")


def test_they_are_not_read_where_the_marks_leave_out_all_of_them():
    assert leaves_out("not slow and not wide") and leaves_out("not wide")
    assert not any(map(leaves_out, ("", "not slow", "wide", "slow or not wide", "x or slow and not wide")))


def test_few_tests_are_realtime_and_each_says_why():
    marked = [found["realtime"] for path in FILES for _, found in parts(path) if "realtime" in found]
    assert 0 < len(marked) < MOST
    for mark in marked:
        assert mark is not None and len(mark.args) == 1 and len(ast.literal_eval(mark.args[0])) > 20


def test_no_other_test_waits_for_the_systems_clock():
    waits = []
    for path in FILES:
        for node, found in parts(path):
            virtual = "virtual_time" in found and (
                found["virtual_time"] is None or not found["virtual_time"].args
            )
            fixtures = found.get("usefixtures")
            if virtual or "realtime" in found or (fixtures and "virtual_clock" in ast.unparse(fixtures)):
                continue
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] == "sleep":
                    values = [value for argument in call.args[:1] for value in lengths(argument)]
                    waits += [
                        f"{path.name}: {ast.unparse(call)}" for value in values if SHORT < value < ENDLESS
                    ]
    assert not waits, "use the virtual clock, wait for an event, or mark the test `realtime` and say why"
