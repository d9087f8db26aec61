"""The runner of tests and the list of parts: which tests run again or alone, and what fails a run."""

import collections
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from tests import parts
from tests.__main__ import grouped
from tests.waiting import eventually

ROOT = pathlib.Path(__file__).parent.parent

XDIST = " -p xdist.plugin" if importlib.util.find_spec("xdist") else ""
"""The only plugin that is loaded."""
SETTINGS = """
[pytest]
addopts = -q{xdist}
markers =
    slow
    realtime
"""
HELPERS = """
import os, pathlib, pytest

def times(name):
    "How often it was called with that name, over all processes."
    with open(name + ".times", "a") as file:
        file.write("x")
    return len(pathlib.Path(name + ".times").read_text())
"""


@pytest.fixture
def run(tmp_path):
    """run(tests, *arguments): the ended run of a file of tests, and {name: how often it was called}. Without
    xdist's processes, unless the test asks for some."""

    def run(tests, *arguments, processes=0):
        (tmp_path / "pytest.ini").write_text(SETTINGS.format(xdist=XDIST))
        (tmp_path / "test_toy.py").write_text(HELPERS + tests)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        done = subprocess.run(
            [sys.executable, "-m", "tests", *(["-n", str(processes)] if XDIST else []), *arguments],
            cwd=tmp_path,
            env={**environment, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done, {path.stem: len(path.read_text()) for path in tmp_path.glob("*.times")}

    return run


def test_failure_that_does_not_come_again_is_flaky_and_named(run, tmp_path):
    done, times = run(
        "def test_once(): assert times('once') > 1, 'the first failure'\ndef test_good(): pass\n"
    )
    assert done.returncode == 0, done.stdout
    assert times == {"once": 2}
    assert "\n2 passed, 0 failed, 0 skipped in " in done.stdout
    said = next(
        line for line in done.stdout.splitlines() if line.startswith("flaky: test_toy.py::test_once, see ")
    )
    log = (tmp_path / said.rpartition(" ")[2]).read_text()
    assert "the first failure" in log and "1 passed" in log


def test_failure_that_comes_three_times_fails_the_run(run):
    done, times = run("def test_always(): assert times('always') < 0\ndef test_good(): pass\n")
    assert done.returncode == 1
    assert times == {"always": 3}
    assert "\nfailed: test_toy.py::test_always\n1 passed, 1 failed, 0 skipped in " in done.stdout


def test_six_failures_fail_the_run_at_once(run):
    many = "@pytest.mark.parametrize('n', range(6))\ndef test_once(n): assert times(f'once{n}') > 1\n"
    done, times = run(many)
    assert done.returncode == 1
    assert set(times.values()) == {1} and len(times) == 6


def test_failing_teardown_is_a_failure(run):
    done, _ = run("@pytest.fixture\ndef bad():\n    yield\n    assert 0\ndef test_it(bad): pass\n")
    assert done.returncode == 1 and "\n0 passed, 1 failed, " in done.stdout


def test_end_of_a_process_is_a_failure_of_its_test(run):
    pytest.importorskip("xdist")
    tests = "def test_dies(): times('dies') > 1 or os._exit(1)\ndef test_good(): pass\n"
    done, times = run(tests, processes=2)
    assert done.returncode == 0, done.stdout
    assert times == {"dies": 2} and "flaky: test_toy.py::test_dies" in done.stdout


def test_file_that_cannot_be_read_fails_the_run(run):
    done, _ = run("raise RuntimeError('broken')\n")
    assert done.returncode == 1 and "broken" in done.stdout


def test_realtime_tests_run_after_all_others(run):
    done, times = run(
        "@pytest.mark.realtime('why')\ndef test_alone(): assert times('others') == 3\n"
        "def test_first(): times('others')\ndef test_second(): times('others')\n"
    )
    assert done.returncode == 0, done.stdout
    assert times == {"others": 3} and "\n3 passed, 0 failed" in done.stdout


def test_slow_tests_run_if_they_are_asked_for(run):
    tests = "@pytest.mark.slow\ndef test_slow(): pass\ndef test_other(): pytest.skip('there is no moon')\n"
    done, _ = run(tests)
    assert done.returncode == 0 and "\n0 passed, 0 failed, 1 skipped" in done.stdout
    assert "skipped:    1 because there is no moon" in done.stdout
    assert "\n1 passed, 0 failed, 0 skipped" in run(tests, "-m", "slow")[0].stdout
    assert "\n1 passed, 0 failed, 0 skipped" in run(tests, "test_toy.py::test_slow")[0].stdout


def test_reasons_of_skipped_tests_take_ten_lines():
    reasons = [f"reason {number}" for number in range(12) for _ in range(number + 1)]
    reasons += ["could not import 'h2.connection': No module", "Twisted waits: pip install twisted"] * 50
    (needs, first), *rest, (others, left) = grouped(reasons)
    assert needs.endswith(": h2, twisted") and first == 100
    assert rest == [(f"reason {number}", number + 1) for number in range(11, 3, -1)]
    assert others.startswith("of 4 other reasons") and left == 1 + 2 + 3 + 4


def test_run_without_a_test_is_no_success(run):
    assert run("", "-k", "nothing")[0].returncode == 5


@pytest.fixture
def checked(tmp_path, monkeypatch, capsys):
    """checked(*parts): the status of the gate with these parts, and what it printed."""

    def checked(*parts_of_test, arguments=()):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(parts, "PARTS", list(parts_of_test))
        return parts.main([*arguments]), capsys.readouterr().out

    return checked


def part(name, commands, **options):
    return parts.Part(name, "for a test", commands, after=options.pop("after", ()), **options)


def test_failed_part_stops_only_those_that_need_it(checked):
    status, said = checked(
        part("bad", "echo the reason; exit 3", alone=True),
        part("needs", "echo never", after=("bad",)),
        part("other", "echo went on"),
        part("elsewhere", f"echo no such thing; exit {parts.SKIPPED}"),
    )
    assert status == 1 and "the reason" in said and "went on" in said and "never" not in said
    rows = {line.split()[0]: line for line in said.splitlines() if ".log" in line}
    outcomes = {
        name: " ".join(word for word in row.split()[1:3] if not word.isdigit()) for name, row in rows.items()
    }
    assert outcomes == {"bad": "FAILED", "needs": "not run", "other": "passed", "elsewhere": "skipped"}
    assert "\nfailed: bad, needs\n" in said


def test_a_part_that_cannot_run_has_failed_where_all_must(checked):
    elsewhere = part("elsewhere", f"exit {parts.SKIPPED}")
    assert checked(elsewhere)[0] == 0
    status, told = checked(elsewhere, arguments=["--complete"])
    assert status == 1 and "failed: elsewhere" in told


def test_variables_of_make_check_are_not_those_of_its_parts(checked, tmp_path, monkeypatch):
    """As of `make check ARGS="--only part"`."""
    (tmp_path / "Makefile").write_text("part:\n\t@test -z '$(ARGS)'\n")
    monkeypatch.setenv("MAKEFLAGS", " -- ARGS=--only\\ part")
    monkeypatch.setenv("MAKELEVEL", "1")
    monkeypatch.setenv("ARGS", "--only part")
    assert checked(part("made", f"make -f {tmp_path}/Makefile part"))[0] == 0


@pytest.mark.parametrize(("each", "status"), [(2, 0), (3, 1)])
def test_flaky_tests_of_all_parts_are_counted_together(checked, each, status):
    def counts(name):
        flaky = ", ".join(f'"{name}{number}": "log"' for number in range(each))
        line = f'{{"passed": 10, "failed": 0, "skipped": 1, "flaky": {{{flaky}}}}}'
        return f"echo '{line}' >\"$SYNCLESS_TEST_COUNTS\""

    found, said = checked(part("a", counts("a")), part("b", counts("b")))
    assert found == status
    assert said.endswith("20 passed, 0 failed, 2 skipped\n") and "flaky: a1, see log" in said


def test_table_names_the_python_of_each_part(checked, tmp_path):
    def tried(release):
        told = f'{{"passed": 1, "failed": 0, "skipped": 0, "flaky": {{}}, "python": "{release}"}}'
        return f"echo '{told}' >\"$SYNCLESS_TEST_COUNTS\""

    (tmp_path / parts.PAGE).parent.mkdir(parents=True)
    (tmp_path / parts.PAGE).write_text("| 3.13.0 | pyenv |\n")
    status, said = checked(part("a", tried("3.13.0")), part("b", tried("3.13.18")), part("c", "true"))
    rows = {line.split()[0]: line for line in said.splitlines() if ".log" in line}
    assert status == 0 and " 3.13.0 " in rows["a"] and " 3.13.18 " in rows["b"]
    assert "does not name 3.13.18 yet" in said and "does not name 3.13.0" not in said


def test_part_is_ended_when_its_time_is_over(checked, monkeypatch):
    monkeypatch.setattr(parts, "SECONDS", 0.1)
    status, said = checked(part("endless", "sleep 3600"))
    assert status == 1 and "it took longer than" in said


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)])
@pytest.mark.parametrize("late", [False, True])
def test_parts_end_with_the_program(tmp_path, number, status, late):
    """`late`: one that has just begun is not known yet."""
    program = f"""
import signal
from tests import parts
signal.signal(signal.SIGINT, signal.default_int_handler)
parts.PARTS = [parts.Part("endless", "for a test", "echo begun; exec sleep 3600", after=())]
parts.LOGS = parts.pathlib.Path({str(tmp_path)!r})
class Late(set):
    def add(self, process):
        parts.stopping.wait()
        super().add(process)
parts.running = Late() if {late} else set()
parts.main([])
"""
    log = tmp_path / "endless.log"
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.DEVNULL) as running:
        try:
            assert eventually(lambda: log.exists() and log.read_text() == "begun\n")
            running.send_signal(number)
            assert running.wait(60) == status
        finally:
            running.kill()


