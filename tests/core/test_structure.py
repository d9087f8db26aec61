"""RLock, Condition, Barrier, the other queues, AsyncResult, Pool, TaskGroup, deadline, iwait: as threading,
queue and gevent have them."""

import gc
import sys
import threading
import time
import weakref

import pytest

import syncless
from syncless import (
    AsyncResult,
    Barrier,
    BoundedSemaphore,
    Condition,
    Empty,
    Event,
    Full,
    JoinableQueue,
    LifoQueue,
    Lock,
    Pool,
    PriorityQueue,
    RLock,
    TaskGroup,
    deadline,
    iwait,
    join_all,
    local,
    run_in_thread,
    sleep,
    spawn,
)

pytestmark = pytest.mark.virtual_time


def test_rlock_belongs_to_a_tasklet():
    lock = RLock()
    with lock, lock:
        assert (
            lock.acquire()
            and spawn(lock.acquire, False).result() is False
            and spawn(lock.acquire, timeout=0.01).result() is False
        )
        lock.release()
        assert "count=2" in repr(lock)
    assert spawn(lock.acquire, False).result()
    with pytest.raises(RuntimeError, match="un-acquired"):
        lock.release()


def test_rlock_is_handed_over():
    lock, seen = RLock(), []

    def work(number):
        with lock, lock:
            sleep(0)
            seen.append(number)

    join_all([spawn(work, number) for number in range(5)])
    assert seen == list(range(5))


def test_bounded_semaphore():
    semaphore = BoundedSemaphore(2)
    with semaphore:
        semaphore.acquire()
        assert not semaphore.acquire(False)
        semaphore.release()
    with pytest.raises(ValueError, match="too many"):
        semaphore.release()


@pytest.mark.parametrize("make", [lambda: Condition(), lambda: Condition(Lock()), lambda: Condition(RLock())])
def test_condition(make):
    condition, items, got = make(), [], []

    def take():
        with condition:
            condition.wait_for(lambda: items)
            got.append(items.pop())

    takers = [spawn(take) for _ in range(3)]
    sleep(0)
    for number in range(3):
        with condition:
            items.append(number)
            condition.notify()
    join_all(takers)
    assert sorted(got) == [0, 1, 2]
    with condition:
        assert condition.wait(0.01) is False and condition.wait_for(lambda: False, 0.01) is False
        killed = spawn(take)
        sleep(0)
        condition.notify_all()
    killed.kill()
    for use in (condition.wait, condition.notify):
        with pytest.raises(RuntimeError, match="un-acquired"):
            use()
    with condition:
        pass


def test_condition_between_threads():
    condition, ready = Condition(), []

    def tell():
        with condition:
            ready.append(1)
            condition.notify_all()

    thread = threading.Thread(target=tell)
    with condition:
        thread.start()
        assert condition.wait_for(lambda: ready, 5)
    run_in_thread(thread.join)


def test_barrier(reports):
    seen = []
    barrier = Barrier(3, lambda: seen.append("action"))
    places = [spawn(barrier.wait) for _ in range(3)]
    assert sorted(each.result() for each in places) == [0, 1, 2] and seen == ["action"]
    waits = spawn(barrier.wait)
    sleep(0)
    barrier.abort()
    assert isinstance(waits.exception(), threading.BrokenBarrierError) and barrier.broken


@pytest.mark.parametrize(("kind", "order"), [(LifoQueue, [2, 3, 1]), (PriorityQueue, [1, 2, 3])])
def test_queues_of_another_order(kind, order):
    queue = kind(3)
    for item in (1, 3, 2):
        queue.put(item)
    assert queue.full() and len(queue) == 3
    with pytest.raises(Full):
        queue.put_nowait(4)
    late = spawn(queue.put, 9)
    sleep(0)
    assert [queue.get() for _ in range(3)] == [*order[:1], *([9] if kind is LifoQueue else []), *order[1:]][
        :3
    ]
    sleep(0)
    assert late.done() and len(queue) == 1
    queue.get()
    with pytest.raises(Empty):
        queue.get(timeout=0.001)
    waits = spawn(queue.get)
    sleep(0)
    queue.put(5)
    assert waits.result() == 5


def test_joinable_queue():
    queue, done = JoinableQueue(), []
    assert queue.join()

    def work():
        while True:
            item = queue.get()
            sleep(0.001)
            done.append(item)
            queue.task_done()

    workers = [spawn(work) for _ in range(3)]
    for number in range(10):
        queue.put(number)
    assert (
        queue.join(0.0001) is False
        and queue.join()
        and sorted(done) == list(range(10))
        and queue.unfinished == 0
    )
    with pytest.raises(ValueError, match="too many"):
        queue.task_done()
    for worker in workers:
        worker.kill()


