"""A value handed to a tasklet that is killed, or interrupted by a Timeout, before its turn goes to another
one, in order."""

import queue as library
import time

import pytest

import syncless
from syncless import (
    Channel,
    JoinableQueue,
    LifoQueue,
    PriorityQueue,
    Queue,
    TaskletExit,
    Timeout,
    join_all,
    select,
    sending,
    sleep,
    spawn,
)
from syncless.stackless import channel

pytestmark = pytest.mark.virtual_time

KINDS = [Channel, channel]


def made(kind):
    pipe = kind()
    if kind is channel:
        pipe.preference = 0  # neither side runs at once
    return pipe


def receives(pipe):
    return pipe.receive()


def selects(pipe):
    return select([pipe, syncless.Event()])[1]


def times_out(pipe):
    with Timeout(0.001, False):
        return pipe.receive()
    raise TaskletExit


def victims_of(waits, things):
    """Tasklets that wait for the things; their turn to be killed has come when the test gives them
    something."""
    victims = [spawn(waits, thing) for thing in things]
    sleep(0)
    return victims


def end(victims):
    """They end before they have taken what they were given."""
    for victim in victims:
        victim.kill(block=False)
    time.sleep(0.002)  # the Timeouts ring, too
    assert len(join_all(victims, timeout=5)) == len(victims)
    assert all(isinstance(victim.exception(), TaskletExit) for victim in victims)


