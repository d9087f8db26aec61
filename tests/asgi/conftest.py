"""As for WSGI; the loop of the thread, which always runs, ends with each test."""

import pytest

from syncless.asyncio.resident import resident_loop
from tests.wsgi.conftest import Client, authority, errors, https, program, start

__all__ = ["Client", "authority", "errors", "https", "program", "start"]


@pytest.fixture(autouse=True)
def resident():
    loop = resident_loop()
    yield loop
    loop.close()
