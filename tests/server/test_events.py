"""Each event in the life of a server is an entry of its error log."""

import json
import os
import re
import shutil
import signal

import pytest

from tests.supervised import InFlight
from tests.waiting import eventually

SECONDS = r"\d+\.\d{3} s"
READY, STOPPED = f"ready after {SECONDS}", f"stopped after {SECONDS}"


def events_of(running, pid):
    return [event for process, event in running.events() if process == pid]


def matches(events, *patterns):
    return len(events) == len(patterns) and all(map(re.fullmatch, patterns, events))


@pytest.mark.parametrize("workers", [0, 2])
def test_server_tells_of_its_start_and_its_stop(program, workers):
    running = program(*(["--workers", str(workers)] if workers else []))
    running.tells(READY)
    request = InFlight(running)
    running.signal(signal.SIGTERM)
    pid, _ = running.tells("stop begins: 1 request in flight")
    request.end()
    running.process.wait(60)
    told = events_of(running, running.process.pid)
    if workers:
        assert pid in {pid for pid, event in running.events() if re.fullmatch(STOPPED, event)}
        start = r"syncless \S+ starts 2 workers of Python 3\.\d+\S*"
        assert matches(told, start, READY, "stop begins: 2 workers", STOPPED), told
    else:
        assert matches(told, READY, "stop begins: 1 request in flight", STOPPED), told
    assert running.said() == ""


@pytest.mark.parametrize("workers", [0, 1])
def test_second_signal_and_delay_are_told(program, workers):
    running = program("--workers", str(workers), "-l", "stop_delay_seconds=60")
    request = InFlight(running)
    running.signal(signal.SIGTERM)
    running.tells("stop begins in 60 s; a second signal begins it now")
    running.signal(signal.SIGTERM)
    running.tells("stop begins: 1 request in flight")
    running.signal(signal.SIGTERM)
    running.tells("second signal: stops at once")
    assert request.result()[0] == 503


def test_reload_is_told_with_each_worker(program):
    running = program("--workers", "2")
    old = running.pids(2)
    running.signal(signal.SIGHUP)
    running.tells(f"reload done: 2 of 2 workers replaced after {SECONDS}")
    told = events_of(running, running.process.pid)[2:]
    replaced = r"worker (\d+) replaces worker (\d+) \(reload\)"
    assert matches(told, "reload begins: 2 workers to be replaced", replaced, replaced, "reload done.*"), told
    assert {int(re.fullmatch(replaced, event)[2]) for event in told[1:3]} == old


def test_failed_reload_tells_that_nobody_was_replaced(program):
    running = program("--workers", "2")
    running.pids(2)
    (running.folder / "app.py").write_text("raise RuntimeError('new code is broken')")
    os.utime(running.folder / "app.py", (5000, 5000))
    running.signal(signal.SIGHUP)
    running.tells(f"reload done: 0 of 2 workers replaced after {SECONDS}")


def test_limit_for_which_a_worker_is_replaced_is_named(program):
    running = program("--workers", "1", "-l", "worker_requests=5")
    (first,) = running.pids(1)
    for _ in range(4):
        running.get()
    _, found = running.tells(r"worker (\d+) replaces worker (\d+) \(worker_requests\)")
    assert int(found[2]) == first != int(found[1])


def test_number_of_workers_is_told(program):
    running = program("--workers", "1")
    running.signal(signal.SIGTTIN)
    running.tells("SIGTTIN: 2 workers instead of 1")
    running.signal(signal.SIGTTOU)
    running.tells("SIGTTOU: 1 worker instead of 2")


@pytest.mark.parametrize("workers", [0, 1])
def test_new_log_files_are_told_in_them(program, workers):
    running = program("--workers", str(workers), "--error-log", "log")
    log = running.folder / "log"
    assert eventually(lambda: "ready" in log.read_text())
    log.rename(running.folder / "old")
    running.signal(signal.SIGUSR1)
    told = f"[{running.process.pid}] [INFO] log files reopened"
    assert eventually(lambda: log.exists() and told in log.read_text())
    running.end()
    assert re.search(f"{STOPPED}\n$", log.read_text())


def test_new_certificates_are_told(program, authority):
    files = dict(zip(("--certfile", "--keyfile"), authority.files("localhost"), strict=True))
    running = program(*(word for pair in files.items() for word in map(str, pair)))
    running.signal(signal.SIGHUP)
    running.tells("certificates reloaded")
    shutil.copy(files["--keyfile"], files["--certfile"])
    running.signal(signal.SIGHUP)
    assert eventually(lambda: "cannot reopen the certificates" in running.said())
    assert len(events_of(running, running.process.pid)) == 2


def test_hangup_of_one_process_without_certificates_says_what_would_help(program):
    running = program()
    running.signal(signal.SIGHUP)
    running.tells("SIGHUP: no certificates to reload; new code needs --workers, or a restart")


def test_json(program):
    running = program("--workers", "1", "--error-log-format", "json")
    running.end()
    told = [json.loads(line) for line in (running.folder / "errors").read_text().splitlines()]
    assert {entry["level"] for entry in told} == {"INFO"}
    assert told[0].keys() == {"time", "level", "pid", "message"} and "starts 1 worker" in told[0]["message"]


@pytest.mark.parametrize("quiet", [["--quiet"], ["--log-level", "warning"]])
@pytest.mark.parametrize("workers", [0, 1])
def test_quiet_server_tells_nothing(program, workers, quiet):
    running = program("--workers", str(workers), "--bind", "unix:socket", *quiet, serves=False)
    assert eventually((running.folder / "socket").exists)
    assert eventually(running.sleeps)
    for number in (signal.SIGHUP, signal.SIGUSR1):
        running.signal(number)
    assert running.end() == "" and (running.folder / "errors").read_text() == ""


def test_full_disk_does_the_master_no_harm(program):
    with open("/dev/full", "wb") as full:
        reloads_and_ends(program("--workers", "1", stderr=full))


def test_log_that_nobody_reads_does_the_master_no_harm(program):
    read, write = os.pipe()
    os.set_blocking(write, False)
    with open(write, "wb", buffering=0) as pipe, open(read, "rb"):
        while pipe.write(bytes(1 << 12)):
            pass
        reloads_and_ends(program("--workers", "1", stderr=pipe))


def reloads_and_ends(running):
    for _ in range(2):
        (old,) = running.pids(1)
        running.signal(signal.SIGHUP)
        assert eventually(lambda old=old: running.get()[1] != old)
    running.process.terminate()
    assert running.process.wait(60) == 0