@pytest.mark.parametrize("waits", [receives, selects, times_out])
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_killed_receivers_are_kept_in_order(kind, waits):
    pipe = made(kind)
    victims = victims_of(waits, [pipe] * 3)
    assert pipe.balance == -3
    for number in range(3):
        pipe.send(number)
    end(victims)
    assert pipe.balance == 3
    sender = spawn(pipe.send, 3)
    sleep(0)
    assert pipe.balance == 4 and not sender.done()
    assert [pipe.receive(), select([pipe])[1], pipe.receive(), pipe.receive()] == [0, 1, 2, 3]
    assert pipe.balance == 0 and sender.join(5)
    assert select([pipe, sending(pipe, 4)], timeout=0) == (None, None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_of_a_killed_receiver_goes_to_the_next_that_waits(kind):
    pipe = made(kind)
    victims, others = victims_of(receives, [pipe]), victims_of(receives, [pipe]) + victims_of(selects, [pipe])
    pipe.send("first")
    pipe.send("second")
    end(victims)
    assert [other.result(5) for other in others] == ["second", "first"] and pipe.balance == 0


@pytest.mark.parametrize("preference", [-1, 0, 1])
def test_a_stackless_receiver_that_is_killed_now_loses_nothing(preference):
    pipe, got = channel(), []
    pipe.preference = preference
    victim = syncless.stackless.tasklet(lambda: got.append(pipe.receive()))()
    victim.run()
    pipe.send("value")
    if preference < 0:  # the receiver has run at once
        assert got == ["value"]
        return
    victim.kill()
    assert not got and not victim.alive and pipe.balance == 1 and pipe.queue is None and not pipe.closed
    pipe.close()
    assert not pipe.closed and list(pipe) == ["value"] and pipe.closed


def test_a_stackless_receiver_that_is_killed_while_its_sender_runs_loses_nothing():
    """Of preference 1: the sender, which waited, runs before the receiver that met it."""
    pipe, got = channel(), []
    pipe.preference = 1

    def sends():
        pipe.send("value")
        victim.kill(pending=True)

    sender = syncless.stackless.tasklet(sends)()
    sender.run()
    assert pipe.balance == 1
    victim = syncless.stackless.tasklet(lambda: got.append(pipe.receive()))()
    victim.run()
    sleep(0)
    assert not victim.alive and not got and pipe.balance == 1
    assert pipe.receive() == "value" and pipe.balance == 0


def test_kept_values_outlive_the_channel_being_closed():
    pipe = Channel()
    victims = victims_of(receives, [pipe] * 3)
    pipe.send(1)
    pipe.send_exception(ValueError("sent"))
    pipe.send(2)
    end(victims)
    pipe.close()
    got = []
    with pytest.raises(ValueError, match="sent"):
        for value in pipe:
            got.append(value)
    got.extend(pipe)
    assert got == [1, 2] and pipe.balance == 0
    with pytest.raises(ValueError, match="closed"):
        pipe.receive()
    with pytest.raises(ValueError, match="closed"):
        pipe.send(3)


def test_a_receiver_killed_when_the_channel_closes_leaves_nothing_in_it():
    pipe = Channel()
    victims = victims_of(receives, [pipe])
    pipe.close()
    end(victims)
    assert pipe.balance == 0
    with pytest.raises(ValueError, match="closed"):
        pipe.receive()


def test_a_selecting_sender_that_is_killed_does_not_meet_a_receiver():
    for kind in KINDS:
        pipe = made(kind)
        victims = victims_of(lambda pipe: select([sending(pipe, "lost"), syncless.Event()]), [pipe])
        assert pipe.balance == 1
        victims[0].kill(block=False)
        assert select([pipe], timeout=0) == (None, None)
        assert victims[0].join(5) and pipe.balance == 0


def gets(items):
    return items.get()


def selects_item(items):
    return select([items, syncless.Event()])[1]


@pytest.mark.parametrize("waits", [gets, selects_item])
@pytest.mark.parametrize(
    ("kind", "order"),
    [
        (Queue, [1, 3, 2, 4]),
        (LifoQueue, [4, 2, 3, 1]),
        (PriorityQueue, [1, 3, 2, 4]),
        (JoinableQueue, [1, 3, 2, 4]),
    ],
)
def test_items_of_killed_getters_come_back_in_order(kind, order, waits):
    items = kind()
    victims = victims_of(waits, [items] * 3)
    for item in (1, 3, 2):
        items.put(item)
    assert items.empty()
    end(victims)
    items.put(4)
    assert items.qsize() == 4
    assert [items.get() for _ in range(4)] == order and items.empty()
    with pytest.raises(library.Empty):
        items.get(block=False)
    if kind is JoinableQueue:
        assert items.unfinished == 4


def test_items_that_come_back_stand_before_those_that_came_later():
    items = Queue()
    victims = victims_of(gets, [items] * 2)
    for item in (1, 2, 3, 4):  # two are handed over, two wait in the queue
        items.put(item)
    end(victims)
    assert [items.get() for _ in range(4)] == [1, 2, 3, 4]


def test_items_that_came_back_and_were_taken_do_not_change_the_order_of_others():
    items = Queue()
    for round in range(3):
        victims = victims_of(gets, [items] * 2)
        items.put((round, 1))
        items.put((round, 2))
        end(victims)
        items.put((round, 3))
        assert items.get() == (round, 1)
        items.put((round, 4))
        assert [items.get() for _ in range(3)] == [(round, 2), (round, 3), (round, 4)]


def test_a_joinable_queue_does_not_count_a_put_of_a_selecting_tasklet_that_is_killed():
    items = JoinableQueue(1)
    items.put("first")
    victims = victims_of(lambda items: select([syncless.putting(items, "lost"), syncless.Event()]), [items])
    victims[0].kill(block=False)
    assert items.get() == "first" and items.empty()
    items.task_done()
    assert victims[0].join(5) and items.join(5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_select_at_both_ends_of_a_channel_meets_either_side(kind):
    for sends in (True, False):
        pipe = made(kind)
        both = spawn(lambda pipe=pipe: select([sending(pipe, "sent"), pipe]))
        sleep(0)
        other = spawn(pipe.send, "other") if sends else spawn(pipe.receive)
        assert other.join(5) and both.result(5) == ((1, "other") if sends else (0, None))
        assert sends or other.result() == "sent"
        assert pipe.balance == 0
        waiting = [spawn(select, [sending(pipe, 1), pipe]), spawn(pipe.send, 2), spawn(pipe.send, 3)]
        assert waiting[1].join(5)
        assert (
            waiting[0].result(5) == (1, 2) and pipe.balance == 1 and pipe.receive() == 3 and pipe.balance == 0
        )


def test_item_that_came_back_and_was_taken_leaves_no_place_behind():
    """The next one that comes back comes first again."""
    queue = Queue()
    for number in (1, 3):
        victims = victims_of(Queue.get, [queue])
        queue.put(number)
        queue.put(number + 1)
        victims[0].kill(block=False)
        victims[0].join()
        assert [queue.get(), queue.get()] == [number, number + 1]
