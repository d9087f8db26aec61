"""For how long an interrupted tasklet goes on, to end its query. No servers: their processes would hold the
virtual clock."""

import time

import pytest

import syncless
from syncless.patches import queries

pytestmark = pytest.mark.virtual_time


def test_interrupted_tasklet_goes_on_for_a_second_at_most():
    told = []

    def end_query():
        queries.cancel_until(syncless.Event().wait, lambda: told.append(round(time.monotonic() - began, 6)))

    def work():
        queries.finish(end_query)
        told.append(round(time.monotonic() - began, 6))
        with pytest.raises(KeyError, match="meanwhile"):
            syncless.sleep(9)

    began = time.monotonic()
    working = syncless.spawn(work)
    syncless.sleep(0.25)
    working.kill(KeyError("meanwhile"), block=False)
    working.join()
    assert told[:10] == [number / 10 for number in range(10)] and told[-1] == queries.CANCEL_SECONDS


def test_interrupted_request_goes_on_for_its_limit_at_most(start):
    def app(environ, start_response):
        try:
            syncless.sleep(9)
        finally:
            began = time.monotonic()
            queries.finish(queries.cancel_until, syncless.Event().wait, lambda: None)
            told.append(round(time.monotonic() - began, 6))

    told = []
    for seconds in (0.25, 2.5):
        server = start(app, request_seconds=0.5, cancel_seconds=seconds)
        assert start.client(server).get("/")[0] == 503
    assert told == [0.25, 2.5]


def test_interrupted_tasklet_goes_on_as_soon_as_its_query_has_ended():
    began = time.monotonic()
    queries.finish(queries.cancel_until, lambda: syncless.sleep(0.03), lambda: None)
    assert round(time.monotonic() - began, 6) == 0.03
