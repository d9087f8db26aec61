"""The engine's own virtual time, for tests in this process whose waits are the engine's."""

import pytest

from syncless.testing import virtual_time


@pytest.fixture
def virtual_clock():
    with virtual_time():
        yield
