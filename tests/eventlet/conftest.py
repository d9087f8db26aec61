"""A test that waits for ever fails."""

import pytest

import syncless


@pytest.fixture(autouse=True)
def bounded():
    with syncless.Timeout(60):
        yield
