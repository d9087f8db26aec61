"""Messages from publishers to subscribers: their order, their bounds, and the end of a subscription."""

import asyncio
import gc
import os
import threading

import pytest

import syncless
from syncless._core.current import directly
from syncless.io import socket
from syncless.shared import (
    InvalidName,
    Lagged,
    Message,
    TooLarge,
    UnfitValue,
    embedded,
    figures,
    publish,
    subscribe,
)
from syncless.wsgi import Server
from tests.asyncio.loops import run
from tests.waiting import eventually


def test_subscriber_gets_the_messages_of_its_topics_from_then_on():
    publish("news", "before")
    with subscribe("news", "room:*") as subscription:
        sent = [("news", "one"), ("room:1", {"a": [1]}), ("other", b"x"), ("room:", b"\0"), ("xroom:1", 1)]
        numbers = [publish(topic, message) for topic, message in sent]
        assert numbers == [2, 3, 4, 5, 6]
        got = [subscription.get() for _ in range(3)]
        assert got == [("news", "one", 2), ("room:1", {"a": [1]}, 3), ("room:", b"\0", 5)]
        assert isinstance(got[0], Message) and got[0].data == "one"
        assert subscription.get(timeout=0) is None and not subscription.ended
    assert subscription.ended and subscription.get() is None and list(subscription) == []


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("*", ["a", "a.b", "ab\n", "\u20ac"]),
        ("a*", ["a", "a.b", "ab\n"]),
        ("a.*", ["a.b"]),
        ("*b*", ["a.b", "ab\n"]),
        ("**", ["a", "a.b", "ab\n", "\u20ac"]),
        ("[a]*", []),
    ],
)
def test_star_stands_for_any_characters_and_nothing_else_is_special(pattern, matched):
    with subscribe(pattern, "end") as subscription:
        for topic in ("a", "a.b", "ab\n", "\u20ac", "end"):
            publish(topic, "")
        got = [subscription.get().topic for _ in range(len(matched) + (pattern != "*" and pattern != "**"))]
        assert [topic for topic in got if topic != "end"] == matched


def test_message_for_a_topic_and_a_pattern_comes_once():
    with subscribe("news", "n*", "*s") as subscription:
        publish("news", 1)
        assert subscription.get().data == 1 and subscription.get(0) is None


@pytest.mark.parametrize("topic", ["", "x" * 251, "\ud800", b"news", None])
def test_topic_that_cannot_be_one_is_refused(topic):
    with pytest.raises(InvalidName, match="topic"):
        publish(topic, "")
    with pytest.raises(InvalidName, match="topic"):
        subscribe("news", topic)
    with pytest.raises(InvalidName, match="at least one"):
        subscribe()


def test_message_that_is_too_large_or_unfit_is_refused_and_none_is_sent():
    with subscribe("news") as subscription:
        with pytest.raises(TooLarge, match="shared_message_bytes"):
            publish("news", bytes(1 << 14))
        with pytest.raises(UnfitValue):
            publish("news", object())
        publish("news", bytes(15_000))
        assert subscription.get().data == bytes(15_000)
    assert figures()["messages"] == 1


def test_slow_subscriber_is_told_how_many_messages_it_has_missed():
    with subscribe("news") as slow, subscribe("other") as other:
        publish("news", "first")
        assert slow.get().data == "first"
        publish("other", "kept?")
        for number in range(1000):
            publish("news", (f"{number:4}" * 50))
            if number % 50 == 0:
                syncless.sleep(0.001)  # its loop is not late: only this subscriber is
        syncless.sleep(0.001)
        with pytest.raises(Lagged) as told:
            slow.get()
        rest = []
        while (message := slow.get(0)) is not None:
            rest.append(int(message.data[:4]))
        assert rest == list(range(1000 - len(rest), 1000)) and 100 < len(rest) < 400
        assert told.value.missed == 1000 - len(rest)
        with pytest.raises(Lagged, match="1 message overwritten"):
            other.get()
        assert other.get(0) is None


def test_loop_that_is_late_is_told_of_messages_of_all_topics():
    with subscribe("news") as subscription:
        directly(lambda: [publish("flood", "x" * 200) for _ in range(1000)])
        publish("news", "after")
        with pytest.raises(Lagged) as told:
            subscription.get()
        assert 600 < told.value.missed < 1000
        assert subscription.get().data == "after"


