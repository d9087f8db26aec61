"""A run of the benchmark is recorded on a quiet machine only; figures in prose are those of the tables."""

import contextlib
import dataclasses
import itertools
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

from benchmark import __main__ as program
from benchmark import chapters, quiet, report, tables
from benchmark.experiments import EXPERIMENTS
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
ROOT = pathlib.Path(__file__).parent.parent
STAT = """cpu  {user} 0 0 {idle} 0 0 0 {stolen} 0 0
cpu0 0 0 0 0 0 0 0 0 0 0
cpu1 0 0 0 0 0 0 0 0 0 0
intr 1
"""


@pytest.fixture
def run(monkeypatch, tmp_path):
    """run(stats, cpu_us, *arguments) -> (exit status, the recorded result or None). `stats`: user, idle and
    stolen ticks at the three looks at the machine; `cpu_us`: of the rounds of ours."""

    def begin(stats, cpu_us, *arguments):
        looks = itertools.cycle(stats)
        monkeypatch.setattr(quiet, "SECONDS", 0)
        monkeypatch.setattr(
            quiet,
            "STAT",
            type("Stat", (), {"read_text": lambda self: STAT.format_map(dict(next(looks)))})(),
        )
        monkeypatch.setattr(report, "RESULTS", tmp_path)
        monkeypatch.setattr(sys, "argv", ["benchmark", "wsgi-hello", *arguments])
        monkeypatch.setattr(program, "run_experiment", lambda *given: made_up(cpu_us))
        status = program.main()
        path = tmp_path / "wsgi-hello.json"
        return status, json.loads(path.read_text()) if path.exists() else None

    return begin


def made_up(cpu_us):
    latency = {"p50": 1, "p99": 2, "max": 3}
    rounds = [
        {"cpu_us": each, "rate": 1e6 / each, "requests": 1, "errors": 0, "latency_ms": latency, "raw": "-"}
        for each in cpu_us
    ]
    return {
        "name": "wsgi-hello",
        "title": "Hello",
        "peers": {"syncless": {"version": "1", "rounds": rounds}, "bjoern": {"absent": "it is not here"}},
    }


def looks(before=0, stolen_before=0, stolen=0):
    """At the machine: others use `before` of 1,000 ticks before the run, of which it then takes 1,000."""
    first = {"user": 5000, "idle": 5000, "stolen": 100}
    second = {
        "user": 5000 + before,
        "idle": 6000 - before - stolen_before,
        "stolen": 100 + stolen_before,
    }
    third = {
        "user": second["user"] + 1000,
        "idle": second["idle"] + 1000,
        "stolen": second["stolen"] + stolen,
    }
    return [first, second, third]


def test_run_on_a_quiet_machine_is_recorded_with_its_conditions(run):
    status, result = run(looks(before=50, stolen=20), [10.0, 12.5])
    assert status == 0
    assert result["conditions"] == {"load_before": 0.1, "steal": 0.0099, "spread": 1.25}
    assert result["machine"] and result["date"] and "commit" in result


@pytest.mark.parametrize(
    ("stats", "cpu_us", "arguments", "said"),
    [
        (looks(before=300), [10.0], [], "not measured: other programs used 0.60 processors before it"),
        (looks(stolen_before=300), [10.0], [], "not measured: other programs used 0.60 processors"),
        (looks(stolen=100), [10.0], [], "not recorded: other machines took 4.8% of the CPU time"),
        (looks(), [10.0, 16.0], [], "not recorded: rounds of ours differ by a factor of 1.60"),
        (looks(), [10.0], ["--peers", "bjoern"], "not recorded: only some peers were measured"),
    ],
)
def test_run_that_would_mislead_is_not_recorded(run, monkeypatch, capsys, stats, cpu_us, arguments, said):
    monkeypatch.setattr(program, "ATTEMPTS", 1)
    status, result = run(stats, cpu_us, *arguments)
    assert status == 1 and result is None
    assert said in capsys.readouterr().err


def test_what_the_noise_of_the_machine_spoilt_is_measured_again_after_the_rest(run, monkeypatch, capsys):
    disturbed, quiet_run = [*looks(stolen=100)], [*looks()]
    monkeypatch.setattr(quiet, "commit", str)
    looked = [*disturbed, *quiet_run, *quiet_run]
    status, result = run(looked, [10.0], "wsgi-json")
    assert status == 0 and result["conditions"]["steal"] == 0
    ended = re.findall(r"(\S+): (not recorded|ended after \d+ s)", capsys.readouterr().err)
    assert [name for name, end in ended if end != "not recorded"] == ["wsgi-hello", "wsgi-json", "wsgi-hello"]


