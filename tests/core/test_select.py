"""select(): the first of several things, taken once; the others are left as they were."""

import gc
import random
import socket as real_socket
import threading
import weakref

import pytest

import syncless
import syncless.stackless as stackless
from syncless import (
    AsyncResult,
    Channel,
    Event,
    JoinableQueue,
    Lock,
    Queue,
    Semaphore,
    after,
    putting,
    readable,
    select,
    sending,
    sleep,
    spawn,
    writable,
)
from syncless._core.poll.backends import BACKENDS

pytestmark = pytest.mark.virtual_time


def later(function, *args):
    """Done when the others wait."""

    def run():
        sleep(0)
        sleep(0)
        return function(*args)

    return spawn(run)


def ended():
    tasklet = spawn(lambda: 1)
    tasklet.join()
    return tasklet


def ready_cases():
    event = Event()
    event.set()
    queue = Queue()
    queue.put("item")
    result = AsyncResult()
    result.set(5)
    channel = Channel()
    sender = spawn(channel.send, "sent")
    foreign = stackless.channel()
    spawn(foreign.send, "to stackless")
    receiving = Channel()
    receiver = spawn(receiving.receive)
    sleep(0)
    return [
        (event, None),
        (queue, "item"),
        (result, None),
        (channel, "sent"),
        (foreign, "to stackless"),
        (sending(receiving, 1), None),
        (ended(), None),
        (Lock(), None),
        (Semaphore(2), None),
        (putting(Queue(1), 1), None),
        (after(0), None),
    ], (sender, receiver)


@pytest.mark.parametrize("number", range(11))
def test_ready_case_is_taken_at_once(number):
    cases, tasklets = ready_cases()
    case, value = cases[number]
    assert select([Event(), case]) == (1, value)
    if isinstance(case, Queue):
        assert case.empty()
    if isinstance(case, Lock):
        assert case.locked()
    for tasklet in (*tasklets, *(each for each in syncless.tasklets() if each.waiting_for == "channel")):
        tasklet.kill(exception=syncless.TaskletExit)


def test_first_case_to_become_ready_is_taken_and_the_others_are_left():
    event, queue, channel, lock = Event(), Queue(), Channel(), Lock()
    foreign, full, ours = stackless.channel(), Queue(1), Channel()
    lock.acquire()
    full.put("old")
    tasklet = spawn(sleep, 30)

    def cases():
        return [
            event,
            queue,
            channel,
            lock,
            foreign,
            putting(full, "new"),
            sending(ours, "value"),
            tasklet,
            after(30),
        ]

    def state():
        return queue.qsize(), channel.balance, foreign.balance, full.qsize(), ours.balance, lock.locked()

    before = state()
    later(queue.put, "item")
    assert select(cases()) == (1, "item") and state() == before
    sender = later(channel.send, "sent")
    assert select(cases()) == (2, "sent") and state() == before
    later(lock.release)
    assert select(cases()) == (3, None) and state() == before
    later(foreign.send, "hello")
    assert select(cases()) == (4, "hello") and state() == before
    later(full.get)
    assert select(cases()) == (5, None) and state() == before and full.get() == "new"
    full.put("old")
    receiver = later(ours.receive)
    assert select(cases()) == (6, None) and receiver.result() == "value" and state() == before
    tasklet.kill()
    assert select(cases()) == (7, None) and state() == before
    later(event.set)
    later(queue.put, "too late")
    assert select([event, queue]) == (0, None)
    sleep(0)
    assert queue.get() == "too late" and sender.done()


def test_timeouts():
    channel, queue = Channel(), Queue()
    assert select([channel, queue], timeout=0) == (None, None)
    assert select([channel, queue], timeout=0.01) == (None, None)
    assert select([channel, after(0.01)]) == (1, None)
    assert select([channel, after(None)], timeout=0.01) == (None, None)
    assert channel.balance == 0
    with pytest.raises(syncless.Timeout), syncless.Timeout(0.01):
        select([channel, queue])
    assert channel.balance == 0


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_descriptors(backend, monkeypatch):
    monkeypatch.setenv("SYNCLESS_LOOP", backend)
    found = []

    def run():
        a, b = real_socket.socketpair()
        a.setblocking(False)
        b.setblocking(False)
        try:
            found.append(select([readable(a), after(0.01)]))
            found.append(select([readable(a), writable(a)]))
            spawn(b.send, b"x")
            found.append(select([Event(), a, after(5)]))
            found.append(a.recv(5))
            spawn(b.send, b"y")
            found.append(select([after(5), a.fileno()]))
            found.append(a.recv(5))
            spawn(b.close)
            found.append(select([a, after(5)]))
            found.append(a.recv(5))
        finally:
            a.close()
            b.close()
        found.append(syncless.current_loop().census()["awaited descriptors"])
        found.append(syncless.current_loop().backend)

    thread = threading.Thread(target=run)
    thread.start()
    syncless.run_in_thread(thread.join, 20)
    assert found == [(1, None), (1, None), (1, None), b"x", (1, None), b"y", (0, None), b"", 0, backend]


def test_bytes_in_the_tls_buffer_make_a_socket_readable():
    class Tls:
        def __init__(self, sock):
            self.fileno = sock.fileno

        def pending(self):
            return 5

    a, b = real_socket.socketpair()
    with a, b:
        assert select([Event(), Tls(a)], timeout=0) == (1, None)
        assert select([Event(), a], timeout=0) == (None, None)


