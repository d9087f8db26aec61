"""The applications that every Python server gets, as WSGI callables."""

import json
import os
import pathlib
import time
from urllib.parse import parse_qsl

BODY = b"Hello, World!"
BIG = b"x" * 1_000_000
POSTED = json.dumps({"name": "benchmark", "numbers": list(range(1800))}).encode().ljust(10_000)
ROUNDS = 1_000_000
UPLOAD = b"x" * 20_000_000
ITEMS = [
    {"id": n, "name": f"item {n}", "price": 100 + n * 37 % 900, "quantity": 1 + n % 20, "active": n % 3 == 0}
    for n in range(50)
]
DATABASE = pathlib.Path(__file__).parents[2] / "build" / "benchmark" / "items.sqlite"


def plain(start_response, body):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "13")])
    return [BODY]


def big(environ, start_response):
    """A megabyte."""
    return plain(start_response, BIG)


def summary(posted):
    """The answer to the JSON document of POSTED."""
    document = json.loads(posted)
    return json.dumps({"name": document["name"], "sum": sum(document["numbers"])}).encode()


def posted(environ, start_response):
    """10 kB of JSON come in, a little JSON goes out."""
    answer = summary(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]


def added(environ, start_response):
    """The sum of the numbers in the query, and of a posted one."""
    total = sum(int(value) for _, value in parse_qsl(environ.get("QUERY_STRING", "")))
    if environ["REQUEST_METHOD"] == "POST":
        total += int(environ["wsgi.input"].read())
    return plain(start_response, b"%d" % total)


def listing(items):
    return json.dumps({"items": items, "count": len(items)}, separators=(",", ":")).encode()


def as_json(start_response, body):
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


def with_totals(items):
    return [{**item, "total": item["price"] * item["quantity"]} for item in items]


def items(environ, start_response):
    """ITEMS, each with its total."""
    return as_json(start_response, listing(with_totals(ITEMS)))


def uploaded(environ, start_response):
    """How many bytes were posted."""
    size = 0
    while chunk := environ["wsgi.input"].read(1 << 16):
        size += len(chunk)
    return plain(start_response, b"%d" % size)


def stored(n):
    """An item of the database."""
    return {"id": n, "name": f"item {n}", "price": n // 100, "quantity": 1 + n % 20, "active": n % 3 == 0}


def make_database():
    """100,000 items in SQLite."""
    import sqlite3

    if not DATABASE.exists():
        made = DATABASE.with_suffix(f".{os.getpid()}")
        with sqlite3.connect(made) as connection:
            connection.execute(
                f"create table items (id integer primary key, {', '.join(list(stored(0))[1:])})"
            )
            connection.execute("create index prices on items (price)")
            rows = map(stored, range(100_000))
            connection.executemany("insert into items values (:id, :name, :price, :quantity, :active)", rows)
        connection.close()
        made.replace(DATABASE)


def database():
    """The first 50 items with a price between 100 and 500."""
    import sqlite3
    import threading

    make_database()
    local = threading.local()
    query = f"select {', '.join(stored(0))} from items where price between ? and ? limit 50"

    def app(environ, start_response):
        try:
            connection = local.connection
        except AttributeError:
            connection = local.connection = sqlite3.connect(DATABASE)
        rows = connection.execute(query, (100, 500)).fetchall()
        found = [
            {"id": id, "name": name, "price": price, "quantity": quantity, "active": bool(active)}
            for id, name, price, quantity, active in rows
        ]
        return as_json(start_response, listing(found))

    return app


def sleeping(sleep):
    """Hello after 10 ms of the server's own way to sleep."""

    def app(environ, start_response):
        sleep(0.01)
        return hello(environ, start_response)

    return app


def slow(sleep):
    """FastAPI's hello after 50 ms: the server that other applications call."""

    def app(environ, start_response):
        sleep(0.05)
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", "17")])
        return [b'{"hello":"world"}']

    return app


def fibonacci(rounds):
    """The number modulo 2**32, in Python."""
    a, b = 0, 1
    for _ in range(rounds):
        a, b = b, (a + b) & 0xFFFFFFFF
    return a


def computing(compute):
    """fibonacci(10**6) in 32 bits."""

    def app(environ, start_response):
        return plain(start_response, str(compute(ROUNDS)).encode())

    return app


def native():
    """The same in Cython, without the interpreter's lock."""
    import pathlib
    import sys

    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "build" / "benchmark"))
    import fibonacci_native

    return computing(fibonacci_native.fibonacci)


def holding(hold):
    """Hello, but a request for /held holds its thread before."""

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/held":
            hold()
        return hello(environ, start_response)

    return app


def hold_in_c():
    """For 300 ms, without the interpreter's lock."""
    import ctypes

    usleep = ctypes.CDLL(None).usleep
    return holding(lambda: usleep(300_000))


def hold_in_python():
    """For as long, in Python."""
    clock = time.perf_counter

    def hold():
        end = clock() + 0.3
        while clock() < end:
            pass

    return holding(hold)


def flask():
    from flask import Flask

    app = Flask("hello")

    @app.get("/")
    def index():
        return BODY, {"Content-Type": "text/plain"}

    return app


def django(from_database=False):
    """A hello, or the name of an item that the ORM reads."""
    import sys

    import django
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import path

    if from_database:
        make_database()
    engine = {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE, "CONN_MAX_AGE": None}
    settings.configure(
        ROOT_URLCONF="benchmark_urls",
        ALLOWED_HOSTS=["*"],
        SECRET_KEY="benchmark",
        DEBUG=False,
        MIDDLEWARE=[],
        DATABASES={"default": engine},
    )
    django.setup()
    from django.db import models

    class Item(models.Model):
        name = models.TextField()

        class Meta:
            app_label, db_table, managed = "benchmark", "items", False

    def view(request):
        body = Item.objects.get(pk=10_000).name.encode() if from_database else BODY
        return HttpResponse(body, content_type="text/plain", headers={"Content-Length": str(len(body))})

    urls = type(sys)("benchmark_urls")
    urls.urlpatterns = [path("", view)]
    sys.modules["benchmark_urls"] = urls
    return get_wsgi_application()


def echo(environ, start_response):
    """A WebSocket that sends back each message."""
    websocket = environ["wsgi.websocket"]
    while (message := websocket.receive()) is not None:
        websocket.send(message)
    return []


def named(name, sleep=time.sleep):
    """The application of that name."""
    return {
        "hello": lambda: hello,
        "logged": lambda: hello,
        "patched": lambda: hello,
        "http2": lambda: hello,
        "http2 tls": lambda: hello,
        "tls": lambda: hello,
        "http2 big": lambda: big,
        "counted": lambda: hello,
        "untraced": lambda: hello,
        "traced": lambda: hello,
        "sleep": lambda: sleeping(sleep),
        "big": lambda: big,
        "json": lambda: posted,
        "fib": lambda: computing(fibonacci),
        "fib native": native,
        "flask": flask,
        "django": django,
        "django database": lambda: django(from_database=True),
        "echo": lambda: echo,
        "slow": lambda: slow(sleep),
        "sum": lambda: added,
        "items": lambda: items,
        "upload": lambda: uploaded,
        "database": database,
        "held c": hold_in_c,
        "held python": hold_in_python,
    }[name]()
