"""eventlet's own tests, run against `syncless.eventlet`.

``python -m tests.eventlet_suite FOLDER [FILE ...]`` runs each test file of FOLDER/tests, a copy of the tests
of eventlet 0.41 (its sdist has them) without eventlet beside them, in a process of its own. The denominator
is eventlet_A.txt, the tests of public API that pass with the real library: a missing or skipped one counts as
failed. eventlet_known.json has those that cannot pass, with reasons; any other failure gives the exit status
1.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections.abc import Iterator

import _pytest.outcomes

from tests.patches import servers

HERE = pathlib.Path(__file__).parent
WANTED = (HERE / "eventlet_A.txt").read_text().split("\n")[:-1]
"""Each as file::class::test."""
KNOWN: dict[str, str] = json.loads((HERE / "eventlet_known.json").read_text())
"""Test -> the reason why it cannot pass."""

STAND_IN = """
import sys
del sys.modules["eventlet"]
from syncless.eventlet import install
install()
import eventlet
"""
"""What `import eventlet` finds, in the tests and in the programs that they start."""


DATABASES = ("db_pool_test.py", "mysqldb_test.py", "patcher_psycopg_test.py")
"""Files that need MariaDB and PostgreSQL."""


@contextlib.contextmanager
def databases(names: list[str]) -> Iterator[dict[str, str]]:
    """Both, as far as they are installed and the files need them; gives variables of the environment."""
    auth: dict[str, dict[str, object]] = {}
    with contextlib.ExitStack() as stack:
        if set(names) & set(DATABASES):
            with contextlib.suppress(_pytest.outcomes.Skipped):
                port = stack.enter_context(servers.mariadb())
                auth["MySQLdb"] = {"host": "127.0.0.1", "port": port, "user": "root", "passwd": ""}
            with contextlib.suppress(_pytest.outcomes.Skipped):
                port = stack.enter_context(servers.postgresql())
                auth["psycopg2"] = {"host": "127.0.0.1", "port": port, "user": "postgres"}
        yield {"EVENTLET_DB_TEST_AUTH": json.dumps(auth)} if len(auth) == 2 else {}


def results(
    folder: pathlib.Path, path: str, made: pathlib.Path, arguments: list[str], more: dict[str, str]
) -> dict[str, str]:
    """Run one file. Return test -> passed, skipped or failed, and all of its output as ''."""
    name = pathlib.Path(path).name
    report = made / f"{name}.xml"
    report.unlink(missing_ok=True)
    variables = {
        **more,
        "PYTHONPATH": os.pathsep.join((str(made), str(HERE.parent))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "eventlet_test_ipv6": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:syncless"]
    command += [f"--junitxml={report}", f"tests/{name}", *arguments]
    try:
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, timeout=400
        )
        output = done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        output = f"{(error.stdout or b'').decode(errors='replace')}\nthe file took too long"
    found = {"": output}
    if report.exists():
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            owner = case.get("classname", "").removeprefix(f"tests.{name[:-3]}").strip(".")
            kinds = {child.tag for child in case}
            state = (
                "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
            )
            found[f"{name}::{owner}::{case.get('name')}"] = state
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.eventlet_suite", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=pathlib.Path, help="that has tests/, a copy of eventlet's")
    parser.add_argument("files", nargs="*", metavar="FILE", help="of the tests, such as queue_test")
    parser.add_argument("-k", help="only the tests of these names, as for pytest")
    parser.add_argument("--verbose", "-v", action="store_true", help="show the output of files with failures")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if not (folder / "tests" / "greenthread_test.py").exists() or (folder / "eventlet").exists():
        parser.error(f"{folder} is no folder with a copy of eventlet's tests/ and without eventlet itself")
    wanted = collections.defaultdict(list)
    for test in WANTED:
        wanted[test.partition("::")[0]].append(test)
    chosen = [name for name in wanted if not options.files or name.removesuffix(".py") in options.files]
    passed, new = 0, []
    print("| file | tests of public API | passed | known | new failures |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary, databases(chosen) as more:
        made = pathlib.Path(temporary)
        (made / "eventlet").mkdir()
        (made / "eventlet" / "__init__.py").write_text(STAND_IN)
        for name in chosen:
            found = results(folder, name, made, ["-k", options.k] if options.k else [], more)
            bad = [test for test in wanted[name] if found.get(test) != "passed" and test not in KNOWN]
            if (
                bad and not options.verbose and len(bad) <= 5
            ):  # once more, alone: a bound of time may have failed
                words = " or ".join(test.rpartition("::")[2].partition("[")[0] for test in bad)
                found.update(results(folder, name, made, ["-k", words], more))
            good = [test for test in wanted[name] if found.get(test) == "passed"]
            bad = [test for test in wanted[name] if test not in good and test not in KNOWN]
            passed += len(good)
            new += bad
            told = ", ".join(
                test.partition("::")[2].strip(":") + ("" if test in found else " (missing)") for test in bad
            )
            known = len(wanted[name]) - len(good) - len(bad)
            print(f"| {name} | {len(wanted[name])} | {len(good)} | {known} | {told or 'none'} |", flush=True)
            if bad and options.verbose:
                print(found[""])
    total = sum(len(wanted[name]) for name in chosen)
    print(f"| all | {total} | {passed} | {total - passed - len(new)} | {len(new)} |")
    return 1 if new or not total else 0


if __name__ == "__main__":
    sys.exit(main())
