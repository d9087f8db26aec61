"""Types and signatures of the public names, as editors and type checkers see them."""

import importlib
import importlib.util
import inspect
import json
import pathlib
import re
import subprocess
import sys

import pytest

CASES = pathlib.Path(__file__).parent / "typing"

MODULES = [
    "syncless",
    "syncless.console",
    "syncless.debug",
    "syncless.io.dns",
    "syncless.io.files",
    "syncless.patches",
    "syncless.stackless",
    "syncless.wsgi",
]


def public_names(module):
    """(name, thing) of a module's own classes and functions."""
    found = importlib.import_module(module)
    for name, thing in vars(found).items():
        owner = str(getattr(thing, "__module__", ""))
        named = name in found.__all__ if hasattr(found, "__all__") else owner == module
        if named and owner.startswith("syncless") and (inspect.isclass(thing) or inspect.isroutine(thing)):
            yield name, thing


@pytest.mark.parametrize("module", MODULES)
def test_every_public_callable_has_a_signature(module):
    for name, thing in public_names(module):
        plain_error = inspect.isclass(thing) and issubclass(thing, BaseException)
        if not plain_error or "__init__" in vars(thing):  # Python knows no signature of those
            assert inspect.signature(thing), name
        for part, method in vars(thing).items() if inspect.isclass(thing) else ():
            if not part.startswith("_") and inspect.isroutine(method):
                assert inspect.signature(getattr(thing, part)), f"{name}.{part}"


def test_signature_of_class_is_that_of_its_constructor():
    import syncless

    assert str(inspect.signature(syncless.Queue)) == "(maxsize=0)"
    assert str(inspect.signature(syncless.Tasklet)) == "(function, *args, **kwargs)"
    assert inspect.getdoc(syncless.Queue).startswith("A FIFO queue")


def test_generic_classes_can_be_named_in_annotations():
    import syncless

    for kind in (syncless.Tasklet, syncless.Queue, syncless.Channel, syncless.AsyncResult):
        assert str(kind[int]).endswith(f"{kind.__name__}[int]")
    assert isinstance(syncless.Queue[int](3), syncless.Queue)


def mistakes(path):
    lines = path.read_text().splitlines()
    return {(path.name, number) for number, line in enumerate(lines, 1) if line.endswith("# mistake")}


def check(command):
    return subprocess.run(
        [sys.executable, "-m", *command, "right.py", "wrong.py"],
        cwd=CASES,
        env={"PYTHONPATH": str(CASES.parent.parent), "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp"},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy_finds_mistakes_and_nothing_else(tmp_path):
    done = check(["mypy", "--strict", "--cache-dir", str(tmp_path)])
    found = re.findall(r"^(\w+\.py):(\d+): error", done.stdout, re.MULTILINE)
    assert {(name, int(line)) for name, line in found} == mistakes(CASES / "wrong.py"), done.stdout


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is not installed")
def test_pyright_finds_mistakes_and_nothing_else():
    done = check(["pyright", "--outputjson"])
    if not done.stdout.startswith("{"):
        pytest.skip(f"pyright cannot be had here: {done.stderr[-200:]}")
    told = json.loads(done.stdout)["generalDiagnostics"]
    found = {
        (pathlib.Path(each["file"]).name, each["range"]["start"]["line"] + 1)
        for each in told
        if each["severity"] == "error"
    }
    assert found == mistakes(CASES / "wrong.py"), done.stdout
