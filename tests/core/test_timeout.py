"""deadline: the time of a block."""

import time

import pytest

from syncless import (
    deadline,
    sleep,
)

pytestmark = pytest.mark.virtual_time


def test_deadlines_nest():
    started = time.monotonic()
    with pytest.raises(TimeoutError, match="deadline"), deadline(0.02), deadline(30):
        sleep(10)
    with pytest.raises(TimeoutError), deadline(30), deadline(0.01):
        sleep(10)
    with deadline(5), deadline(None):
        sleep(0)
    with pytest.raises(ValueError, match="mine"), deadline(5):
        raise ValueError("mine")
    with pytest.raises(TimeoutError), deadline(0.01):
        try:
            sleep(10)
        except Exception:
            raise AssertionError("it was swallowed") from None
    assert time.monotonic() - started < 5
