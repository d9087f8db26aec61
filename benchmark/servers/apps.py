"""The applications that every Python server gets, as WSGI callables: hello, sleep, flask, django."""

import time

BODY = b"Hello, World!"


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "13")])
    return [BODY]


def sleeping(sleep):
    """Hello after 10 ms of the server's own way to sleep."""

    def app(environ, start_response):
        sleep(0.01)
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "13")])
        return [BODY]

    return app


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

    settings.configure(ROOT_URLCONF="benchmark_urls", ALLOWED_HOSTS=["*"], SECRET_KEY="benchmark", DEBUG=False, MIDDLEWARE=[])
    django.setup()
    urls = type(sys)("benchmark_urls")
    urls.urlpatterns = [path("", lambda request: HttpResponse(BODY, content_type="text/plain", headers={"Content-Length": "13"}))]
    sys.modules["benchmark_urls"] = urls
    return get_wsgi_application()


def named(name, sleep=time.sleep):
    """The application of that name."""
    return {"hello": lambda: hello, "sleep": lambda: sleeping(sleep), "flask": flask, "django": django}[name]()
