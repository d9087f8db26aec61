"""Tests wait for what is to happen, and not for a time that a loaded machine may not keep."""

import time

import syncless


def eventually(condition, seconds=60):
    """Whether the condition holds within that time, which only guards against hanging."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        syncless.sleep(0.005)
    return True
