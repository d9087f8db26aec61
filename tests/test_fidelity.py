"""The lists of modules and of known differences are in order."""

import importlib.util
import pathlib
import re

import pytest

from tests.fidelity import KNOWN, MODULES, is_known


def test_each_known_difference_has_a_reason_and_belongs_to_a_module_that_is_run():
    for name, about in KNOWN.items():
        # Python 3.10 has SQLite's tests in that package, and test_sqlite takes them from there
        package, module, *_ = name.replace("sqlite3.test.", "test.test_sqlite.").split(".")
        assert about["reason"]
        assert package == "test" and module in {*MODULES["quick"], *MODULES["slow"]}
    assert is_known("test.test_queue.CSimpleQueueTest.anything") and not is_known(
        "test.test_queue.Other.test"
    )


WAIT = re.compile(
    r"^\s*(?:import|from)\s+(?:_thread|asyncio|concurrent|fcntl|getpass|http|multiprocessing|pty|queue|select"
    r"|selectors|signal|socket|socketserver|sqlite3|ssl|subprocess|termios|threading|urllib\.request|xmlrpc)\b",
    re.MULTILINE,
)
"""An import of a module whose functions can wait."""


def modules_that_can_wait(root):
    for path in sorted(root.iterdir()):
        sources = path.rglob("*.py") if (path / "__init__.py").exists() else [path]
        if not path.name.startswith("test_") or not (path.is_dir() or path.suffix == ".py"):
            continue
        if any(WAIT.search(source.read_text(errors="replace")) for source in sources):
            yield path.stem


def test_each_module_that_can_wait_is_run_or_left_out_with_a_reason():
    spec = importlib.util.find_spec("test")
    # Debian's python3 has only those of its modules that the tests of others need
    if spec is None or not importlib.util.find_spec("test.test_threading"):
        pytest.skip("this Python comes without its tests")
    listed = {name for names in MODULES.values() for name in names}
    there = set(modules_that_can_wait(pathlib.Path(*spec.submodule_search_locations)))
    assert "test_threading" in there and there - listed == set()
