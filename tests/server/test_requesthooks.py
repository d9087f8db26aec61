"""Hooks around a request change nothing of its response."""

import io

from syncless.apps.wsgi.middleware import HooksMiddleware
from syncless.server.program.hooks import Hooks


def test_hook_after_a_request_is_called_when_its_response_has_been_given(start):
    order = []

    def streaming(environ, start_response):
        start_response("200 OK", [])
        try:
            yield b"one"
            yield b"two"
        finally:
            order.append("closed")

    client = start.client(
        start(HooksMiddleware(streaming, None, lambda environ, status: order.append(status)))
    )
    assert client.get()[2] == b"onetwo" and order == ["closed", "200 OK"]


def test_files_are_sent_as_without_hooks(start, tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    order = []

    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", "100000")])
        return environ["wsgi.file_wrapper"](open(tmp_path / "file", "rb"))

    client = start.client(start(HooksMiddleware(app, None, lambda environ, status: order.append(status))))
    assert client.get()[2] == b"x" * 100_000 and order == ["200 OK"]


def test_lists_keep_their_length_and_errors_their_status(start):
    calls = []

    def app(environ, start_response):
        start_response("200 OK", [])
        if environ["PATH_INFO"] == "/boom":
            raise ValueError
        return [b"one", b"two"]

    hooked = HooksMiddleware(
        app, lambda environ: calls.append("before"), lambda environ, status: calls.append(status)
    )
    client = start.client(start(hooked, error_log=io.StringIO()))
    status, headers, body = client.get()
    assert (status, headers["content-length"], body) == (200, "6", b"onetwo")
    assert client.get("/boom")[0] == 500 and calls == ["before", "200 OK"] * 2


def test_nothing_is_around_an_application_without_request_hooks():
    hooks = Hooks({"on_start": print})
    assert hooks.for_request("pre_request") is None and hooks.for_request("post_request") is None
