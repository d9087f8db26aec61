"""Each test has a region of its own, which its children share."""

import pytest

embedded = pytest.importorskip("syncless.shared.embedded", reason="it is built where mutexes can be robust")
from syncless.shared import area  # noqa: E402  (it needs the module)


@pytest.fixture(autouse=True)
def region(monkeypatch):
    """Room for 1,000 small entries and 64 kB of messages."""
    made = embedded.Memory(1000 * 128, 1 << 16)
    for name in ("_memory", "_store"):
        monkeypatch.setattr(area, name, made)
    return made
