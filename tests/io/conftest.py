"""A name server, and configuration that names it."""

import pytest

from syncless.io import dns
from tests.io.lookups import Files


@pytest.fixture
def files(tmp_path):
    yield Files(tmp_path)
    dns.configure()
    dns.use("dns")


@pytest.fixture
def server(files):
    from tests.io.nameserver import NameServer  # which needs dnspython

    with NameServer() as running:
        files.configure(running.port)
        yield running
