"""The configurations of nginx and HAProxy in deploy/, in front of two workers: nothing is lost."""

import os
import signal
import socket as blocking
import subprocess

import pytest

import syncless
from syncless.cli.arguments import parse
from tests.deploy.recipes import changed, command_in_comment, without
from tests.preload import without_preload
from tests.programs import free_port
from tests.proxied import Proxied, missing, program, start_server
from tests.waiting import eventually

pytestmark = pytest.mark.slow

WRAPPED = """daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 512; }}
http {{ access_log off; keepalive_requests 1000000;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
{recipe}
}}
"""
"""It includes a file of conf.d as /etc/nginx/nginx.conf does."""


def nginx(folder, *options, front=None, **more):
    """`front`: a port on which the proxy listens, too."""
    also = f" listen 127.0.0.1:{front};" if front else ""

    def configuration(folder, port):
        changes = {
            "unix:/run/app/app.sock;": f"unix:{folder}/app.sock;",
            "listen 80;": f"listen unix:{folder}/front;{also}",
        }
        return WRAPPED.format(folder=folder, recipe=changed("nginx/app.conf", changes))

    rest = without(command_in_comment("nginx/app.conf"), "--bind", "--workers")
    return Proxied(
        "nginx", folder, *rest, *options, bind=f"unix:{folder}/app.sock", configuration=configuration, **more
    )


class Pair:
    """Where the two servers of HAProxy's recipe listen."""

    def __init__(self, front=None):
        self.also = f"    bind 127.0.0.1:{front}\n" if front else ""
        self.ports = [free_port(), free_port()]
        self.health = [free_port(), free_port()]

    def options(self, number):
        rest = without(
            command_in_comment("haproxy/haproxy.cfg"),
            "--bind",
            "--workers",
            "--trusted",
            "--health",
            "--limit",
        )
        health = f"127.0.0.1:{self.health[number]}"
        return [*rest, "--trusted", "127.0.0.1", "--health", health, "--limit", "stop_delay_seconds=1"]

    def configuration(self, folder, port):
        (one, two), (first, second) = self.ports, self.health
        return changed(
            "haproxy/haproxy.cfg",
            {
                "maxconn 10000": "maxconn 512",
                "bind :80\n": f"bind unix@{folder}/front\n{self.also}",
                "10.0.0.11:8000": f"127.0.0.1:{one} port {first}",
                "10.0.0.12:8000": f"127.0.0.1:{two} port {second}",
                "inter 1s": "inter 100ms",
            },
        )


def haproxy(folder, *options, pair=None, front=None, **more):
    pair = pair or Pair(front)  # of which the second server does not run
    bind = f"127.0.0.1:{pair.ports[0]}"
    return Proxied(
        "haproxy", folder, *pair.options(0), *options, bind=bind, configuration=pair.configuration, **more
    )


@pytest.fixture(params=[nginx, haproxy], ids=lambda make: make.__name__)
def proxied(request, tmp_path):
    if missing(request.param.__name__):
        pytest.skip(f"{request.param.__name__} is not installed")
    (tmp_path / "proxied").mkdir()
    return lambda *options, **more: request.param(tmp_path / "proxied", *options, **more)


@pytest.mark.parametrize("name", ["nginx/app.conf", "haproxy/haproxy.cfg"])
def test_command_of_the_recipe_is_understood(name):
    options = parse(command_in_comment(name))
    assert options.application == "myproject.web:app" and options.workers == 4 and options.trusted


def test_reload_and_worker_end_lose_no_request_that_did_not_run(proxied):
    with proxied() as running:
        running.until(lambda: running.counts["answered"] > 200)
        for _ in range(3):
            answered = running.counts["answered"]
            running.reload()
            running.until(lambda answered=answered: running.counts["answered"] > answered + 200)
        assert running.lost == []
        victim = min(running.workers())
        os.kill(victim, signal.SIGKILL)
        running.until(lambda: victim not in running.workers() and len(running.workers()) == 2)
        answered = running.counts["answered"]
        running.until(lambda: running.counts["answered"] > answered + 200)
        assert len(running.lost) <= running.wanted


def test_client_is_known_behind_the_proxy(proxied):
    """The proxy is believed: the log has the address of its client."""
    port = free_port()
    options = ("--access-log", "log", "--access-log-format", "%a %m %s")
    with proxied(*options, clients=0, front=port) as running:

        def visit():
            with blocking.create_connection(("127.0.0.1", port), source_address=("127.0.0.5", 0)) as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                return client.recv(100)

        assert syncless.run_in_thread(visit).startswith(b"HTTP/1.1 200 ")
        assert eventually(lambda: "127.0.0.5 GET 200" in (running.folder / "log").read_text().splitlines())


def test_server_is_drained_before_it_stops(tmp_path):
    """One of two servers is stopped and started again, twice, while clients POST without a pause."""
    if missing("haproxy"):
        pytest.skip("haproxy is not installed")
    pair = Pair()
    folder = tmp_path / "second"
    folder.mkdir()

    def start(errors):
        bind = f"127.0.0.1:{pair.ports[1]}"
        return start_server(folder, errors, "--bind", bind, "--workers", "1", *pair.options(1))[0]

    with open(folder / "errors", "w+") as errors:
        second = start(errors)
        try:
            (tmp_path / "first").mkdir()
            with haproxy(tmp_path / "first", pair=pair) as running:
                for round_ in range(2):
                    ours = running.workers()
                    running.pids.clear()
                    running.until(lambda ours=ours: running.pids - ours)  # the second answers
                    second.terminate()
                    assert syncless.run_in_thread(second.wait, 30) == 0
                    second.stdout.close()
                    if round_ == 0:
                        second = start(errors)
                assert running.lost == []
        finally:
            if second.returncode is None:
                second.kill()
                syncless.run_in_thread(second.wait)
                second.stdout.close()


def test_haproxy_finds_no_fault_in_its_recipe(tmp_path):
    if missing("haproxy"):
        pytest.skip("haproxy is not installed")
    path = tmp_path / "haproxy.cfg"
    path.write_text(Pair().configuration(tmp_path, 0))
    check = [program("haproxy"), "-c", "-f", path]
    told = subprocess.run(check, capture_output=True, text=True, env=without_preload())
    assert told.returncode == 0 and "WARNING" not in told.stderr.upper(), told.stderr