def test_async_result(reports):
    result, told = AsyncResult(), []
    with pytest.raises(TimeoutError):
        result.get_nowait()
    with pytest.raises(TimeoutError):
        result.get(timeout=0.001)
    result.add_done_callback(told.append)
    removed = []
    result.add_done_callback(removed.append)
    assert (
        result.remove_done_callback(removed.append) == 1 and result.remove_done_callback(removed.append) == 0
    )
    waits = spawn(result.get)
    sleep(0)
    assert not result.ready() and not result.successful()
    result.set(5)
    assert (
        waits.result() == 5 == result.get() == result.value
        and told == [result]
        and not removed
        and result.successful()
        and result.wait()
    )
    with pytest.raises(RuntimeError):
        result.set(6)
    failed = AsyncResult()
    spawn(lambda: 1 / 0).add_done_callback(failed)
    with pytest.raises(ZeroDivisionError):
        failed.get()
    assert not failed.successful() and isinstance(failed.exception, ZeroDivisionError)
    with pytest.raises(TypeError):
        AsyncResult().set_exception("x")
    threaded = AsyncResult()
    thread = threading.Thread(target=threaded.set, args=("from a thread",))
    thread.start()
    assert threaded.get(timeout=5) == "from a thread"
    run_in_thread(thread.join)


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
    mapped = spawn(pool.map, sleep, [100, 100, 100])
    sleep(0.001)
    mapped.kill()
    assert len(pool) == 0


def test_task_group_waits_for_its_children():
    with TaskGroup() as group:
        children = [group.spawn(lambda number=number: (sleep(0.001), number)[1]) for number in range(3)]
        group.spawn(lambda: group.spawn(sleep, 0.002))
    assert [child.result() for child in children] == [0, 1, 2]
    with pytest.raises(RuntimeError):
        group.spawn(sleep)
    with pytest.raises(RuntimeError), group:
        pass


def grouped(error):
    """What is in it, or it alone on Python 3.10."""
    return [type(each) for each in error.exceptions] if sys.version_info >= (3, 11) else [type(error)]


def test_an_error_of_a_child_ends_the_others_and_the_block():
    ended = []

    def wait_for_ever():
        try:
            sleep(100)
        finally:
            ended.append("child")

    def fail():
        sleep(0.001)
        raise KeyError("mine")

    with pytest.raises(Exception) as caught, TaskGroup() as group:
        group.spawn(wait_for_ever)
        group.spawn(fail)
        try:
            sleep(100)
        finally:
            ended.append("block")
    assert grouped(caught.value) == [KeyError] and sorted(ended) == ["block", "child"]


def test_an_error_of_the_block_ends_the_children():
    ended = []

    def wait_for_ever():
        try:
            sleep(100)
        finally:
            ended.append("child")

    with pytest.raises(ValueError, match="mine"), TaskGroup() as group:
        group.spawn(wait_for_ever)
        sleep(0)
        raise ValueError("mine")
    assert ended == ["child"]
    with pytest.raises(TimeoutError), deadline(0.01), TaskGroup() as group:
        group.spawn(wait_for_ever)
    assert ended == ["child", "child"]


def test_groups_nest():
    """The outer group's end ends the inner one's children, too, while it waits for them."""

    def fail():
        sleep(0.001)
        raise KeyError("outer")

    with pytest.raises(Exception) as caught, TaskGroup() as outer:
        outer.spawn(fail)
        with TaskGroup() as inner:
            child = inner.spawn(sleep, 100)
    assert grouped(caught.value) == [KeyError] and child.done()


def test_a_group_that_is_interrupted_again_and_again_still_waits_for_its_children():
    ended, cleaned = [], Event()

    def child():
        try:
            sleep(100)
        finally:
            cleaned.wait(10)
            ended.append("child")

    def own():
        try:
            with TaskGroup() as group:
                group.spawn(child)
                group.spawn(child)
        finally:
            ended.append("block")

    owner = spawn(own)
    sleep(0)
    for _ in range(3):
        owner.kill(block=False)
        sleep(0.001)
        assert ended == []
    cleaned.set()
    assert owner.join(5) and ended == ["child", "child", "block"]


