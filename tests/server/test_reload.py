"""SIGHUP replaces the workers: new code, and no request is lost."""

import http.client
import os
import shutil
import signal

import pytest

from tests.supervised import APP, InFlight, Load, alive
from tests.waiting import eventually

UNTIL_GO = "time.sleep(0.01) for _ in iter(lambda: os.path.exists('go'), True)"
"""In brackets it waits until the test makes that file."""


def test_reload_brings_the_new_code_and_loses_no_request(program):
    running = program("--workers", "2")
    old = running.pids(2)
    with Load(running) as load:
        for version in (2, 3):
            (running.folder / "app.py").write_text(APP.format(version=version))
            os.utime(
                running.folder / "app.py", (version * 1000, version * 1000)
            )  # so that no stale byte code is taken for it
            running.signal(signal.SIGHUP)
            assert eventually(lambda version=version: running.get()[2] == str(version))
            assert eventually(lambda: len(running.children()) == 2)
        assert eventually(lambda: not any(alive(pid) for pid in old))
    assert load.failures == [] and {body for _, body in load.answers} == {"1", "2", "3"}


def test_a_reload_follows_the_link_that_chdir_names_anew(program, tmp_path):
    for release in ("one", "two"):
        (tmp_path / release).mkdir()
        (tmp_path / release / "release.py").write_text(APP.format(version=repr(release)))
    (tmp_path / "now").symlink_to("one")
    options = ("--chdir", "now", "--pid-file", "pid", "--bind", "unix:socket")
    running = program("--workers", "1", *options, application="release:app")
    assert running.get()[2] == "one" and (tmp_path / "one" / "socket").exists()
    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").rename(tmp_path / "now")
    running.signal(signal.SIGHUP)
    assert eventually(lambda: running.get()[2] == "two")
    (tmp_path / "now").unlink()
    running.signal(signal.SIGHUP)
    assert eventually(lambda: f"cannot change to {tmp_path / 'now'} again" in running.said())
    assert eventually(lambda: running.get()[2] == "two" and len(running.children()) == 1)
    running.end()
    assert not any((tmp_path / "one" / name).exists() for name in ("pid", "socket"))


@pytest.mark.parametrize("workers", ["0", "2"])
def test_certificates_and_static_files_below_the_link_are_new(program, tmp_path, authority, workers):
    """One process keeps its code, and the static files that belong to it."""
    for release in ("one", "two"):
        (tmp_path / release / "files").mkdir(parents=True)
        (tmp_path / release / "files" / "name").write_text(release)
        (tmp_path / release / "release.py").write_text(APP.format(version=repr(release)))
        for file, source in zip(("cert.pem", "key.pem"), authority.files("localhost", release), strict=True):
            shutil.copy(source, tmp_path / release / file)
    (tmp_path / "now").symlink_to("one")
    options = ("--chdir", "now", "--certfile", "cert.pem", "--keyfile", "key.pem", "--static", "/s/=files")
    running = program("--workers", workers, *options, application="release:app")

    def seen():
        """Releases of the certificate, of the static file and of the code."""
        context = authority.client_context()
        connection = http.client.HTTPSConnection("localhost", running.port, timeout=60, context=context)
        found = []
        for path in ("/s/name", "/"):
            connection.request("GET", path)
            if not found:
                found.append(connection.sock.getpeercert()["subjectAltName"][-1][1])
            found.append(connection.getresponse().read().decode())
        connection.close()
        return found

    assert seen() == ["one"] * 3
    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").rename(tmp_path / "now")
    running.signal(signal.SIGHUP)
    new = ["two"] * 3 if workers != "0" else ["two", "one", "one"]
    assert eventually(lambda: seen() == new), seen()


@pytest.mark.parametrize("then", [signal.SIGUSR1, signal.SIGTERM])
def test_a_request_in_flight_survives_the_reload(program, then):
    """And a stop after it: the signal would be the second one to the worker that has it."""
    running = program("--workers", "1")
    (pid,) = running.pids(1)
    request = InFlight(running)
    running.signal(signal.SIGHUP)
    assert eventually(lambda: running.get()[1] != pid)
    running.signal(then)
    assert request.end()[:2] == (200, pid)