def test_subscriber_gets_what_came_after_the_last_message_that_it_has():
    numbers = [publish(topic, topic) for topic in ("news", "other", "news", "room:1", "news")]
    with subscribe("news", "room:*", after=numbers[0]) as subscription:
        publish("room:2", "live")
        got = [subscription.get() for _ in range(4)]
        assert [message.topic for message in got] == ["news", "room:1", "news", "room:2"]
        assert [message.number for message in got] == [3, 4, 5, 6] and subscription.get(0) is None
    with subscribe("news", after=6) as subscription:
        assert subscription.get(0) is None
    with subscribe("news", after=0) as subscription:
        assert [subscription.get(0).number for _ in range(3)] == [1, 3, 5]


def test_subscriber_is_told_of_messages_that_are_overwritten_before_it_comes():
    for number in range(1000):
        publish("news", f"{number:4}" * 50)
    with subscribe("news", after=100) as subscription:
        with pytest.raises(Lagged) as told:
            subscription.get(0)
        rest = []
        while (message := subscription.get(0)) is not None:
            rest.append(message.number)
        assert rest == list(range(1001 - len(rest), 1001)) and 100 < len(rest) < 400
        assert told.value.missed == 1000 - len(rest) - 100
    with subscribe("news", after=rest[0] - 1) as subscription:
        assert subscription.get(0).number == rest[0]


def test_number_of_an_earlier_server_brings_all_that_is_there_and_a_gap():
    publish("news", "first")
    with subscribe("news", after=50) as subscription:
        with pytest.raises(Lagged):
            subscription.get(0)
        assert subscription.get(0).data == "first" and subscription.get(0) is None
    for number in (-1, 1 << 63):
        with pytest.raises(ValueError, match="after"):
            subscribe("news", after=number)


def test_iteration_goes_on_after_a_gap():
    with subscribe("news") as subscription:
        for number in range(1000):
            publish("news", f"{number:4}" * 50)
        got, lagged = [], 0
        publish("news", "end")
        while not got or got[-1] != "end":
            try:
                for message in subscription:
                    got.append(message.data)
                    if message.data == "end":
                        break
            except Lagged:
                lagged += 1
        assert lagged >= 1 and 100 < len(got) < 400


def test_thousand_publishers_at_once_are_heard_each_in_its_order():
    with subscribe("all") as subscription:

        def work(name):
            for number in range(5):
                publish("all", [name, number])
                syncless.sleep(0)

        heard, publishers = {}, []
        for first in range(0, 1000, 100):  # as many as the ring of this test has room for
            publishers = [syncless.spawn(work, first + n) for n in range(100)]
            for _ in range(500):
                name, number = subscription.get().data
                heard.setdefault(name, []).append(number)
            syncless.join_all(publishers)
    assert heard == {name: [0, 1, 2, 3, 4] for name in range(1000)}


def test_publishers_in_threads_and_other_processes_are_heard_each_in_its_order():
    with subscribe("all") as subscription:

        def work(name):
            for number in range(50):
                publish("all", [name, number])

        pids = []
        for name in range(3):
            pid = os.fork()
            if pid == 0:
                work(name)
                os._exit(0)
            pids.append(pid)
        threads = [threading.Thread(target=work, args=(name,)) for name in range(3, 6)]
        for thread in threads:
            thread.start()
        heard = {}
        for _ in range(300):
            name, number = subscription.get().data
            heard.setdefault(name, []).append(number)
        assert heard == {name: list(range(50)) for name in range(6)}
        for thread in threads:
            syncless.run_in_thread(thread.join)
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0, 0]


def test_message_that_another_process_sends_while_the_first_one_subscribes_is_none_of_its(monkeypatch):
    made = embedded.Waker

    def waker(memory, pid, started, deliver):
        deliver([(b"news", memory.head())], 0)
        return made(memory, pid, started, deliver)

    monkeypatch.setattr(embedded, "Waker", waker)
    with subscribe("news") as subscription:
        publish("news", 1)
        assert subscription.get().data == 1


