"""Programs under `syncless run` that go on while a test talks to them."""

import signal

import pytest

from tests.contrib.commands import RUN, Command


@pytest.fixture
def begin(tmp_path):
    """begin(code, *arguments) -> a Command: `syncless run` with these arguments in the folder of the test, in
    which a file has the code."""
    running = []

    def begin(code, *arguments, name="program.py"):
        (tmp_path / name).write_text(code)
        running.append(Command(tmp_path, [*RUN, *arguments]))
        return running[-1]

    yield begin
    for each in running:
        each.end(signal.SIGKILL)
