"""Waiting for the lock of a file under the patch."""

import fcntl
import time

import pytest

import syncless
from syncless.patches import patch_filelocks, unpatch

LONGEST_PAUSE = 0.05  # s, between two tries


@pytest.fixture
def patched():
    patch_filelocks()
    yield
    unpatch("filelocks")


@pytest.mark.virtual_time
@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("held", [0.0005, 0.03, 5, 60])
def test_lock_is_taken_within_50_ms_of_its_release(tmp_path, held):
    path = tmp_path / "locked"
    with path.open("w") as holder, path.open("w") as waiter:
        fcntl.flock(holder, fcntl.LOCK_EX)
        waiting = syncless.spawn(fcntl.flock, waiter, fcntl.LOCK_EX)
        syncless.sleep(held)
        fcntl.flock(holder, fcntl.LOCK_UN)
        released = time.monotonic()
        waiting.join()
        assert time.monotonic() - released <= LONGEST_PAUSE