def test_parts_that_are_aside_run_beside_those_that_are_alone(checked):
    """Two of them at a time. Those that wait for one another would never end if they did not run at once."""
    wait = "until [ -e {} ]; do sleep 0.02; done"
    status, said = checked(
        part("aside", f"touch a; {wait.format('b')}; touch ended", aside=True),
        part("beside", wait.format("c"), aside=True),
        part("alone", f"{wait.format('a')}; touch b; {wait.format('c')}; touch over", alone=True),
        part("third", "[ -e ended ]; touch c", aside=True),
        part("last", "[ -e over ]"),
    )
    assert status == 0, said


def test_part_that_would_begin_too_late_is_skipped_unless_all_must_run(checked):
    late = part("late", "echo it ran", begins_within=-1)
    status, said = checked(late)
    assert status == 0 and "late: skipped" in said and "it ran" not in said
    status, said = checked(late, arguments=["--complete"])
    assert status == 0 and "it ran" in said


def test_part_is_skipped_if_it_is_not_needed_or_another_tries_the_same(checked):
    for needed, ran in (("true", ["more"]), ("false", ["less", "later"])):
        status, said = checked(
            part("more", "echo more ran", needed=needed, covers=("less", "later")),
            part("less", "echo less ran"),
            part("later", "echo later ran", after=("less",)),
        )
        assert status == 0
        assert [name for name in ("more", "less", "later") if f"{name} ran" in said] == ran
    assert "more: skipped, because nothing has changed" in said


def test_names_of_parts_are_different_and_the_gate_has_what_it_needs():
    assert max(collections.Counter(each.name for each in parts.PARTS).values()) == 1
    gate = {each.name for each in parts.PARTS if each.gate}
    assert all(set(each.after) <= gate for each in parts.PARTS if each.gate)
    assert all(set(each.after) <= {other.name for other in parts.PARTS} for each in parts.PARTS)
