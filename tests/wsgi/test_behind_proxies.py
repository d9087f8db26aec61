"""Behind nginx and HAProxy, which keep their connections, nothing is lost while workers are replaced."""

import os
import signal

import pytest

from tests.proxied import Proxied, missing


@pytest.fixture(params=["nginx", "haproxy"])
def proxied(request, tmp_path):
    if missing(request.param):
        pytest.skip(f"{request.param} is not installed")
    return lambda *options: Proxied(request.param, tmp_path / "proxied", *options)


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
            running.until(lambda victim=victim: victim not in running.workers() and len(running.workers()) == 2)
            answered = running.counts["answered"]
            running.until(lambda answered=answered: running.counts["answered"] > answered + 300)
            assert len(running.lost) - lost <= running.wanted
