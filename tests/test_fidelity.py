"""The list of known differences is in order."""

from tests.fidelity import KNOWN, MODULES, is_known


def test_each_known_difference_has_a_reason_and_belongs_to_a_module_that_is_run():
    for name, about in KNOWN.items():
        assert (
            about["reason"]
            and name.split(".")[0] == "test"
            and name.split(".")[1] in {*MODULES["quick"], *MODULES["slow"]}
        )
    assert is_known("test.test_queue.CSimpleQueueTest.anything") and not is_known(
        "test.test_queue.Other.test"
    )
