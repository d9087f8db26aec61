"""As for WSGI; the loop of the thread, which always runs, ends with each test."""

import pytest

from syncless.asyncio.backgroundloop import background_loop
from tests.wsgi.conftest import Client, authority, errors, https, program, start

__all__ = ["Client", "authority", "errors", "https", "program", "start"]


@pytest.fixture(autouse=True)
def background():
    loop = background_loop()
    yield loop
    loop.close()
