"""Pool, as gevent has it."""

import pytest

from syncless import (
    Pool,
    sleep,
    spawn,
)

pytestmark = pytest.mark.usefixtures("virtual_clock")


def test_pool_is_bounded():
    pool, most, running = Pool(3), 0, 0

    def work(number):
        nonlocal most, running
        running += 1
        most = max(most, running)
        sleep(0.001)
        running -= 1
        return number * number

    squares = [number * number for number in range(20)]
    assert pool.map(work, range(20)) == squares and most == 3 and len(pool) == 0 and pool.free_count() == 3
    assert (
        list(pool.imap(work, range(20))) == squares
        and sorted(pool.imap_unordered(work, range(20))) == squares
        and most == 3
    )
    assert pool.starmap(lambda a, b: a + b, [(1, 2), (3, 4)]) == [3, 7] and pool.map(
        lambda a, b: a * b, [1, 2], [3, 4]
    ) == [3, 8]
    assert pool.apply(work, 5) == 25 and pool.map(work, []) == [] and list(pool.imap(work, [])) == []
    tasklets = [pool.spawn(sleep, 0.01) for _ in range(5)]
    assert len(pool) <= 3 and pool.join(5) and all(each.done() for each in tasklets)
    pool.spawn(sleep, 100)
    assert pool.join(0.01) is False and "running=1" in repr(pool)
    pool.kill()
    assert len(pool) == 0 and pool.free_count() == 3
    with pytest.raises(ValueError):
        Pool(0)


def test_map_uses_no_more_tasklets_than_there_are_items():
    pool = Pool(5)
    assert max(pool.map(lambda _: len(pool), range(2))) == 2


def test_results_that_are_not_taken_hold_up_the_rest():
    pool, begun = Pool(2), []
    results = pool.imap(begun.append, range(100))
    assert next(results) is None
    sleep(1)
    assert len(begun) == 1 + 2 + 2  # taken, waiting to be taken, waiting for room
    results.close()


def test_pool_and_errors():
    pool, ended = Pool(2), []

    def work(number):
        try:
            if number == 3:
                raise KeyError(number)
            sleep(0.01)
        finally:
            ended.append(number)

    for run in (
        lambda: pool.map(work, range(10)),
        lambda: list(pool.imap(work, range(10))),
        lambda: list(pool.imap_unordered(work, range(10))),
    ):
        ended.clear()
        with pytest.raises(KeyError):
            run()
        assert 3 in ended and len(ended) <= 5 and len(pool) == 0 and pool.free_count() == 2
    ended.clear()
    other = pool.spawn(sleep, 1)  # so map() waits for room, and the first call fails meanwhile
    with pytest.raises(KeyError):
        pool.map(work, range(3, 10))
    assert ended == [3]
    other.kill()
    mapped = spawn(pool.map, sleep, [100, 100, 100])
    sleep(0.001)
    mapped.kill()
    assert len(pool) == 0
