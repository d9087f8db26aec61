"""http/deadlines: when owners expire. No test waits: the time of a look is given."""

import gc
import weakref

import pytest

import syncless

SECOND = 10**9


@pytest.fixture
def times(units):
    made = units.Times(_1=1, _2=10, _3=0.5)
    yield made
    made.close()


def test_deadlines_of_a_kind_expire_in_the_order_of_their_start(units, times):
    seen = []
    owners = [units.Owner(lambda kind, n=n: seen.append((n, kind))) for n in range(4)]
    for owner in owners:
        times.start(owner, 1)
    assert times.listed(1) == owners and times.count == 4
    times.start(owners[1], 1)  # again: now the last
    assert times.listed(1) == [owners[0], owners[2], owners[3], owners[1]]
    assert times.expire_due(owners[3].when) == owners[1].when or not times.count
    times.expire_due(owners[1].when)
    assert seen == [(0, 1), (2, 1), (3, 1), (1, 1)] and times.count == 0
    assert all(owner.kind == 0 for owner in owners)


def test_nothing_expires_before_its_time(units, times):
    owner = units.Owner(lambda kind: pytest.fail("too early"))
    times.start(owner, 2)
    assert times.expire_due(owner.when - 1) == owner.when
    assert times.began(owner) == owner.when - 10 * SECOND
    times.stop(owner)
    assert times.expire_due(owner.when + 1) == -1


def test_stopped_node_leaves_list_whole_wherever_it_stands(units, times):
    for place in range(3):
        owners = [units.Owner() for _ in range(3)]
        for owner in owners:
            times.start(owner, 1)
        times.stop(owners[place])
        times.stop(owners[place])  # twice is once
        del owners[place]
        assert times.listed(1) == owners
        for owner in owners:
            times.stop(owner)
        assert times.listed(1) == []


def test_new_kind_takes_the_place_of_the_one_that_runs(units, times):
    owner = units.Owner()
    times.start(owner, 1)
    times.start(owner, 2)
    assert times.listed(1) == [] and times.listed(2) == [owner] and owner.kind == 2
    times.stop(owner)


def test_timer_is_set_to_the_earliest(units, times):
    late, early = units.Owner(), units.Owner()
    times.start(late, 2)
    assert times.timer == late.when
    times.start(early, 3)
    assert times.timer == early.when
    times.stop(early)
    assert times.timer == early.when  # looking in vain costs less than finding the next
    times.stop(late)


def test_next_one_is_the_earliest_of_all_kinds(units, times):
    first, late, early = units.Owner(lambda kind: None), units.Owner(), units.Owner()
    times.start(first, 1)
    times.start(late, 2)
    assert times.expire_due(first.when) == late.when
    times.start(early, 3)
    assert times.expire_due(0) == early.when
    times.stop(early)
    times.stop(late)


def test_owner_may_start_another_deadline_inside_its_expiry(units, times):
    owner = units.Owner(lambda kind: times.start(owner, 2))
    times.start(owner, 1)
    following = times.expire_due(owner.when)
    assert times.listed(2) == [owner] and following == owner.when
    times.stop(owner)


def test_owner_may_stop_others_that_are_due(units, times):
    expired = []

    def stop_all(kind):
        expired.append(kind)
        for owner in owners:
            times.stop(owner)

    owners = [units.Owner(stop_all) for _ in range(3)]
    for owner in owners:
        times.start(owner, 1)
    assert times.expire_due(owners[-1].when) == -1
    assert expired == [1]


def test_owner_may_let_itself_end_inside_its_expiry(units, times):
    kept = {}
    owner = kept["owner"] = units.Owner(lambda kind: kept.clear())
    gone = weakref.ref(owner)
    times.start(owner, 1)
    when = owner.when
    del owner
    assert times.expire_due(when) == -1
    gc.collect()
    assert gone() is None


def test_error_in_an_expiry_is_reported_and_others_expire(units, times, reports):
    seen = []

    def fail(kind):
        raise LookupError("mine")

    first, second = units.Owner(fail), units.Owner(seen.append)
    times.start(first, 1)
    times.start(second, 1)
    times.expire_due(second.when)
    assert seen == [1] and [type(error) for _, error in reports] == [LookupError]


def test_expiry_that_starts_a_later_deadline_does_not_delay_others(units, times):
    """Both in one look of the timer: a deadline that an expiry starts must not hide one that is due
    earlier."""
    seen = []
    patient = units.Owner(seen.append)
    hasty = units.Owner(lambda kind: times.start(hasty, 2))  # ten seconds
    times.start(patient, 1)
    times.start(hasty, 3)
    times.close()  # the timer has fired
    assert times.expire_due(hasty.when) == patient.when
    times.due_by(patient.when)  # as the timer's callback does
    assert times.timer == patient.when and times.timer < hasty.when
    times.stop(patient)
    times.stop(hasty)


def test_timer_fires_for_both_lists_in_turn(units):
    times = units.Times(_1=0.03, _2=30, _3=0.01)
    done = syncless.Event()
    patient = units.Owner(lambda kind: done.set())
    hasty = units.Owner(lambda kind: times.start(hasty, 2))
    times.start(patient, 1)
    times.start(hasty, 3)
    with syncless.Timeout(60):
        done.wait()
    assert hasty.kind == 2
    times.stop(hasty)
    times.close()


@pytest.mark.virtual_time
def test_deadline_of_no_length_that_an_expiry_starts_waits_for_the_next_look(units):
    """Its time is over at once, and others have their turns before it."""
    one, other = units.Times(_1=0), units.Times(_1=0)
    turns, seen, done = 0, [], syncless.Event()

    def expired(times, owner):
        seen.append(turns)
        times.start(owner, 1) if len(seen) < 6 else done.set()

    first = units.Owner(lambda kind: expired(other, second))
    second = units.Owner(lambda kind: expired(one, first))
    one.start(first, 1)
    while not done.is_set():
        turns += 1
        syncless.sleep(0)
    assert seen == sorted(set(seen))
    one.close()
    other.close()


def test_shortage_of_memory_for_the_timer_is_raised_and_made_good_by_the_next_start(units):
    testcapi = pytest.importorskip("_testcapi")

    def heap_is_full(times):
        """Its timer needs more memory than the loop's heap has now."""
        owner = units.Owner()
        testcapi.set_nomemory(0, 0)
        try:
            times.start(owner, 1)
        except MemoryError:
            return owner
        finally:
            testcapi.remove_mem_hooks()
        times.stop(owner)
        return None

    filling = []
    try:
        while True:
            times = units.Times(_1=1)
            owner = heap_is_full(times)
            if owner is not None:
                break
            filling.append(times)
            assert len(filling) < 10_000
        assert times.timer is None and times.listed(1) == [owner]
        other = units.Owner()
        times.start(other, 1)
        assert times.timer is not None
        times.stop(owner)
        times.stop(other)
        times.close()
    finally:
        for made in filling:
            made.close()
