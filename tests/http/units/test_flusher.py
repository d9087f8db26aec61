"""http/flusher: each owner is flushed once, at the end of the turn or earlier, whatever the others do."""

import gc
import weakref

import pytest

import syncless


@pytest.fixture
def flusher(units):
    return units.flusher()


def test_all_are_flushed_once_before_the_loop_polls(units, flusher):
    seen = []
    owners = [units.Owner(when_flushed=lambda n=n: seen.append(n)) for n in range(3)]
    for owner in owners * 2:
        units.add(flusher, owner)
    assert seen == [] and units.pending(flusher) == 3
    syncless.sleep(0.001)
    assert sorted(seen) == [0, 1, 2] and units.pending(flusher) == 0


def test_eighth_owner_has_all_flushed_at_once(units, flusher):
    seen = []
    for n in range(7):
        units.add(flusher, units.Owner(when_flushed=lambda n=n: seen.append(n)))
        assert seen == []
    units.add(flusher, units.Owner(when_flushed=lambda: seen.append(7)))
    assert sorted(seen) == list(range(8)) and units.pending(flusher) == 0


def test_end_of_a_long_turn_is_not_waited_for(units, flusher):
    seen = []
    units.add_earlier(flusher, units.Owner(when_flushed=lambda: seen.append(1)), 1_000_000)
    units.add(flusher, units.Owner(when_flushed=lambda: seen.append(2)))
    assert sorted(seen) == [1, 2]


def test_long_turn_that_is_over_makes_no_later_one_long(units, flusher):
    seen = []
    units.add_earlier(flusher, units.Owner(when_flushed=lambda: seen.append(1)), 1_000_000)
    units.flush_all(flusher)
    units.add(flusher, units.Owner(when_flushed=lambda: seen.append(2)))
    units.add(flusher, units.Owner(when_flushed=lambda: seen.append(3)))
    assert seen == [1] and units.pending(flusher) == 2
    units.flush_all(flusher)


def test_owner_may_be_added_again_while_it_is_flushed(units, flusher):
    seen = []

    def flush():
        seen.append(1)
        if len(seen) < 3:
            units.add(flusher, owner)

    owner = units.Owner(when_flushed=flush)
    units.add(flusher, owner)
    units.flush_all(flusher)
    assert seen == [1, 1, 1] and units.pending(flusher) == 0


def test_flush_may_add_more_than_there_is_room_for(units, flusher):
    """Each of them adds ten: those are flushed inside, and none is lost."""
    seen = []

    def add_ten():
        for n in range(10):
            units.add(flusher, units.Owner(when_flushed=lambda n=n: seen.append(n)))

    for _ in range(8):
        units.add(flusher, units.Owner(when_flushed=add_ten))
    assert sorted(seen) == sorted(list(range(10)) * 8) and units.pending(flusher) == 0


def test_flush_that_closes_others_leaves_them_to_be_flushed_in_vain(units, flusher):
    """One that ends is still owned until its turn, which finds that it is closed."""
    seen, closed = [], set()
    owners = {}

    def flush(n):
        seen.append((n, n in closed))
        closed.update(owners)
        owners.clear()

    for n in range(3):
        owners[n] = units.Owner(when_flushed=lambda n=n: flush(n))
        units.add(flusher, owners[n])
    gone = weakref.ref(owners[0])
    units.flush_all(flusher)
    gc.collect()
    assert [was_closed for _, was_closed in seen] == [False, True, True] and gone() is None


def test_error_in_a_flush_is_reported_and_others_are_flushed(units, flusher, reports):
    seen = []

    def fail():
        raise LookupError("mine")

    units.add(flusher, units.Owner(when_flushed=lambda: seen.append(1)))
    units.add(flusher, units.Owner(when_flushed=fail))
    units.flush_all(flusher)
    assert seen == [1] and [type(error) for _, error in reports] == [LookupError]


def test_flusher_that_ends_lets_its_owners_go(units):
    flusher = units.flusher()
    owner = units.Owner(when_flushed=lambda: None)
    gone = weakref.ref(owner)
    units.add(flusher, owner)
    del owner, flusher
    syncless.sleep(0.001)  # the loop has kept it until now
    gc.collect()
    assert gone() is None


def test_shortage_of_memory_is_raised_and_nothing_is_added(units, flusher):
    testcapi = pytest.importorskip("_testcapi")
    seen = []
    owner = units.Owner(when_flushed=lambda: seen.append(1))
    # the loop's list has room now, so the flusher itself must need no memory
    units.add(flusher, units.Owner(when_flushed=lambda: seen.append(0)))
    units.flush_all(flusher)
    failed = False
    testcapi.set_nomemory(0, 0)
    try:
        units.add(flusher, owner)
    except MemoryError:
        failed = True
    finally:
        testcapi.remove_mem_hooks()
    assert units.pending(flusher) == (0 if failed else 1)
    units.add(flusher, owner)
    units.flush_all(flusher)
    assert seen == [0, 1]
