"""Request slots: under the patch, requests find what others have left in threading.local, as in a pool of
threads."""

import pytest

from tests.patches import servers
from tests.programs import check

SERVE = """
    import contextlib, http.client, sys, threading
    import syncless
    from syncless.server import slots
    from syncless.wsgi import Server
    local, made, ended, event = threading.local(), [], [], syncless.Event()
    class Thing:
        def __init__(self): self.number = len(made); made.append(threading.get_ident())
        def __del__(self): ended.append(threading.get_ident())
    def app(environ, start_response):
        if not hasattr(local, "thing"): local.thing = Thing()
        if environ["PATH_INFO"] == "/wait": event.wait()
        start_response("200 OK", [])
        return [b"%d %d" % (local.thing.number, id(threading.current_thread()))]
    def get(server, path="/"):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
            connection.request("GET", path)
            return connection.getresponse().read()
    def wait_for_two(server):
        first = len(made)
        waiting = [syncless.spawn(get, server, "/wait") for _ in range(2)]
        while len(made) < first + 2: syncless.sleep(0.001)
        return waiting
"""


def test_request_has_the_lowest_free_slot():
    check(
        SERVE
        + """
    with Server(app, port=0) as server:
        waiting = wait_for_two(server)
        third = get(server)
        assert third.startswith(b"2 ") and get(server) == third
        event.set()
        answers = [each.result() for each in waiting]
        assert sorted(each[:1] for each in answers) == [b"0", b"1"]
        assert {get(server) for _ in range(5)} == {answer for answer in answers if answer[:1] == b"0"}
        assert not ended and len(made) == 3
        assert made[0] in threading._active
    assert sorted(ended) == sorted(made) and len(set(made)) == 3    # each in its own thread
    assert not set(made) & set(threading._active)
    """
    )


def test_fresh_slots():
    check(
        SERVE
        + """
    with Server(app, port=0, request_slots="fresh") as server:
        assert [get(server)[:2] for _ in range(3)] == [b"0 ", b"1 ", b"2 "]
        assert len(ended) == 3
    try: Server(app, request_slots="stale")
    except ValueError as error: assert str(error) == "request_slots must be one of keep, fresh, not 'stale'"
    else: raise AssertionError
    """
    )


def test_context_variables_are_fresh():
    check(
        SERVE
        + """
    import contextvars
    variable, seen = contextvars.ContextVar("variable", default=None), []
    def app(environ, start_response):
        seen.append(variable.get()); variable.set(5)
        start_response("200 OK", [])
        return []
    with Server(app, port=0) as server:
        for _ in range(3): get(server)
    assert seen == [None] * 3
    """
    )


def test_idle_slots_end():
    check(
        SERVE
        + """
    slots.IDLE_SECONDS = 0.04
    with Server(app, port=0) as server:
        event.set()
        get(server)
        first = made[:]
        tender = server.request_slots.tender
        while not ended: syncless.sleep(0.001)
        assert ended == first
        assert tender.join() is True and server.request_slots.tender is None
        assert get(server)[:1] == b"1" and len(ended) == 1
    assert len(ended) == 2
    """
    )


TWO = [
    ("keep", "fresh", [b"0 ", b"0 "], [b"1 ", b"2 "]),
    ("fresh", "keep", [b"0 ", b"1 "], [b"2 ", b"2 "]),
    ("keep", "keep", [b"0 ", b"0 "], [b"1 ", b"1 "]),
]


@pytest.mark.parametrize(("first", "second", "of_first", "of_second"), TWO)
def test_two_servers_have_slots_of_their_own(first, second, of_first, of_second):
    """Whatever the other one's option is, and however often that has come and gone."""
    check(
        SERVE
        + f"""
    def asked(server): return [get(server)[:2] for _ in range(2)]
    with Server(app, port=0, request_slots={first!r}) as one:
        assert asked(one) == {of_first!r}
        with Server(app, port=0, request_slots={second!r}) as other:
            assert asked(other) == {of_second!r}
            if {first!r} == "keep": assert asked(one) == {of_first!r}
            else: assert len({{*asked(one), *{of_first!r}, *{of_second!r}}}) == 5
            mine = set(ended)
        if {second!r} == "keep": assert len(set(ended) - mine) == 1     # of the other one
        if {first!r} == "keep": assert asked(one) == {of_first!r}
    assert len(ended) == len(made)
    """
    )


def test_idle_slots_end_though_another_server_stops_meanwhile():
    check(
        SERVE
        + """
    slots.IDLE_SECONDS = 0.04
    with Server(app, port=0) as one:
        with Server(app, port=0):
            get(one)
            waiting = syncless.spawn(get, one, "/wait")
            while one.census()["active"] == 0: syncless.sleep(0.001)
        event.set()
        waiting.result()
        while not ended: syncless.sleep(0.001)
    """
    )


def test_slot_of_a_request_that_outlives_its_server_ends_with_it():
    check(
        SERVE
        + """
    def app(environ, start_response):
        local.thing = Thing()
        while not event.is_set():
            try: event.wait()
            except BaseException: pass
        start_response("200 OK", [])
        return [b""]
    server = Server(app, port=0, error_log="/dev/null").start()
    waiting = syncless.spawn(get, server)
    while not made: syncless.sleep(0.001)
    server.stop(0)
    assert not ended
    event.set()
    while not ended: syncless.sleep(0.001)
    waiting.kill()
    """
    )


