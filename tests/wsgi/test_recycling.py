"""Workers that are replaced: after many requests, with age, with too much memory, or because they hang."""

import http.client
import os

import pytest

from syncless.http.program.worker import most_requests
from syncless.wsgi import Limits
from tests.waiting import eventually
from tests.wsgi.supervised import APP, Load, alive


def test_a_worker_that_wants_to_be_replaced_is_in_the_end(program):
    """Although its first successors cannot start."""
    running = program("--workers", "1", "-l", "worker_seconds=0.5")
    assert running.get()[0] == 200
    (running.folder / "app.py").write_text("raise RuntimeError('new code is broken')")
    os.utime(running.folder / "app.py", (5000, 5000))
    assert eventually(lambda: running.said().count("the old one stays; another one starts in") >= 2)
    assert running.get()[2] == "1"
    (running.folder / "app.py").write_text(APP.format(version=2))
    os.utime(running.folder / "app.py", (6000, 6000))
    assert eventually(lambda: running.get()[2] == "2")


@pytest.mark.parametrize(("jitter", "seen"), [(0, {50}), (3, {50, 51, 52, 53})])
def test_workers_ask_to_be_replaced_at_different_numbers_of_requests(jitter, seen):
    limits = Limits(worker_requests=50, worker_requests_jitter=jitter)
    assert {most_requests(limits) for _ in range(1000)} == seen
    assert most_requests(Limits(worker_requests_jitter=3)) == 0


def test_recycling_by_number_of_requests(program):
    running = program("--workers", "2", "-l", "worker_requests=50", "-l", "worker_requests_jitter=20")
    first = running.pids(2)
    with Load(running) as load:
        assert eventually(lambda: len({pid for pid, _ in list(load.answers)}) >= 5)
    assert load.failures == [] and eventually(lambda: not any(alive(pid) for pid in first))
    assert running.said() == ""


def test_recycling_by_age_and_by_memory(program):
    running = program("--workers", "1", "-l", "worker_seconds=0.5")
    (first,) = running.pids(1)
    assert eventually(lambda: running.get()[1] != first)
    running.end()
    running = program("--workers", "1", "-l", "worker_memory_bytes=100000000")
    (first,) = running.pids(1)
    for _ in range(3):
        running.get("/eat")
    assert eventually(lambda: running.get()[1] != first)


def test_a_loop_that_stands_still_is_told_with_its_stack_and_killed(program):
    running = program("--no-patch", "--workers", "1", "-l", "worker_stuck_seconds=0.6")
    (first,) = running.pids(1)
    with pytest.raises((http.client.HTTPException, OSError)):
        running.get("/block?30")
    assert eventually(lambda: running.get()[1] != first)
    said = running.said()
    line = APP.splitlines().index("        time.sleep(float(query))") + 1
    assert (
        "has stood still for 0.6 s" in said
        and "Fatal Python error: Aborted" in said
        and f'app.py", line {line} in app' in said
    )
