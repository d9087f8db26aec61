"""The simulator: a seed brings an episode back, and what is wrong is told."""

import subprocess
import sys

import pytest

from syncless._core.loop import checked
from tests import needs, virtualtime
from tests.simulate.mutations import MUTATIONS, ROOT


def simulate(*arguments):
    command = [sys.executable, "-m", "tests.simulate", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not checked, reason="only builds with assertions explore schedules")
@pytest.mark.skipif(not virtualtime.AVAILABLE, reason="the virtual clock needs Linux and glibc")
@needs.HTTP2
def test_twenty_seeds_go_the_same_way_twice():
    pytest.importorskip("h2.connection", reason="good clients speak HTTP/2 by the library h2: pip install h2")
    code, said = simulate("--seed", "1", "--episodes", "20", "--twice", "--verbose")
    assert code == 0, said
    assert "20 episodes" in said and "did not go the same way" not in said
    code, again = simulate("--seed", "11", "--episodes", "10", "--verbose")
    known = [line for line in said.splitlines() if "digest" in line]
    assert [line for line in again.splitlines() if "digest" in line] == known[10:]


def test_each_fault_that_is_made_on_purpose_still_fits_its_source():
    for mutation in MUTATIONS:
        for file, old, _ in mutation.changes():
            found = (ROOT / file).read_text().count(old)
            assert found == 1, f"mend or drop it in mutations.py: {mutation.name}"
