"""Floats of metrics: exact over processes, and whole whatever becomes of one."""

import os

import pytest

from syncless.shared import Counter, Mapping, StoreFull
from syncless.shared.memory import Amount
from tests.shared.test_deaths import child
from tests.waiting import eventually


def test_amounts_of_several_processes_lose_no_addition(region):
    amount = Amount(region, b"a")
    pids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            own = Amount(region, b"a")
            for _ in range(20_000):
                own.inc(0.25)
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    assert amount.get() == 20_000 and region.amounts() == [(b"a", 20_000.0, 0)]


def test_amounts_are_read_in_the_order_of_their_making_and_keep_long_names(region):
    names = [b"%d" % number + b"x" * number for number in range(0, 600, 50)]
    for number, name in enumerate(names):
        Amount(region, name).set(number)
        Amount(region, name).mark = 7
    assert region.amounts() == [(name, float(number), 7) for number, name in enumerate(names)]


def test_amounts_are_dropped_for_nothing(region):
    with pytest.raises(StoreFull):
        for number in range(2000):
            Amount(region, b"%d" % number).set(number)
    with pytest.raises(StoreFull):
        Mapping("values").set("k", "v")
    assert len(region.amounts()) == 1000 and region.amounts()[999] == (b"999", 999.0, 0)


def test_process_killed_while_it_makes_amounts_leaves_all_of_them_in_the_list(region):
    """The next process that gets the mutex lists one that was made and not yet in the list."""

    def make():
        Counter("rounds").add()
        made = len(region.amounts())
        if made < 900:
            Amount(region, b"%d" % made).set(1)
        Mapping("values").set("k", b"x" * 5000)

    for number in range(300):
        with child(make):
            assert eventually(lambda number=number: Counter("rounds").get() > number)
        Counter("rounds").add()
        names = [name for name, _, _ in region.amounts()]
        assert names == [b"%d" % each for each in range(len(names))]
        if region.figures()["repaired"] > 2:
            break
    for name in names:
        Amount(region, name)
    assert len(region.amounts()) == len(names)
