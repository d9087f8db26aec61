"""The API on Redis: the same results, and what becomes of each operation while Redis is away."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
import time

import pytest

import syncless
from syncless.shared import (
    Counter,
    Lagged,
    Lock,
    Mapping,
    RateLimit,
    StoreFull,
    Unavailable,
    area,
    connect,
    figures,
    publish,
    subscribe,
)
from syncless.wsgi import Limits, Server
from tests import needs
from tests.asyncio.loops import run
from tests.authority import Authority
from tests.patches.servers import free_port
from tests.shared.daemon import Daemon
from tests.shared.test_deaths import child
from tests.shared.test_hold_elsewhere import app, client_events, wsgi
from tests.waiting import eventually

redisstore = pytest.importorskip("syncless.shared.redisstore", reason="redis is not installed")


@pytest.fixture(scope="module")
def daemon():
    made = Daemon()
    yield made
    made.end()


@pytest.fixture(autouse=True)
def store(daemon, monkeypatch, region):
    """A new prefix for each test: what others leave does not matter."""
    made = made_store(daemon, prefix=os.urandom(4).hex())
    monkeypatch.setattr(area, "_store", made)
    yield made
    while _made:
        _made.pop().close()


_made = []


def made_store(daemon, prefix="syncless", seconds=60.0, **limits):
    _made.append(redisstore.Redis(f"{daemon.url}?prefix={prefix}", Limits(shared_seconds=seconds, **limits)))
    return _made[-1]


def test_counter_adds_and_is_cleared_and_does_not_overflow():
    hits = Counter("hits")
    assert (hits.get(), hits.add(), hits.add(5), hits.add(-7)) == (0, 1, 6, -1)
    assert Counter("hits").get() == -1 and Counter("other").get() == 0
    assert (hits.clear(), hits.get(), hits.clear()) == (-1, 0, 0)
    hits.add(2**63 - 1)
    for number in (1, 2**70):
        with pytest.raises(OverflowError):
            hits.add(number)
    assert hits.get() == 2**63 - 1


@pytest.mark.parametrize("value", [b"", b"\0\xff" * 40, "m\xf6we", "x" * 200_000, None, 1.5, {"a": [1]}])
def test_value_comes_back_as_it_was_set(value):
    values = Mapping("values")
    values.set("k", "before")
    values.set("k", value)
    found = values.get("k")
    assert found == value and type(found) is type(value)
    assert values.pop("k") == value and values.get("k", "none") == "none" and values.pop("k", 1) == 1


def test_values_are_added_compared_and_expire():
    values = Mapping("values")
    assert not values.compare_and_set("k", None, 1)
    assert values.add("k", 1) and not values.add("k", 2)
    assert not values.compare_and_set("k", "1", 3)
    assert values.compare_and_set("k", 1, {"a": 1, "b": 2}, ttl=3600)
    assert values.compare_and_set("k", {"b": 2, "a": 1}, "new") and values.get("k") == "new"
    values.set("k", 1, ttl=0.001)
    assert eventually(lambda: values.get("k") is None) and values.add("k", 2, ttl=0.001)
    assert eventually(lambda: values.add("k", 3))


def test_rate_gives_its_turns_at_once_and_then_one_by_one():
    limit = RateLimit("logins", "5/hour")
    assert [limit.allow() for _ in range(7)] == [True] * 5 + [False] * 2
    assert 700 < limit.take() <= 720
    quick = RateLimit("quick", "100/second")
    while quick.allow():
        pass
    assert 0 < quick.take(50) <= 0.5 and eventually(lambda: quick.allow(50))


def test_full_redis_raises_store_full_and_a_value_of_others_is_named():
    with contextlib.ExitStack() as opened:
        small = Daemon("--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
        opened.callback(small.end)
        area._store = made_store(small)
        with pytest.raises(StoreFull, match="maxmemory"):
            for number in range(100):
                Mapping("values").set(f"{number}", "x" * 100_000)
        with pytest.raises(Unavailable, match=f"127.0.0.1:{small.port}"):
            area.store().ask("NONE")


def test_thousand_tasklets_share_the_connections_of_a_loop(store):
    syncless.join_all([syncless.spawn(Counter("hits").add) for _ in range(1000)])
    assert Counter("hits").get() == 1000
    (clients,) = [line for line in store.ask("INFO").splitlines() if line.startswith(b"connected_clients:")]
    assert int(clients.partition(b":")[2]) <= redisstore.CONNECTIONS + 2


def test_threads_have_connections_of_their_own():
    def work():
        for _ in range(50):
            Counter("hits").add()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        syncless.run_in_thread(thread.join)
    assert Counter("hits").get() == 200


def test_subscriber_gets_the_messages_of_its_topics_once_and_from_then_on():
    publish("news", "before")
    with subscribe("news", "n*", "*s", "room:*", "a[b]*", "q?*", "e\\*") as subscription:
        sent = ["news", "room:1", "other", "xroom:1", "a[b]c", "ab", "q?", "qx", "e\\f", "\u20ac"]
        numbers = [publish(topic, {"of": topic}) for topic in sent]
        assert numbers == list(range(2, 12))
        got = [subscription.get() for _ in range(5)]
        assert [message.topic for message in got] == ["news", "room:1", "a[b]c", "q?", "e\\f"]
        assert [message.number for message in got] == [2, 3, 6, 8, 10] and got[0].data == {"of": "news"}
        assert subscription.get(timeout=0) is None
    assert subscription.ended and list(subscription) == []


def test_topics_of_later_subscribers_join_the_connection_and_leave_it(store):
    def subscribed():
        return len(store.ask("PUBSUB", "CHANNELS", store.channels + b"*"))

    with subscribe("one") as one:
        for _ in range(20):  # it is forgotten and wanted again before the feed has its turn
            for number in range(10):
                with subscribe(f"{number}", "two") as other:
                    publish("two", number)
                    assert other.get().data == number
        publish("one", "end")
        assert one.get().data == "end"
        assert eventually(lambda: subscribed() == 1)
    assert eventually(lambda: subscribed() == 0)


def test_slow_subscriber_is_told_how_many_messages_it_has_missed(daemon, monkeypatch, store):
    monkeypatch.setattr(store, "ring_bytes", 1 << 16)
    with subscribe("news") as slow, subscribe("news") as quick:
        for number in range(1000):
            publish("news", f"{number:4}" * 50)
            assert quick.get().data[:4] == f"{number:4}"
        with pytest.raises(Lagged) as told:
            slow.get()
        assert not told.value.interrupted
        rest = []
        while (message := slow.get(0)) is not None:
            rest.append(int(message.data[:4]))
        assert rest == list(range(1000 - len(rest), 1000)) and told.value.missed == 1000 - len(rest)


def test_coroutines_publish_count_and_iterate():
    async def listen():
        got = []
        async for message in subscribe("news"):
            got.append(message.data)
            if len(got) == 3:
                break
        return got

    async def main():
        tasks = [asyncio.ensure_future(listen()) for _ in range(3)]
        while len(area.store().ask("PUBSUB", "CHANNELS", area.store().channels + b"news")) == 0:
            await asyncio.sleep(0.001)
        for _ in range(3):
            publish("news", Counter("hits").add())
        assert await asyncio.gather(*tasks) == [[1, 2, 3]] * 3

    run(main())


def test_lock_has_one_holder_and_goes_to_who_waits():
    inside, most = [], []

    def work():
        with Lock("one"):
            inside.append(1)
            most.append(len(inside))
            syncless.sleep(0)
            inside.pop()

    syncless.join_all([syncless.spawn(work) for _ in range(30)])
    assert most == [1] * 30 and not Lock("one").locked()
    lock = Lock("one")
    with lock:
        assert lock.locked() and not Lock("one").acquire(False) and not Lock("one").acquire(timeout=0)
    with pytest.raises(RuntimeError, match="not held"):
        lock.release()


@pytest.mark.realtime("a lease is real time, which another process lets pass")
def test_lock_stays_with_who_computes_for_long_and_leaves_who_was_killed(monkeypatch):
    monkeypatch.setattr(redisstore, "LEASE_SECONDS", 2.0)
    wait = redisstore.wait_readable  # a busy machine may be late, so the lease is renewed sooner than needed
    monkeypatch.setattr(redisstore, "wait_readable", lambda fds, seconds: wait(fds, seconds / 10))
    told = os.pipe()

    def hold():
        Lock("import").acquire()
        end = time.perf_counter() + 2.5
        while time.perf_counter() < end:  # longer than its lease
            pass
        os.write(told[1], b"held" if not Lock("import").acquire(False) else b"lost")
        signal.pause()

    with child(hold) as pid:
        assert eventually(Lock("import").locked)
        assert not Lock("import").acquire(timeout=2.2)
        assert syncless.run_in_thread(os.read, told[0], 4) == b"held"
        os.kill(pid, signal.SIGKILL)
        assert Lock("import").acquire(timeout=60)
    for fd in told:
        os.close(fd)


def test_child_of_a_fork_has_connections_of_its_own():
    with subscribe("news") as subscription:
        Counter("hits").add()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with subscribe("news") as own:
                    publish("news", Counter("hits").add())
                    code = 0 if subscription.get() is None and own.get().data == 2 else 2
            finally:
                os._exit(code)
        assert subscription.get().data == 2 and Counter("hits").add() == 3
        assert os.waitpid(pid, 0)[1] == 0
        publish("news", "later")
        assert subscription.get().data == "later"


def test_abandoned_and_killed_subscriptions_leave_no_tasklet():
    before = len(syncless.tasklets())
    subscription = subscribe("news")
    waiting = syncless.spawn(list, subscribe("other"))
    syncless.sleep(0)
    waiting.kill()
    del waiting, subscription
    gc.collect()
    assert eventually(lambda: len(syncless.tasklets()) == before)


def test_redis_that_was_killed_raises_and_subscribers_come_back_and_are_told():
    daemon = Daemon()
    area._store = made_store(daemon, seconds=0.5)
    try:
        hits, lock = Counter("hits"), Lock("one")
        with subscribe("news", "r*") as subscription:
            assert eventually(lambda: came_back(lambda: publish("news", hits.add())))
            assert subscription.get().data > 0 and eventually(lambda: came_back(lock.acquire))
            daemon.kill()
            for work in (hits.add, lambda: publish("news", 1), lambda: Mapping("m").get("k"), lock.release):
                with pytest.raises(Unavailable, match=r"Redis at 127\.0\.0\.1"):
                    work()
            with pytest.raises(Unavailable, match=r"shared_seconds, 0\.5 s"):
                subscribe("other")
            assert subscription.get(0) is None and not subscription.ended
            daemon.start()
            with pytest.raises(Lagged, match="connection to Redis was lost") as told:
                subscription.get(60)
            assert told.value.interrupted and told.value.missed == 0
            assert eventually(lambda: came_back(lambda: publish("room", "again")))
            assert subscription.get(60).data == "again"
        assert eventually(lambda: came_back(hits.add)) and hits.get() > 0
    finally:
        daemon.end()


@needs.HTTP2
@pytest.mark.parametrize("application", [app, wsgi], ids=["asgi", "wsgi"])
def test_streams_held_over_http2_are_told_of_a_gap_and_go_on(background, application):
    pytest.importorskip("h2", reason="the client is the library h2: pip install h2")
    from tests.http2_client import Client

    server = Server(application, port=0, lifespan="off", http2="cleartext").start()
    client = Client(server)
    streams = [client.ask(), client.ask()]
    events = [client_events(client) for _ in streams]

    def all_get(text):
        return all(get(text, stream) for get, stream in zip(events, streams, strict=True))

    assert all_get(b"retry")
    publish("news", "one")
    assert all_get(b"data: one")
    area.store().ask("CLIENT", "KILL", "TYPE", "pubsub")
    assert all_get(b"event: lagged\ndata: 0")
    publish("news", "two")
    assert all_get(b"data: two")
    client.close()
    assert eventually(lambda: not server.census()["connections"])
    server.stop(0)


def test_redis_that_does_not_answer_raises_within_its_seconds_and_holds_up_no_other_tasklet():
    daemon = Daemon()
    area._store = made_store(daemon, seconds=0.3)
    try:
        with subscribe("news") as subscription:
            with daemon.halted():
                turns = []
                ticker = syncless.spawn(lambda: [turns.append(syncless.sleep(0.001)) for _ in range(100)])
                with pytest.raises(Unavailable, match=r"not answered within shared_seconds, 0\.3 s"):
                    Counter("hits").add()
                assert turns  # others ran meanwhile
                ticker.join()
                failures = []

                def work():
                    with pytest.raises(Unavailable) as told:
                        Counter("hits").add()
                    failures.append(told)

                # more than there are connections
                syncless.join_all([syncless.spawn(work) for _ in range(100)])
                assert len(failures) == 100
            assert eventually(lambda: came_back(lambda: publish("news", "on")))
            assert subscription.get(60).data == "on"
            assert eventually(lambda: came_back(Counter("hits").add))
    finally:
        daemon.end()


def came_back(work):
    """Whether it works: on a busy machine a third of a second may not be enough."""
    with contextlib.suppress(Unavailable):
        work()
        return True


def test_feed_gives_up_a_connection_that_is_dead(monkeypatch):
    monkeypatch.setattr("syncless.shared.redisfeed.QUIET_SECONDS", 0.1)
    daemon = Daemon()
    area._store = made_store(daemon)
    try:
        with subscribe("news") as subscription:
            assert eventually(lambda: b"cmdstat_ping" in area.store().ask("INFO", "COMMANDSTATS"))
            publish("news", 1)
            assert subscription.get().data == 1
            feed = subscription._inbox.feed
            with daemon.halted():
                assert eventually(lambda: feed._connection is None)
            with pytest.raises(Lagged):
                subscription.get(60)
            publish("news", 2)
            assert subscription.get(60).data == 2
    finally:
        daemon.end()


def test_unix_socket_and_tls(tmp_path):
    authority = Authority(tmp_path)
    certfile, keyfile = authority.files("localhost")
    authority.ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    path, tls_port = tmp_path / "redis.sock", free_port()
    files = ["--tls-cert-file", certfile, "--tls-key-file", keyfile, "--tls-auth-clients", "no"]
    daemon = Daemon("--unixsocket", str(path), "--tls-port", str(tls_port), *files)
    try:
        for url in (f"unix://{path}?db=2", f"rediss://localhost:{tls_port}/2?ssl_ca_certs={tmp_path}/ca.pem"):
            area._store = redisstore.Redis(url, Limits())
            _made.append(area._store)
            with subscribe("news", "n*") as subscription:
                publish("news", "x" * 300_000)
                assert subscription.get().data == "x" * 300_000
        assert figures()["messages"] == 2
    finally:
        daemon.end()


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6379",
        "http://localhost",
        "redis://localhost/abc",
        "redis://localhost:port/0",
        "redis://localhost/0?colour=red",
        "redis://localhost/0?max_connections=x",
        "unix://",
    ],
)
def test_url_that_is_none_is_refused_without_its_password(url):
    with pytest.raises(ValueError, match="shared: write redis://host:6379/0") as told:
        redisstore.Redis(url.replace("//", "//me:secret@", 1), Limits())
    assert "secret" not in str(told.value).replace("user:password", "")


def test_connect_comes_before_the_first_use(daemon, monkeypatch):
    with pytest.raises(RuntimeError, match="must come before"):
        connect(daemon.url)
    monkeypatch.setattr(area, "_store", None)
    monkeypatch.setattr(area, "_url", "")
    connect(daemon.url)
    connect(daemon.url)
    assert area.store().where == f"127.0.0.1:{daemon.port}"


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(area, "_store", None)
    monkeypatch.delitem(sys.modules, "syncless.shared.redisstore")
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.setitem(sys.modules, "redis.backoff", None)
    with pytest.raises(ValueError, match=r"pip install 'syncless\[redis\]'"):
        connect("redis://localhost")
