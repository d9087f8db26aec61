"""Every test ends at the counts of what the engine owns with which it began, and inside a time limit."""

import gc
import os
import signal
import threading

import pytest

import syncless

# A shell that starts this in the background has it ignore Ctrl-C, and all that the tests start inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

TEST_SECONDS = float(os.environ.get("SYNCLESS_TEST_SECONDS", "60"))


@pytest.fixture(autouse=True)
def nothing_to_report(request):
    """No tasklet ends by an exception, unless the test asks for the fixture `reports`."""
    if "reports" in request.fixturenames:
        yield
        return
    seen = []
    previous = syncless.set_error_handler(lambda where, error: seen.append((where, error)))
    yield
    syncless.set_error_handler(previous)
    assert not seen, "a tasklet ended by an exception that nobody caught"


@pytest.fixture(autouse=True)
def balanced_census(request):
    """Nothing is left behind: no tasklet, timer, waiter, watched descriptor."""
    loop = syncless.current_loop()
    before = loop.census()
    with syncless.Timeout(TEST_SECONDS, AssertionError(f"the test took longer than {TEST_SECONDS} s")):
        yield
    gc.collect()
    for _ in range(200):
        if loop.census() == before:
            break
        syncless.sleep(0.005)
    assert loop.census() == before
    assert syncless.current().name == "main"


@pytest.fixture
def reports():
    """(where, exception) of each exception that nobody caught."""
    seen = []
    previous = syncless.set_error_handler(lambda where, error: seen.append((where, error)))
    yield seen
    syncless.set_error_handler(previous)


def run_in_loop(backend, function, *args):
    """function(*args) in a fresh OS thread, whose loop uses that backend; returns its result and its loop's
    census."""
    outcome = []

    def main():
        try:
            outcome.append(
                (function(*args), syncless.current_loop().backend, syncless.current_loop().census())
            )
        except BaseException as error:
            outcome.append(error)

    previous = os.environ.get("SYNCLESS_LOOP")
    os.environ["SYNCLESS_LOOP"] = backend
    try:
        thread = threading.Thread(target=main)
        thread.start()
        while thread.is_alive():
            syncless.sleep(0.002)
        thread.join()
    finally:
        if previous is None:
            del os.environ["SYNCLESS_LOOP"]
        else:
            os.environ["SYNCLESS_LOOP"] = previous
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    result, used, census = outcome[0]
    assert used == backend
    assert census["parked"] == census["timers"] == census["awaited descriptors"] == 0
    return result


@pytest.fixture(params=["epoll", "select"])
def in_backend(request):
    """Runs a function under each backend."""
    return lambda function, *args: run_in_loop(request.param, function, *args)
