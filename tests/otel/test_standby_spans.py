"""Requests of standby threads are traced like others, and one that holds its thread has its whole time."""

import re

import pytest

from syncless._core.poll.backends import BACKENDS
from tests.server.test_standby import Held

pytestmark = pytest.mark.skipif("epoll" not in BACKENDS, reason="threads stand by where there is epoll")

SERVER = 2
ROUTED = """
import time
plain = app

def app(environ, start_response):
    environ["http.route"] = "/" + environ["PATH_INFO"].split("/")[1]
    if environ["PATH_INFO"] == "/waits":
        time.sleep(0.001)
    return plain(environ, start_response)
"""


def test_held_request_and_those_of_the_thread_that_took_over_are_spans(program, tmp_path, collector):
    held = Held(program, tmp_path, "--otel", collector.url, more=ROUTED)
    try:
        slow, quick = held.client(), held.client()
        held.begin(slow)
        _, other, _ = quick.get("/waits")
        held.release()
        status, thread, _ = slow.response()
        assert status == 200 and thread["x-thread"] != other["x-thread"]
    finally:
        held.close()
    held.program.end()
    spans = {span.attributes.get("url.path", span.name): span for span in collector.spans}
    holding, taken, wait = spans["/hold/0"], spans["/waits"], spans["sleep"]
    assert holding.start < taken.start < wait.start < wait.end <= taken.end < holding.end
    assert wait.parent == taken.id and holding.trace != taken.trace
    assert (holding.name, taken.name) == ("GET /hold", "GET /waits")
    assert {span.attributes["http.response.status_code"] for span in (holding, taken)} == {200}
    [(name, attributes)] = holding.events
    assert (name, taken.events) == ("syncless.takeover", [])
    assert 0 < attributes["syncless.held_seconds"] < (holding.end - holding.start) / 1e9
    assert re.search(r"\.py:\d+$", attributes["syncless.held_at"])