def test_both_ends_select():
    for _ in range(50):
        one, two = Channel(), Channel()
        got = []

        def client(one=one, two=two, got=got):
            got.append(select([sending(one, "a"), two]))

        tasklets = [
            spawn(client),
            spawn(lambda one=one, two=two, got=got: got.append(select([sending(two, "b"), one]))),
        ]
        for tasklet in tasklets:
            tasklet.join()
        assert sorted(got, key=str) in ([(0, None), (1, "a")], [(0, None), (1, "b")])
        assert one.balance == two.balance == 0


def test_nothing_is_lost_or_doubled_between_many_that_select():
    dice = random.Random(5)
    channels = [Channel(), stackless.channel(), Channel(), Queue(3), Queue(1)]
    sent, received = [], []

    def sender(name):
        for number in range(50):
            chosen = dice.sample(channels, 2)
            item = (name, number)
            cases = [
                putting(each, item) if isinstance(each, Queue) else sending(each, item) for each in chosen
            ]
            index, _ = select(cases, timeout=dice.choice([None, 0.001]))
            if index is not None:
                sent.append(item)
            if dice.random() < 0.1:
                sleep(0)

    def receiver():
        while True:
            index, value = select(dice.sample(channels, 3), timeout=dice.choice([None, 0.001]))
            if index is not None:
                received.append(value)

    receivers = [spawn(receiver) for _ in range(4)]
    for tasklet in [spawn(sender, name) for name in range(8)]:
        assert tasklet.join(30)
    sleep(0.01)
    for tasklet in receivers:
        tasklet.kill(exception=syncless.TaskletExit)
    left = [
        item
        for queue in channels[3:]
        for item in iter(lambda queue=queue: None if queue.empty() else queue.get(), None)
    ]
    assert sorted(sent) == sorted(received + left) and len(sent) > 100
    assert [each.balance for each in channels[:3]] == [0, 0, 0]


def test_killed_select_gives_back_a_handed_over_value():
    queue, lock, channel = Queue(), Lock(), Channel()

    def given(cases, give):
        tasklet = spawn(select, cases)
        sleep(0)
        give()
        tasklet.kill(exception=syncless.TaskletExit)

    given([queue, Event()], lambda: queue.put(1))
    assert queue.get_nowait() == 1
    lock.acquire()
    given([lock, Event()], lock.release)
    assert not lock.locked()
    second = spawn(channel.receive)
    sleep(0)
    first = Channel()
    tasklet = spawn(select, [first, Event()])
    third = spawn(first.receive)
    sleep(0)
    first.send("value")
    tasklet.kill(exception=syncless.TaskletExit)
    assert third.result() == "value"
    second.kill(exception=syncless.TaskletExit)


def test_joinable_queue_counts_unfinished_items():
    queue = JoinableQueue(1)
    queue.put("old")
    assert select([putting(queue, "new")], timeout=0.01) == (None, None)
    assert queue.unfinished == 1
    later(queue.get)
    assert select([putting(queue, "new")]) == (0, None)
    assert queue.unfinished == 2


def test_exceptions_and_closed_channels():
    channel, foreign = Channel(), stackless.channel()
    later(channel.send_exception, KeyError("sent"))
    with pytest.raises(KeyError):
        select([channel, Event()])
    later(foreign.send_exception, KeyError, "sent")
    with pytest.raises(KeyError):
        select([foreign, Event()])
    later(channel.close)
    with pytest.raises(ValueError, match="closed"):
        select([channel, Event()])
    with pytest.raises(ValueError, match="closed"):
        select([sending(channel, 1)])
    foreign.close()
    with pytest.raises(ValueError, match="closed"):
        select([foreign])
    other = Channel()
    later(other.close)
    with pytest.raises(ValueError, match="closed"):
        select([sending(other, None)])


def test_wrong_cases_are_refused():
    with pytest.raises(TypeError, match="cannot wait for str"):
        select(["text"])
    with pytest.raises(ValueError, match="needs a case"):
        select([])
    with pytest.raises(TypeError, match="needs a channel"):
        sending(Queue(), 1)
    case = after(0)
    select([case])
    with pytest.raises(ValueError, match="once"):
        select([case])


def test_it_is_fair():
    queues = [Queue(), Queue(), Queue()]
    counts = [0, 0, 0]
    for queue in queues:
        for number in range(400):
            queue.put(number)
    for _ in range(300):
        index, _ = select(queues)
        counts[index] += 1
    assert min(counts) > 50


def test_from_another_thread():
    channel, queue = Channel(), Queue()
    got = []

    def feed():
        for number in range(200):
            if number % 2:
                channel.send(number)
            else:
                queue.put(number)

    thread = threading.Thread(target=feed)
    thread.start()
    for _ in range(200):
        got.append(select([channel, queue], timeout=10)[1])
    assert sorted(got) == list(range(200))
    syncless.run_in_thread(thread.join)


def test_it_leaves_nothing_behind():
    class Item:
        pass

    queue = Queue()
    item = Item()
    gone = weakref.ref(item)
    gc.collect()
    gc.disable()
    try:
        later(queue.put, item)
        del item
        assert isinstance(select([queue, Event(), after(5)])[1], Item)
        sleep(0)
        sleep(0)
        assert gone() is None  # without the collector: there is no cycle
    finally:
        gc.enable()


def test_run_of_stackless_ends_when_all_wait_for_one_another():
    def run():
        channel, event = stackless.channel(), Event()
        stackless.tasklet(lambda: select([channel, event, Queue()]))()
        stackless.tasklet(event.wait)()
        stackless.run()
        found.append("over")
        event.set()
        stackless.run()

    found = []
    thread = threading.Thread(target=run)
    thread.start()
    syncless.run_in_thread(thread.join, 20)
    assert found == ["over"]
