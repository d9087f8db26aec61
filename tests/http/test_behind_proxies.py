"""Behind nginx and HAProxy, which keep their connections, nothing is lost while workers are replaced."""

import os
import signal

import pytest

import syncless
from tests.proxied import Proxied, missing

pytestmark = pytest.mark.slow


@pytest.fixture(params=["nginx", "haproxy"])
def proxied(request, tmp_path):
    if missing(request.param):
        pytest.skip(f"{request.param} is not installed")
    return lambda *options, **more: Proxied(request.param, tmp_path / "proxied", *options, **more)


def test_reload_loses_no_request_of_a_proxy(proxied):
    with proxied() as running:
        for _ in range(5):
            answered = running.counts["answered"]
            running.reload()
            running.until(lambda answered=answered: running.counts["answered"] > answered + 300)
    assert running.lost == [] and len(running.pids) >= 5


def test_recycling_loses_no_request_of_a_proxy(proxied):
    with proxied("-l", "worker_requests=300", "-l", "worker_requests_jitter=100") as running:
        running.until(lambda: len(running.pids) >= 7)
    assert running.lost == []


def test_killed_worker_loses_only_the_requests_in_it(proxied):
    """No connection has more than one request in a worker at a time."""
    with proxied() as running:
        running.until(lambda: running.counts["answered"] > 300)
        for _ in range(3):
            victim = min(running.workers())
            lost = len(running.lost)
            os.kill(victim, signal.SIGKILL)
            running.until(
                lambda victim=victim: victim not in running.workers() and len(running.workers()) == 2
            )
            answered = running.counts["answered"]
            running.until(lambda answered=answered: running.counts["answered"] > answered + 300)
            assert len(running.lost) - lost <= running.wanted


def test_time_in_a_proxy_is_known(proxied, tmp_path):
    log = tmp_path / "queued.log"
    trust = ("--trusted", "127.0.0.1", "--trusted-field", "x-request-start")
    with proxied(*trust, "--access-log", str(log), "--access-log-format", "%Q", workers=1) as running:
        running.until(lambda: running.counts["answered"] > 20)
    waited = log.read_text().split()
    assert len(waited) > 20 and all(us.isdecimal() for us in waited)
    assert running.lost == []


@pytest.mark.parametrize("options", [(), ("-l", "body_bytes=1000")])
def test_answer_to_unread_upload_passes_through_a_proxy(proxied, options):
    """It is not destroyed by a reset, which the proxy would answer with a 502."""
    size = 12_000_000
    with proxied(*options, workers=1, clients=0) as running:

        def upload():
            with running.connect() as client:
                sending = syncless.spawn(send, client)
                answer = b""
                while b"\r\n\r\n" not in answer and (data := client.recv(65536)):
                    answer += data
                sending.kill()
                return answer[:12]

        def send(client):
            try:
                client.sendall(
                    f"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n".encode()
                    + bytes(size)
                )
            except OSError:
                pass  # the proxy may read no further

        answers = [syncless.spawn(upload) for _ in range(12)]
        assert {one.result() for one in answers} == {b"HTTP/1.1 413" if options else b"HTTP/1.1 403"}
