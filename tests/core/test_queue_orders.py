"""The queues of another order and JoinableQueue, as queue has them."""

import pytest

from syncless import (
    Empty,
    Full,
    JoinableQueue,
    LifoQueue,
    PriorityQueue,
    sleep,
    spawn,
)

pytestmark = pytest.mark.virtual_time


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
