"""Caches, rate limits, channel layers and client managers of other packages on syncless.shared."""

import asyncio
import logging
import time

import pytest

import syncless
from syncless.shared import area
from syncless.wsgi import Limits
from tests.asyncio.loops import run
from tests.shared.daemon import Daemon
from tests.waiting import eventually

socketio_packet = pytest.importorskip("socketio.packet", reason="python-socketio is not installed")
embedded = pytest.importorskip("syncless.shared.embedded", reason="it is built where mutexes can be robust")
redisstore = pytest.importorskip("syncless.shared.redisstore", reason="redis is not installed")


@pytest.fixture(scope="module")
def daemon():
    made = Daemon()
    yield made
    made.end()


@pytest.fixture(autouse=True, params=["memory", "redis"])
def store(request, monkeypatch):
    if request.param == "memory":
        made = embedded.Memory(1 << 22, 1 << 20)
    else:
        url = f"{request.getfixturevalue('daemon').url}?prefix={time.time_ns()}"
        made = redisstore.Redis(url, Limits(shared_seconds=60))
    monkeypatch.setattr(area, "_store", made)
    yield
    if request.param == "redis":
        made.close()


# -- limits -------------------------------------------------------------------------------------------------


@pytest.fixture
def storage():
    pytest.importorskip("limits", reason="limits is not installed")
    from limits.storage import storage_from_string

    import syncless.contrib.limits  # noqa: F401  (it registers)

    return storage_from_string("syncless://")


@pytest.mark.parametrize("name", ["FixedWindow", "MovingWindow", "SlidingWindowCounter"])
def test_strategies_of_limits_count_for_all(storage, name):
    import limits

    rate = limits.parse("5/hour")
    limiter = getattr(limits.strategies, f"{name}RateLimiter")(storage)
    others = getattr(limits.strategies, f"{name}RateLimiter")(type(storage)())
    assert limiter.get_window_stats(rate, "me").remaining == 5
    assert [each.hit(rate, "me") for each in [limiter, others] * 3] == [True] * 5 + [False]
    assert not limiter.test(rate, "me") and limiter.test(rate, "you") and others.hit(rate, "you", cost=5)
    stats = others.get_window_stats(rate, "me")
    assert stats.remaining == 0 and time.time() < stats.reset_time <= time.time() + 2 * 3600
    limiter.clear(rate, "me")
    assert limiter.hit(rate, "me") and not limiter.hit(rate, "you")
    storage.reset()
    assert limiter.hit(rate, "you") and storage.check()


@pytest.mark.parametrize("name", ["FixedWindow", "MovingWindow", "SlidingWindowCounter"])
def test_windows_of_limits_end(storage, name):
    import limits

    rate = limits.parse("3/second")
    limiter = getattr(limits.strategies, f"{name}RateLimiter")(storage)
    while limiter.hit(rate, "me"):
        pass
    assert eventually(lambda: limiter.hit(rate, "me"))


def test_hits_of_many_at_once_are_all_counted(storage):
    import limits

    limiter, rate = limits.strategies.MovingWindowRateLimiter(storage), limits.parse("20/hour")
    hits = [syncless.spawn(limiter.hit, rate, "me") for _ in range(50)]
    assert [hit.result() for hit in hits].count(True) == 20


def test_flask_limiter(storage):
    flask = pytest.importorskip("flask", reason="flask is not installed")
    flask_limiter = pytest.importorskip("flask_limiter", reason="Flask-Limiter is not installed")
    app = flask.Flask("limited")
    limiter = flask_limiter.Limiter(lambda: "me", app=app, storage_uri="syncless://")
    app.get("/")(limiter.limit("2/hour")(lambda: "ok"))
    client = app.test_client()
    assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429]


# -- cachelib -----------------------------------------------------------------------------------------------


def test_cachelib():
    pytest.importorskip("cachelib", reason="cachelib is not installed")
    from syncless.contrib.cachelib import SharedCache

    cache, same, other = SharedCache("one"), SharedCache("one"), SharedCache("two")
    assert cache.set("k", {1: (2, b"3")}) and same.get("k") == {1: (2, b"3")} and other.get("k") is None
    assert not cache.add("k", 1) and cache.add("l" * 1000, None) and cache.has("l" * 1000)
    assert cache.get("l" * 1000) is None and cache.set_many({"a": 1, "\u20ac": 2}) == ["a", "\u20ac"]
    assert cache.get_many("a", "\u20ac", "none") == [1, 2, None] and cache.get_dict("a") == {"a": 1}
    assert cache.inc("a", 5) == 6 and same.dec("a") == 5 and cache.inc("new") == 1
    assert cache.delete("a") and not cache.delete("a") and not cache.has("a")
    assert other.set("k", 1) and cache.clear() and not same.has("k") and other.get("k") == 1
    assert cache.set("k", 1, timeout=0) and cache.set("short", 1, timeout=1)
    assert eventually(lambda: not cache.has("short")) and cache.has("k")


def test_flask_caching_and_flask_session():
    flask = pytest.importorskip("flask", reason="flask is not installed")
    flask_caching = pytest.importorskip("flask_caching", reason="Flask-Caching is not installed")
    flask_session = pytest.importorskip("flask_session", reason="Flask-Session is not installed")
    from syncless.contrib.cachelib import SharedCache

    app, made = flask.Flask("cached"), []
    app.config |= {"SESSION_TYPE": "cachelib", "SESSION_CACHELIB": SharedCache("sessions")}
    flask_session.Session(app)
    cache = flask_caching.Cache(app, config={"CACHE_TYPE": "syncless.contrib.cachelib.SharedCache"})

    @app.get("/")
    @cache.cached()
    def page():
        made.append(1)
        return "page"

    @app.get("/visits")
    def visits():
        flask.session["n"] = flask.session.get("n", 0) + 1
        return str(flask.session["n"])

    first, second = app.test_client(), app.test_client()
    assert first.get("/").text == second.get("/").text == "page" and made == [1]
    assert [first.get("/visits").text for _ in range(3)] == ["1", "2", "3"]
    assert second.get("/visits").text == "1"


