"""A connection by itself: its parts, its cost, and the order of its phases."""

import pytest

from syncless.http import connection as phases
from syncless.http.connection import Connection


def test_idle_connection_is_one_small_object():
    assert Connection.__basicsize__ <= 192


def test_connection_is_a_watcher_and_nothing_more():
    assert [kind.__name__ for kind in Connection.__mro__] == ["Connection", "Watcher", "Runnable", "object"]


PAIRS = [(old, new) for old in phases.NAMES for new in phases.NAMES]


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_table_says_which_phase_may_follow(old, new):
    if new in phases.FOLLOWS[old]:
        phases.move(old, new)
    else:
        with pytest.raises(AssertionError, match="cannot go"):
            phases.move(old, new)
