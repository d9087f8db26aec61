"""Each test has a region of its own, which its children share."""

import pytest

memory = pytest.importorskip("syncless.shared.memory", reason="it is built where mutexes can be robust")
from syncless.shared import area  # noqa: E402  (it needs the module)


@pytest.fixture(autouse=True)
def region(monkeypatch):
    """Room for 1,000 small entries and 64 kB of messages."""
    made = memory.Region(1000 * 128, 1 << 16)
    monkeypatch.setattr(area, "_region", made)
    return made
