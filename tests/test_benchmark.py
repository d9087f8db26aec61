"""The benchmark pages and pictures are those of the results that are kept, and the results are whole."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from benchmark import instructions, report, scaling, stackless
from benchmark.__main__ import CALLS
from benchmark.engine import LIBRARIES, OPERATIONS
from benchmark.experiments import EXPERIMENTS
from benchmark.measure import cpu_ns
from benchmark.models import MODELS, TASKS

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parent.parent
NOT_RECORDED: dict[str, tuple[str, ...]] = {}
"""Experiments and peers that are to be measured in the next run; the pages say so."""
OVERFLOWING = ("syncless, raw, backlog 5", "syncless, raw, backlog 100")
"""The kernel resets connections for which there is no room: that is what these show."""


def test_pages_and_pictures_are_those_of_the_results():
    wanted = report.files()
    kept = [report.PAGE, *report.DOCS.glob("benchmarks/*.md"), *report.DOCS.glob("plots/*.svg")]
    assert {path: path.read_text() for path in kept} == wanted, "run: python -m benchmark report --write"
    for path, text in wanted.items():
        for name in re.findall(r"\]\(([^)]*\.svg)\)", text):
            assert (path.parent / name).resolve() in wanted


def test_every_experiment_has_a_chapter():
    found = [name for each in report.CHAPTERS for name in each.experiments]
    assert sorted(found) == sorted([*EXPERIMENTS, *CALLS])


BURNER = """
import os, sys, threading, time
def burn():
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
for _ in range(6):
    thread = threading.Thread(target=burn)
    thread.start()
    thread.join()
for _ in range(4):
    child = os.fork()
    if child == 0:
        burn()
        os._exit(0)
    os.waitpid(child, 0)
used = os.times()
print(time.process_time() + used.children_user + used.children_system, flush=True)
sys.stdin.read()
"""


def test_cpu_time_counts_threads_and_children_that_have_ended():
    with subprocess.Popen(
        [sys.executable, "-c", BURNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as burner:
        used = float(burner.stdout.readline())
        measured = cpu_ns(burner.pid) / 1e9
        burner.stdin.close()
    assert used > 0.45 and measured == pytest.approx(used, rel=0.1)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_peer_is_compared_with_a_row_of_ours(name):
    experiment = EXPERIMENTS[name]
    for peer in experiment.peers:
        rows = experiment.compared(peer)
        assert all(row in experiment.peers for row in rows) or not experiment.peers[0].startswith("syncless")
        assert rows or peer in experiment.ours or peer in experiment.same_work.values()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_results_are_whole(name):
    result = report.recorded(name)
    if result is None:  # added since the last run on a quiet machine
        assert name in NOT_RECORDED
        return
    assert {"command", "date", "machine", "versions"} <= result.keys()
    added = NOT_RECORDED.get(name, ())
    assert {*result["peers"], *added} == set(EXPERIMENTS[name].peers)
    for peer, entry in result["peers"].items():
        if "absent" in entry:
            assert not peer.startswith(("syncless", "log:")) and entry["absent"]
            continue
        for measured in entry["rounds"]:
            assert measured["requests"] > 0 and measured["cpu_us"] > 0 and measured["raw"]
            if peer.startswith("syncless") and (name != "burst" or peer not in OVERFLOWING):
                assert measured["errors"] == 0, "a request of ours failed under load"


def test_engine_results_are_whole():
    result = json.loads((report.RESULTS / "engine.json").read_text())
    added = {"syncless.eventlet", "gevent, our loop", "pool spawn"}  # since it was measured
    assert {*result["libraries"], *added} == {*LIBRARIES, *added}
    assert {*result["libraries"]["syncless"], *added} == {*OPERATIONS, *added}
    for name, operation in OPERATIONS.items():
        assert name in added or name in result["libraries"][operation.peer]
    for library, found in result["libraries"].items():
        assert found or library in result["absent"]
        assert all(len(values) == result["rounds"] for values in found.values())


def test_stackless_results_are_whole():
    result = json.loads((report.RESULTS / "stackless.json").read_text())
    assert set(result["libraries"]) == set(stackless.LIBRARIES) and not result["absent"]
    assert all(set(found) == set(stackless.OPERATIONS) for found in result["libraries"].values())


def test_native_threads_wait_for_no_lock_in_the_results():
    result = json.loads((report.RESULTS / "scaling.json").read_text())
    assert set(result["libraries"]) == set(scaling.THREADS) and not result["absent"]
    for found in result["libraries"].values():
        assert set(found) == set(scaling.OPERATIONS)
        assert all(len(values) == result["rounds"] for values in found.values())
        assert not any(found["waits"]) and min(found["requests"]) > 1000


def test_models_are_whole():
    result = json.loads((report.RESULTS / "models.json").read_text())
    assert set(result["libraries"]) == set(MODELS) and not result["absent"]
    for found in result["libraries"].values():
        assert set(found) == set(TASKS)
    waited = {name: min(found["sleep"]) for name, found in result["libraries"].items()}
    assert waited["naive"] > 9 and waited["patched"] < 2  # one sleep, not ten


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_instructions_are_counted_and_repeat():
    command = [sys.executable, "-m", "benchmark.instructions", "keepalive", "switch", "--requests", "1000"]
    runs = [subprocess.check_output(command, text=True, cwd=ROOT).split() for _ in range(2)]
    counts = [[int(count.replace(",", "")) for count in each[1::2]] for each in runs]
    assert all(500 < count < 50_000 for each in counts for count in each)
    # how much a poll finds, and how often there is one, depends on what else runs
    for first, second in zip(*counts, strict=True):
        assert first == pytest.approx(second, rel=0.5)


def test_load_above_its_budget_is_named(monkeypatch, capsys):
    monkeypatch.setattr(instructions, "BUDGET", {"pipelined": 3000, "keepalive": 5000})
    monkeypatch.setattr(instructions, "count", lambda name, requests, tree: 4000.0)
    monkeypatch.setattr(instructions, "PRICES", {})
    assert not instructions.within_budget()
    assert [line.endswith("too many") for line in capsys.readouterr().out.splitlines()] == [True, False]
    monkeypatch.setitem(instructions.BUDGET, "pipelined", 4000)
    assert instructions.within_budget()


def test_price_above_its_limit_is_named(monkeypatch, capsys):
    counts = {"keepalive": 1010.0, "keepalive+hello unrecorded": 1000.0}
    monkeypatch.setattr(instructions, "BUDGET", {"keepalive": 5000})
    monkeypatch.setattr(instructions, "count", lambda name, requests, tree: counts[name])
    monkeypatch.setattr(instructions, "PRICES", {"keepalive": ("keepalive+hello unrecorded", 1.005)})
    assert not instructions.within_budget()
    assert capsys.readouterr().out.endswith(
        "keepalive is 1.0100 of keepalive+hello unrecorded, of at most 1.005: too many\n"
    )
    counts["keepalive"] = 1005.0
    assert instructions.within_budget()


def test_operations_of_stackless_are_measured():
    command = [sys.executable, "-m", "benchmark.stackless", "syncless.stackless", "time", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert {name for name, cost in json.loads(done.stdout).items() if cost > 0} == {
        "schedule",
        "channel",
        "start",
    }