def test_deadlines_nest():
    started = time.monotonic()
    with pytest.raises(TimeoutError, match="deadline"), deadline(0.02), deadline(30):
        sleep(10)
    with pytest.raises(TimeoutError), deadline(30), deadline(0.01):
        sleep(10)
    with deadline(5), deadline(None):
        sleep(0)
    with pytest.raises(ValueError, match="mine"), deadline(5):
        raise ValueError("mine")
    with pytest.raises(TimeoutError), deadline(0.01):
        try:
            sleep(10)
        except Exception:
            raise AssertionError("it was swallowed") from None
    assert time.monotonic() - started < 5


def test_spawn_in_another_thread():
    ready, end, loops = Event(), Event(), []

    def live():
        loops.append(syncless.current_loop())
        ready.set()
        end.wait()

    thread = threading.Thread(target=live)
    thread.start()
    ready.wait()
    there = syncless.spawn_in(loops[0], lambda more: (sleep(0.001), threading.get_ident() + more)[1], 0)
    assert there.result(5) == thread.ident != threading.get_ident()
    for where in (thread, thread.ident):
        assert syncless.spawn_in(where, threading.get_ident).result(5) == thread.ident
    failed = syncless.spawn_in(loops[0], syncless.Channel().receive)
    assert failed.kill(timeout=5)
    end.set()
    run_in_thread(thread.join)
    with pytest.raises(RuntimeError, match="has ended"):
        syncless.spawn_in(loops[0], sleep)
    for where in (thread, thread.ident, threading.Thread()):
        with pytest.raises(LookupError):
            syncless.spawn_in(where, sleep)
    with pytest.raises(TypeError, match="not by str"):
        syncless.spawn_in("a thread", sleep)
    with pytest.raises(TypeError):
        syncless.spawn_in(syncless.current_loop(), 5)


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


def test_local_values_are_each_tasklets_own():
    class Counter(local):
        kind = "counter"

        def __init__(self, start):
            self.count = start

        @property
        def double(self):
            return 2 * self.count

    counter, plain = Counter(5), local()
    counter.count += 1
    plain.name = "main's"

    def other():
        assert counter.count == 5 and not hasattr(plain, "name")
        counter.count = plain.name = 7
        sleep(0)
        assert counter.__dict__ == {"count": 7} and plain.name == 7 and counter.double == 14
        del plain.name
        with pytest.raises(AttributeError, match="name"):
            del plain.name
        with pytest.raises(AttributeError, match="read-only"):
            plain.__dict__ = {}
        with pytest.raises(AttributeError):
            counter.double = 1
        return True

    assert spawn(other).result() is True
    assert counter.count == 6 and plain.name == "main's" and counter.kind == "counter"
    with pytest.raises(TypeError, match="arguments"):
        local(1)


def test_local_values_go_with_their_tasklet():
    class Value:
        pass

    values, gone = local(), []

    def run():
        values.mine = Value()
        values.tasklet = syncless.current()
        gone.append(weakref.ref(values.mine))

    spawn(run).join()
    assert gone[0]() is None
    thread = threading.Thread(target=run)  # in a thread's own main tasklet
    thread.start()
    run_in_thread(thread.join)
    gc.collect()
    assert gone[1]() is None


def test_local_that_goes_leaves_nothing_in_its_tasklets():
    def marks():
        return sum(type(each).__name__ == "_Forget" for each in gc.get_objects())

    before = marks()
    keeps = local()
    for _ in range(10):
        local().value = 1
    assert marks() == before + 1
    del keeps
    assert marks() == before


def test_links():
    seen = []

    def note(kind):
        return lambda tasklet: seen.append((kind, tasklet.name))

    def fail():
        raise ValueError

    syncless.set_error_handler(lambda *_: None)
    try:
        for function, name in ((lambda: 1, "good"), (fail, "bad"), (lambda: sleep(9), "killed")):
            tasklet = spawn(function)
            tasklet.name = name
            tasklet.link(note("any"))
            tasklet.link_value(note("value"))
            tasklet.link_exception(note("exception"))
            dropped = note("dropped")
            tasklet.link_value(dropped)
            assert tasklet.unlink(dropped) == 1
            if name == "killed":
                sleep(0)
                tasklet.kill()
            tasklet.join()
            assert tasklet.successful() is (name == "good")
    finally:
        syncless.set_error_handler(None)
    assert seen == [
        ("any", "good"),
        ("value", "good"),
        ("any", "bad"),
        ("exception", "bad"),
        ("any", "killed"),
        ("exception", "killed"),
    ]