def test_a_signal_that_comes_while_workers_are_forked_reaches_them(program):
    """They are born with their master's handlers, which must not take it."""
    late = f"os.register_at_fork(after_in_child=lambda: [{UNTIL_GO}])\n"
    running = program("--workers", "2", "--preload", code=APP + late, serves=False)
    assert eventually(lambda: len(running.children()) == 2)
    workers = running.children()
    running.signal(signal.SIGTERM)
    (running.folder / "go").touch()
    assert running.process.wait(60) == 0 and running.said() == ""
    assert not any(alive(pid) for pid in workers)


def test_a_reload_that_fails_keeps_the_old_workers(program):
    running = program("--workers", "2")
    before = running.pids(2)
    (running.folder / "app.py").write_text("raise RuntimeError('new code is broken')")
    os.utime(running.folder / "app.py", (5000, 5000))
    running.signal(signal.SIGHUP)
    assert eventually(
        lambda: "the old one keeps serving" in running.said() and "new code is broken" in running.said()
    )
    assert eventually(running.sleeps)
    assert running.pids(2) == before


def test_a_reload_while_another_one_is_under_way_brings_the_newest_code(program, tmp_path):
    slow = APP + f"open('read', 'w').close()\n[{UNTIL_GO}]\n"
    go = tmp_path / "go"
    go.touch()
    running = program("--workers", "1", code=slow)
    assert running.get()[2] == "1"
    (running.folder / "read").unlink()
    go.unlink()
    running.signal(signal.SIGHUP)
    assert eventually((running.folder / "read").exists)
    (running.folder / "app.py").write_text(slow.format(version=2))
    os.utime(running.folder / "app.py", (5000, 5000))
    running.signal(signal.SIGHUP)
    go.touch()
    assert eventually(lambda: running.get()[2] == "2")


def test_a_worker_that_is_not_ready_opens_its_logs_anew_when_it_is(program, tmp_path):
    # its log is open then
    late = "from syncless.server.program import running\n"
    late += f"running.listen_if_asked = lambda worker: [{UNTIL_GO}] and None\n"
    running = program("--workers", "1", "--access-log", "log", code=APP + late, serves=False)
    assert eventually((tmp_path / "log").exists)
    (tmp_path / "log").rename(tmp_path / "old")
    running.signal(signal.SIGUSR1)
    (tmp_path / "go").touch()
    assert running.get()[0] == 200 and eventually((tmp_path / "log").exists)
    assert running.get()[0] == 200
    assert eventually(lambda: (tmp_path / "log").read_text().endswith('"\n'))


def test_a_worker_that_is_not_ready_in_time_is_killed(program, tmp_path):
    late = f"first = not os.path.exists('begun')\nopen('begun', 'w')\nif first: [{UNTIL_GO}]\n"
    running = program("--workers", "1", "-l", "worker_boot_seconds=0.3", code=APP + late, serves=False)
    assert eventually(lambda: "which was not ready after 0.3 s" in running.said())
    assert running.get()[0] == 200


def test_reason_why_new_workers_cannot_start_is_told_once_for_each_reload(program):
    running = program("--workers", "3")
    first = set(running.pids(3))
    for number in (1, 2):
        (running.folder / "app.py").write_text("raise ValueError('the new code')")
        os.utime(running.folder / "app.py", (5000, 5000))
        running.signal(signal.SIGHUP)
        assert eventually(lambda: running.said().count("the old one keeps serving") == 3 * number)  # noqa: B023
        assert running.said().count("a new worker cannot start: app:app raised an error:") == number
        assert running.said().count("ValueError: the new code") == number
    assert set(running.pids(3)) == first


def test_preloaded_applications(program):
    running = program("--workers", "2", "--preload")
    before = running.pids(2)
    (running.folder / "app.py").write_text(APP.format(version=2))
    running.signal(signal.SIGHUP)
    assert eventually(lambda: not running.pids(2) & before)
    assert running.get()[2] == "1"  # the master's
