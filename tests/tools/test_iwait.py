"""iwait: tasklets and results in the order of their ending."""

import pytest

import syncless
from syncless import (
    Event,
    iwait,
    sleep,
    spawn,
)

pytestmark = pytest.mark.virtual_time


def test_iwait():
    tasklets = [spawn(lambda each=each: (sleep(each / 100), each)[1]) for each in (3, 1, 2)]
    assert [each.result() for each in iwait(tasklets)] == [1, 2, 3]
    events = [Event() for _ in range(3)]
    events[1].set()
    assert (
        list(iwait(events, timeout=0.01)) == [events[1]]
        and list(iwait(events, count=1)) == [events[1]]
        and list(iwait([])) == []
    )
    assert syncless.wait(events, 0.001, 1) == [events[1]]
    assert list(iwait(tasklets, count=5)) == tasklets  # no more than there are