def test_threads_that_a_request_asks_for_take_slots_of_its_server():
    pytest.importorskip("fastapi")
    check(
        SERVE
        + """
    from fastapi import FastAPI
    fast = FastAPI()
    @fast.get("/")
    def endpoint():
        if not hasattr(local, "thing"): local.thing = Thing()
        return local.thing.number
    with Server(fast, port=0) as keeps, Server(fast, port=0, request_slots="fresh") as fresh:
        assert [get(keeps) for _ in range(3)] == [b"0"] * 3
        assert [get(fresh) for _ in range(3)] == [b"1", b"2", b"3"]
        assert get(keeps) == b"0"
    """
    )


def test_locks_of_a_slot_are_its_requests():
    """As a pool's thread, it may leave an RLock to the next request."""
    check(
        SERVE
        + """
    lock = threading.RLock()
    def app(environ, start_response):
        start_response("200 OK", [])
        if environ["PATH_INFO"] == "/": lock.acquire()
        else: lock.release()
        return [b"%d" % lock._is_owned()]
    with Server(app, port=0) as server:
        assert [get(server, path) for path in ("/", "/release")] == [b"1", b"0"]
    """
    )


def test_killed_request_leaves_its_slot():
    check(
        SERVE
        + """
    with Server(app, port=0, request_seconds=0.005, error_log="/dev/null") as server:
        assert get(server, "/wait").startswith(b"503 ")
        assert get(server)[:1] == b"0" and len(made) == 1
    """
    )


def test_synchronous_endpoints_keep_connections():
    pytest.importorskip("fastapi")
    check(
        SERVE
        + """
    from fastapi import FastAPI
    fast = FastAPI()
    @fast.get("/")
    def endpoint():
        if not hasattr(local, "thing"): local.thing = Thing()
        return local.thing.number
    with Server(fast, port=0) as server:
        assert [get(server) for _ in range(5)] == [b"0"] * 5
    """
    )


def test_scoped_session_of_sqlalchemy(tmp_path):
    pytest.importorskip("sqlalchemy")
    check(
        SERVE
        + """
    from sqlalchemy import create_engine, event as events, text
    from sqlalchemy.orm import scoped_session, sessionmaker
    engine = create_engine("sqlite:///" + sys.argv[1] + "/db")
    session, connects = scoped_session(sessionmaker(engine)), []
    events.listen(engine, "connect", lambda *args: connects.append(args))
    made_sessions = set()
    def app(environ, start_response):
        made_sessions.add(session())
        found = session.execute(text("SELECT 5")).scalar()
        session.rollback()
        start_response("200 OK", [])
        return [b"%d" % found]
    with Server(app, port=0) as server:
        assert {get(server) for _ in range(20)} == {b"5"}
    assert len(connects) == 1 and len(made_sessions) == 1
    engine.dispose()
    """,
        tmp_path,
    )


DJANGO = """
    import http.client, sys
    import django
    from django.conf import settings
    settings.configure(
        ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="secret", DATABASES={"default": {
            "ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": sys.argv[1],
            "NAME": "postgres", "USER": "postgres", "CONN_MAX_AGE": None}})
    django.setup()
    from django.core.wsgi import get_wsgi_application
    from django.db import connection
    from django.db.backends.signals import connection_created
    from django.http import HttpResponse
    from django.urls import path
    from syncless.wsgi import Server
    connects = []
    connection_created.connect(lambda **about: connects.append(about), weak=False)
    def view(request):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return HttpResponse(str(cursor.fetchone()[0]))
    urlpatterns = [path("", view)]
    with Server(get_wsgi_application(), port=0) as server:
        pids = set()
        for _ in range(20):
            client = http.client.HTTPConnection("127.0.0.1", server.port)
            client.request("GET", "/")
            pids.add(client.getresponse().read())
            client.close()
    assert len(connects) == len(pids) == 1, (connects, pids)
"""


@pytest.mark.slow
def test_persistent_connections_of_django():
    pytest.importorskip("django")
    pytest.importorskip("psycopg")
    if not (servers.program("initdb") and servers.program("postgres")):
        pytest.skip("PostgreSQL is not installed")
    with servers.postgresql() as port:
        check(DJANGO, port)


CACHE = """
    import http.client
    from django.conf import settings
    settings.configure(
        ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="secret",
        CACHES={"default": {"BACKEND": f"{__name__}.Cache", "LOCATION": ""}})
    import django
    django.setup()
    from django.core.cache import cache
    from django.core.cache.backends.locmem import LocMemCache
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import path
    from syncless.wsgi import Server
    made = []
    class Cache(LocMemCache):
        def __init__(self, *arguments):
            made.append(self)
            super().__init__(*arguments)
    urlpatterns = [path("", lambda request: HttpResponse(str(cache.get_or_set("key", "value"))))]
    with Server(get_wsgi_application(), port=0) as server:
        for _ in range(20):
            client = http.client.HTTPConnection("127.0.0.1", server.port)
            client.request("GET", "/")
            assert client.getresponse().read() == b"value"
            client.close()
    assert len(made) == 1, made
"""


def test_caches_of_django_are_made_once_for_a_slot():
    """Each has a pool of connections: a cache for each request would connect for each."""
    pytest.importorskip("django", reason="Django is not installed: pip install django")
    check(CACHE)