def test_rounds_under_a_fixed_rate_agree_in_their_latency(run, monkeypatch):
    other = dataclasses.replace(EXPERIMENTS["wsgi-hello"], agrees="p99")
    monkeypatch.setitem(EXPERIMENTS, "wsgi-hello", other)
    status, result = run(looks(), [10.0, 30.0])
    assert status == 0 and result["conditions"]["spread"] == 1


def test_run_goes_on_where_an_earlier_one_has_ended(run, monkeypatch):
    """What was recorded of the same code, with as many rounds, is left out."""
    same = True
    monkeypatch.setattr(quiet, "commit", lambda: "made-up")
    monkeypatch.setattr(quiet, "is_as_in", lambda commit, *paths: commit == "made-up" and same)
    assert run(looks(), [10.0, 10.0])[1]["peers"]["syncless"]["rounds"][0]["cpu_us"] == 10
    again = ["--continue", "--rounds", "2"]
    assert run([], [20.0, 20.0], *again)[1]["peers"]["syncless"]["rounds"][0]["cpu_us"] == 10
    assert run(looks(), [20.0, 20.0], "--continue")[1]["peers"]["syncless"]["rounds"][0]["cpu_us"] == 20
    same = False
    assert run(looks(), [30.0, 30.0], *again)[1]["peers"]["syncless"]["rounds"][0]["cpu_us"] == 30


def test_commit_is_called_changed_by_files_that_are_no_results(tmp_path, monkeypatch):
    def git(*arguments):
        names = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *names, *arguments], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "benchmark" / "results").mkdir(parents=True)
    monkeypatch.setattr(quiet, "__file__", str(tmp_path / "benchmark" / "quiet.py"))
    assert quiet.commit() == ""
    code, result = tmp_path / "code.py", tmp_path / "benchmark" / "results" / "a.json"
    for path in (code, result):
        path.write_text("1")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    result.write_text("2")
    commit = quiet.commit()
    assert len(commit) == 12 and quiet.is_as_in(commit, ":/code.py")
    code.write_text("2")
    assert quiet.commit() == f"{commit}-dirty" and not quiet.is_as_in(commit, ":/code.py")


def test_quick_run_is_not_recorded(run):
    assert run([], [10.0], "--quick") == (0, None)


def test_table_of_some_peers_leaves_out_what_is_said_of_the_others():
    ours = made_up([10.0])["peers"]["syncless"]
    result = {"name": "asgi-requests", "title": "Calls", "peers": {"syncless (ASGI)": ours}}
    assert "syncless (ASGI)" in report.table(result) and not tables.missed(result)


def test_table_says_under_which_conditions_it_was_made(run):
    result = run(looks(before=50), [10.0])[1]
    origin = report.tables_of(["wsgi-hello"]).partition("<small>")[2].replace("\n", " ")
    assert f"commit {result['commit']}; load before at most 0.10." in origin


FIGURE = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?= ?(?:%|(?:times|[nµm]?s|bytes|[kM]B|requests/s)\b))")


def test_figures_in_prose_are_in_the_tables():
    """What the README and the pages of benchmarks say beside their tables is not generated."""
    readme = re.sub(r"^```.*?^```", "", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    prose = [readme, *(each.introduction for each in chapters.CHAPTERS)]
    prose += [each.note for each in EXPERIMENTS.values()]
    pages = (path.read_text() for path in report.DOCS.glob("benchmarks/*.md"))
    rows = [line for page in pages for line in page.splitlines() if line.startswith("|")]
    known = set(re.findall(r"\d[\d,]*(?:\.\d+)?", "\n".join(rows))) | {
        str(each) for each in chapters.THEN.values()
    }
    assert set(FIGURE.findall("as 1,234 µs, 5.6 times and 7 %")) == {"1,234", "5.6", "7"}
    assert {each for text in prose for each in FIGURE.findall(text)} <= known


def has_socket(pid):
    with contextlib.suppress(OSError):  # it closes files, too
        return any("socket:" in str(fd.readlink()) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir())


def servers_of(pid):
    """The children of the process that have opened a socket."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return list(filter(has_socket, children))


@pytest.mark.slow
def test_run_that_is_terminated_ends_the_server_that_it_measures():
    own = "syncless, timer tasklet"
    command = [sys.executable, "-m", "benchmark", "calllater", "--quick", "--peers", own]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr.readline() == f"calllater: round 1 of 1, {own}\n"
            assert eventually(lambda: servers_of(running.pid))
            [server] = servers_of(running.pid)
            running.terminate()
            assert running.wait(60) == 128 + signal.SIGTERM
            assert not pathlib.Path(f"/proc/{server}").exists()
        finally:
            running.kill()
