"""The applications that every Python server gets, as WSGI callables."""

import json
import time

BODY = b"Hello, World!"
BIG = b"x" * 1_000_000
POSTED = json.dumps({"name": "benchmark", "numbers": list(range(1800))}).encode().ljust(10_000)
ROUNDS = 1_000_000


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


def django():
    import sys

    import django
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import path

    settings.configure(
        ROOT_URLCONF="benchmark_urls", ALLOWED_HOSTS=["*"], SECRET_KEY="benchmark", DEBUG=False, MIDDLEWARE=[]
    )
    django.setup()
    urls = type(sys)("benchmark_urls")
    urls.urlpatterns = [
        path(
            "",
            lambda request: HttpResponse(BODY, content_type="text/plain", headers={"Content-Length": "13"}),
        )
    ]
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
        "http2": lambda: hello,
        "http2 tls": lambda: hello,
        "http2 big": lambda: big,
        "counted": lambda: hello,
        "sleep": lambda: sleeping(sleep),
        "big": lambda: big,
        "json": lambda: posted,
        "fib": lambda: computing(fibonacci),
        "fib native": native,
        "flask": flask,
        "django": django,
        "echo": lambda: echo,
        "slow": lambda: slow(sleep),
        "held c": hold_in_c,
        "held python": hold_in_python,
    }[name]()
