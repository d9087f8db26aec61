"""Schedules find faults that syncless has had: those of tests/testing/faults.py that need no compiler."""

import pytest

from tests.testing.faults import FAULTS, look, missing

QUICK = [fault for fault in FAULTS if fault.file.endswith(".py") and "httpx" not in fault.program]


@pytest.mark.wide
@pytest.mark.parametrize("fault", QUICK, ids=lambda fault: fault.name.replace(" ", "-"))
def test_a_fault_of_the_past_is_found(fault):
    if (needed := missing(fault)) is not None:
        pytest.skip(f"needs {needed}")
    assert look(fault, False)["seed"] is None
    assert look(fault, True)["seed"] is not None
