"""A kind of application is a Host: one that a user has made is served as WSGI and ASGI are."""

import re
import sys
import types

import pytest

from syncless.apps.host import Host
from syncless.apps.wsgi.host import WSGIHost
from syncless.server.kinds import as_host
from syncless.server.program.hooks import Hooks
from syncless.server.program.preparing import Preparation
from syncless.wsgi import Server


class TextHost(Host):
    """Serves functions that make a text of a path."""

    def __init__(self, function, log=None, fails=False):
        self.function = function
        self.log = [] if log is None else log
        self.fails = fails

    def begin(self, server):
        if self.fails:
            raise ValueError("it cannot begin")
        self.log.append(("begin", server.limits.requests))

    def end(self, seconds):
        self.log.append(("end", seconds > 0))

    def at(self, place):
        def call(environ, start_response):
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [f"{place.prefix}|{self.function(environ['PATH_INFO'])}".encode()]

        return WSGIHost(call).at(place)

    def with_sessions(self, sessions):
        return self

    def with_hooks(self, before, after):
        def function(path):
            before({"path": path})
            try:
                return self.function(path)
            finally:
                after({"path": path}, "200 OK")

        return TextHost(function, self.log)


def test_host_of_another_kind_is_served(start):
    log = []
    with Server(TextHost(str.upper, log), port=0, requests=7) as server:
        assert start.client(server).get("/path")[2] == b"|/PATH" and log == [("begin", 7)]
    assert log == [("begin", 7), ("end", True)]


def test_applications_are_mounted_below_mounts(start):
    def text(name):
        def call(environ, start_response):
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [f"{name} {environ['SCRIPT_NAME']}|{environ['PATH_INFO']}".encode()]

        return call

    inner = {"/b": text("b"), "/": text("a")}
    with Server({"/a": inner, "/only": {"/c": text("c")}, "/": text("root")}, port=0) as server:
        said = {
            path: start.client(server).get(path) for path in ("/a/b/x", "/a/x", "/only/c", "/b", "/only/x")
        }
    assert {path: body for path, (status, _, body) in said.items() if status == 200} == {
        "/a/b/x": b"b /a/b|/x",
        "/a/x": b"a /a|/x",
        "/only/c": b"c /only/c|",
        "/b": b"root |/b",
    }
    assert said["/only/x"][0] == 404
    with pytest.raises(ValueError, match="two applications"):
        as_host({"/a": inner, "/a/b": text("b")})


@pytest.mark.usefixtures("background")
def test_hosts_are_mounted_beside_other_kinds(start):
    async def asgi(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": scope["root_path"].encode()})

    def wsgi(environ, start_response):
        start_response("200 OK", [])
        return [environ["SCRIPT_NAME"].encode()]

    client = start.client(start({"/text": TextHost(str.title), "/asgi": asgi, "/wsgi": wsgi}))
    assert client.get("/text/a")[2] == b"/text|/A"
    assert client.get("/asgi/a")[2] == b"/asgi" and client.get("/wsgi/a")[2] == b"/wsgi"
    assert client.get("/other")[0] == 404


def test_hosts_that_have_begun_end_if_another_one_cannot_begin():
    log = []
    server = Server({"/a": TextHost(str, log), "/b": TextHost(str, log, fails=True)}, port=0)
    with pytest.raises(ValueError, match="it cannot begin"):
        server.start()
    assert log == [("begin", server.limits.requests), ("end", False)]


def test_what_is_a_host_already_stays_one(monkeypatch):
    host = TextHost(str)
    assert as_host(host) is host
    module = types.ModuleType("of_text")
    module.app = host
    monkeypatch.setitem(sys.modules, "of_text", module)
    assert as_host("of_text:app") is host


def test_program_takes_a_host_and_calls_hooks_around_its_requests(start):
    told = []
    hooks = Hooks({"pre_request": told.append, "post_request": lambda variables, status: told.append(status)})
    preparation = Preparation(hooks)
    server = preparation.make_server("127.0.0.1", 0)
    preparation.take(server, TextHost(str.upper), "on_start")
    with server:
        assert start.client(server).get("/path")[2] == b"|/PATH"
    assert told == [{"path": "/path"}, "200 OK"]


def test_attributes_make_no_host():
    class Anything:
        """As the proxies of frameworks are: it has many attributes."""

        def __call__(self, environ, start_response):
            start_response("200 OK", [])
            return [b"called"]

        def __getattr__(self, name):
            if re.fullmatch("begin|end|at|with_hooks", name):
                return lambda *arguments: None
            raise AttributeError(name)

    application = Anything()
    host = as_host(application)
    assert type(host) is WSGIHost and host.call is application