# -- Django -------------------------------------------------------------------------------------------------


def test_django_cache():
    pytest.importorskip("django", reason="django is not installed")
    from syncless.contrib.django.cache import SharedCache

    cache, other = SharedCache("one", {"TIMEOUT": 3600}), SharedCache("two", {})
    cache.set("k", {1: (2,)})
    assert SharedCache("one", {}).get("k") == {1: (2,)} and other.get("k") is None and "k" in cache
    assert not cache.add("k", 1) and cache.add("n", 1) and cache.incr("n", 4) == 5 and cache.decr("n") == 4
    with pytest.raises(ValueError, match="not found"):
        cache.incr("none")
    cache.set("gone", 1, timeout=0)
    assert cache.get("gone", "default") == "default" and cache.touch("n", 1) and not cache.touch("gone")
    assert cache.incr("n") == 5 and eventually(lambda: cache.get("n") is None)  # in the time that it had
    cache.set("k", 2, version=2)
    assert cache.get("k", version=2) == 2 and cache.delete("k") and cache.get("k", version=2) == 2
    cache.set("for-ever", None, timeout=None)
    assert "for-ever" in cache and not cache.delete("none")
    cache.clear()
    assert cache.get_many(["k", "for-ever"], version=2) == {}


# -- channels -----------------------------------------------------------------------------------------------


def test_channel_layer_sends_to_channels_and_groups_of_all():
    pytest.importorskip("channels", reason="channels is not installed")
    from syncless.contrib.channels import SharedChannelLayer

    async def main():
        one, two = SharedChannelLayer(), SharedChannelLayer()  # as in two workers
        first, second = await one.new_channel(), await two.new_channel()
        await one.send(second, {"type": "hello", "data": b"\0\xff", "list": [1, {"a": None}]})
        assert await two.receive(second) == {"type": "hello", "data": b"\0\xff", "list": [1, {"a": None}]}
        await one.group_add("room", first)
        await two.group_add("room", second)
        await two.group_send("room", {"type": "to.all"})
        assert await one.receive(first) == await two.receive(second) == {"type": "to.all"}
        await one.group_discard("room", first)
        await one.group_send("room", {"type": "to.two"})
        assert await two.receive(second) == {"type": "to.two"}
        with pytest.raises(TypeError):
            await one.send("a name", {})
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(one.receive(first), 0.01)
        await two.flush()
        await one.group_send("room", {"type": "to.none"})
        waiting = asyncio.ensure_future(two.receive(second))
        while second not in two._half().queues:
            await asyncio.sleep(0)
        await one.send(second, {"type": "last"})
        assert await waiting == {"type": "last"}
        await ended(one, two)

    run(main())


async def ended(*layers):
    """As at the stop of a server."""
    for layer in layers:
        for half in layer._halves.values():
            half.subscription.close()
            await half._task


def test_full_channel_drops_its_oldest_message(caplog):
    pytest.importorskip("channels", reason="channels is not installed")
    from syncless.contrib.channels import SharedChannelLayer

    async def main():
        layer = SharedChannelLayer(capacity=3)
        channel = await layer.new_channel()
        for number in range(5):
            await layer.send(channel, {"n": number})
        while caplog.text.count("its oldest message") < 2:
            await asyncio.sleep(0.001)
        assert [(await layer.receive(channel))["n"] for _ in range(3)] == [2, 3, 4]
        await ended(layer)

    run(main())


# -- python-socketio ----------------------------------------------------------------------------------------


class Server:
    """What a client manager asks of its server."""

    def __init__(self, spawn):
        self.start_background_task = spawn
        self.disconnected = []
        self.packet_class, self.logger = socketio_packet.Packet, logging.getLogger("socketio.test")

    def disconnect(self, sid, namespace=None, **options):
        self.disconnected.append((sid, namespace))


def test_client_managers_of_socketio_hear_one_another():
    from syncless.contrib.socketio import SharedManager

    managers, servers, tasks = [], [], []
    for _ in range(2):
        server = Server(lambda function: tasks.append(syncless.spawn(function)))
        manager = SharedManager()
        manager.set_server(server)
        manager.initialize()
        managers.append(manager)
        servers.append(server)
    try:

        def heard():
            managers[0].disconnect("sid", "/chat")
            return ("sid", "/chat") in servers[1].disconnected

        assert eventually(heard)  # once it listens
    finally:
        for task in tasks:
            task.kill()


def test_async_client_managers_of_socketio_hear_one_another():
    from syncless.contrib.socketio import AsyncSharedManager

    async def main():
        async def listen():
            return await two._listen().__anext__()

        one, two = AsyncSharedManager(channel="a"), AsyncSharedManager(channel="a")
        for each in (one, two):
            each.set_server(Server(None))
        waiting = asyncio.ensure_future(listen())
        while not waiting.done():
            await one._publish({"method": "emit", "data": [1]})
            await asyncio.sleep(0.001)
        assert '"method": "emit"' in waiting.result()

    run(main())
