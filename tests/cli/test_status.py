"""``syncless status``: a server's status in a terminal."""

import json
import socket
import subprocess
import sys

import pytest

import syncless
from syncless.cli.status import _stalls as stalls
from syncless.cli.status import duration, lines
from tests.cli.terminal import Terminal
from tests.cli.test_loading import environment
from tests.status.seen import WAITS_AT
from tests.status.test_status import Asking, in_flight
from tests.waiting import eventually

COMMAND = [sys.executable, "-m", "syncless", "status"]


def status(*arguments, cwd=None, **variables):
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_status_shows_workers_and_requests(seen):
    running = seen("--workers", "2")
    address = f"unix:{running.path}"
    with Asking(running, "/event/%1b%5b31m"):
        assert eventually(lambda: in_flight(running.status()))
        done = status(address)
    assert done.returncode == 0 and done.stderr == "" and "\033" not in done.stdout
    for pid in running.children():
        assert f"{pid}" in done.stdout
    assert "GET /event/\\x1b[31m" in done.stdout and WAITS_AT in done.stdout
    where = f"on http://127.0.0.1:{running.port}/"
    assert f"syncless {syncless.__version__} {where}" in done.stdout and "ready" in done.stdout
    # the same address from the configuration, from the environment, and as JSON
    (running.folder / "syncless.toml").write_text(f'status = "{address}"\n')
    assert status(cwd=running.folder).returncode == 0
    assert json.loads(status("--json", SYNCLESS_STATUS=address).stdout)["master"] == running.process.pid


def test_functions_that_were_offloaded_are_told_with_what_keeps_them_so():
    cure = {"function": "cv2.resize", "at": 0.0, "stalls": 3, "configuration": ""}
    workers = [{"pid": pid, "recent_stalls": [], "self_cures": [cure]} for pid in (1, 2)]
    assert list(stalls(workers, 80, False)) == [
        "offloaded after 3 stalls: cv2.resize",
        '  keep it in syncless.toml: [patch] offload = ["cv2.resize"]',
    ]


def test_watch_shows_it_anew_until_ctrl_c(seen):
    running = seen()
    with Terminal([*COMMAND, f"unix:{running.path}", "--watch"], environment(), running.folder) as terminal:
        terminal.read("\033[H\033[J")
        with Asking(running, "/event/of-ours?3"):
            terminal.read("/event/of-ours")
        running.end()
        terminal.read("no server listens")
        terminal.press("\x03")
        assert terminal.process.wait(60) == 0
        assert terminal.read().endswith("\033[?25h\033[?1049l")


def test_missing_server_is_reported_with_advice(tmp_path):
    done = status(f"unix:{tmp_path}/nobody")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == (
        f"syncless status: no server listens at unix:{tmp_path}/nobody; "
        f"start one with --status unix:{tmp_path}/nobody\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert "no server listens at" in status(f":{port}").stderr


def test_no_address_is_told(tmp_path):
    done = status(cwd=tmp_path)
    assert done.returncode == 1 and "write its address" in done.stderr
    (tmp_path / "syncless.toml").write_text("workers = 2\n")
    assert "syncless.toml has no `status`" in status(cwd=tmp_path).stderr


def test_another_server_is_told_from_a_status(seen):
    running = seen()
    done = status(f"127.0.0.1:{running.port}")
    assert done.returncode == 1 and "is not a syncless status address" in done.stderr


def test_wrong_address_is_told():
    done = status("nonsense")
    assert done.returncode == 2 and "invalid address" in done.stderr


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 ms"), (0.0123, "12.3 ms"), (0.5, "0.5 s"), (99, "99.0 s"), (600, "10 min"), (7300, "2 h")],
)
def test_durations_are_short(seconds, text):
    assert duration(seconds) == text


def test_lines_are_as_wide_as_the_terminal(seen):
    running = seen()
    with Asking(running, "/event/" + "long" * 100 + "?1"):
        assert eventually(lambda: in_flight(running.status()))
        told = running.status()
    assert all(len(line) <= 80 for line in lines(told, 80, False))