def test_thread_subscribes_in_its_own_loop():
    ready = threading.Event()
    got = []

    def listen():
        with subscribe("news") as subscription:
            ready.set()
            got.append(next(subscription).data)

    thread = threading.Thread(target=listen)
    thread.start()
    syncless.run_in_thread(ready.wait)
    publish("news", "to a thread")
    syncless.run_in_thread(thread.join)
    assert got == ["to a thread"]


def test_coroutine_iterates_and_may_be_cancelled():
    async def listen():
        got = []
        async for message in subscribe("news"):
            got.append(message.data)
            if len(got) == 3:
                break
        return got

    async def main():
        task = asyncio.ensure_future(listen())
        await asyncio.sleep(0)
        for number in range(3):
            publish("news", number)
            await asyncio.sleep(0)
        assert await task == [0, 1, 2]
        waiting = asyncio.ensure_future(listen())
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(main())


def test_subscription_that_nothing_refers_to_is_closed(region):
    subscription = subscribe("news")
    assert len(region.owners_of_places()) == 1
    del subscription
    gc.collect()
    assert region.owners_of_places() == []


def test_killed_subscriber_leaves_nothing(region):
    def listen():
        for _ in subscribe("news"):
            pass

    waiting = syncless.spawn(listen)
    syncless.sleep(0)
    assert len(region.owners_of_places()) == 1
    waiting.kill()
    del waiting  # it has the traceback
    gc.collect()
    assert region.owners_of_places() == []


def test_closed_subscription_wakes_who_waits_for_it():
    subscription = subscribe("news")
    waiting = syncless.spawn(list, subscription)
    syncless.sleep(0)
    subscription.close()
    assert waiting.result() == []


def test_subscription_of_the_parent_has_ended_in_a_child(region):
    with subscribe("news") as subscription:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with subscribe("news") as own:
                    publish("news", "from the child")
                    code = 0 if subscription.get() is None and own.get().data == "from the child" else 2
            finally:
                os._exit(code)
        assert subscription.get().data == "from the child"
        assert os.waitpid(pid, 0)[1] == 0
        assert len(region.owners_of_places()) == 1


def test_place_of_a_killed_process_is_given_to_another(region):
    pid = os.fork()
    if pid == 0:
        listening = subscribe("news")  # noqa: F841
        while True:
            publish("other", "so that it is awake")
    assert eventually(lambda: len(region.owners_of_places()) == 1)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    with subscribe("news"):
        ((_, owner, _),) = region.owners_of_places()
        assert owner == os.getpid()


STREAM = [("Content-Type", "text/event-stream")]


def test_stop_of_the_server_ends_its_subscriptions_at_once():
    """And those that begin while it stops. After it, others can be made."""
    begun, ended = syncless.Event(), []

    def app(environ, start_response):
        start_response("200 OK", STREAM)
        with subscribe("news") as subscription:
            begun.set()
            for message in subscription:
                yield f"data: {message.data}\n\n".encode()
        ended.append(list(subscribe("news")))
        yield b"data: end\n\n"

    server = Server(app, port=0).start()
    with socket.create_connection(server.address) as client, client.makefile("rb") as answer:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        begun.wait()
        publish("news", "hello")
        while answer.readline() != b"data: hello\n":
            pass
        stopping = syncless.spawn(server.stop)
        assert answer.read() == b"\ndata: end\n\n" and ended == [[]]
        stopping.join()
    with subscribe("news") as subscription:
        publish("news", "later")
        assert subscription.get().data == "later"


def test_subscription_goes_on_while_another_server_of_the_process_serves():
    with Server(lambda *args: [], port=0), subscribe("news") as subscription:
        with Server(lambda *args: [], port=0):
            pass
        publish("news", 1)
        assert subscription.get().data == 1


def test_subscription_ends_with_its_request_when_the_client_hangs_up(region):

    def app(environ, start_response):
        start_response("200 OK", STREAM)
        yield b"data: begin\n\n"
        for message in subscribe("news"):
            yield message.data

    with Server(app, port=0, on_hangup="stop") as server:
        with socket.create_connection(server.address) as client, client.makefile("rb") as answer:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            while answer.readline() != b"data: begin\n":
                pass
            assert eventually(lambda: len(region.owners_of_places()) == 1)
        assert eventually(lambda: gc.collect() >= 0 and region.owners_of_places() == [])
