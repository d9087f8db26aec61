"""The loop of the thread, which always runs, ends with each test."""

import pytest


@pytest.fixture(autouse=True)
def ended(background):
    pass
