"""gunicorn with our worker: its master supervises and its settings keep their meaning."""

import http.client
import importlib.metadata
import itertools
import os
import signal
import socket
import ssl
import sys
import threading
import time

import pytest

from syncless.console import socket_path
from tests.authority import Authority
from tests.contrib.commands import Command
from tests.waiting import eventually

pytest.importorskip("gunicorn", reason="gunicorn is not installed: pip install gunicorn")

APP = """
import os, time
VERSION = 1
arrived = []
def app(environ, start_response):
    path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
    if path == "/wait":
        open("begun", "w").close()
        time.sleep(float(query))
    elif path == "/meet":
        arrived.append(path)
        while len(arrived) < int(query):
            time.sleep(0.01)
    elif path == "/hang":
        while True:
            pass
    elif path == "/error":
        print("printed by the application", flush=True)
        raise ValueError("the application's own")
    start_response("200 OK", [("X-Pid", str(os.getpid())), ("X-Path", environ["SCRIPT_NAME"] + " " + path)])
    forwarded = environ.get("HTTP_X_FORWARDED_FOR")
    body = f"{VERSION} {environ['wsgi.url_scheme']} {environ['REMOTE_ADDR']} {forwarded}"
    return [body.encode()] if path != "/stream" else iter([b"12345", b"678"])
"""


class Gunicorn(Command):
    def __init__(self, folder, *arguments, bind="127.0.0.1:0", variables=None):
        if not (folder / "app.py").exists():
            (folder / "app.py").write_text(APP)
        (folder / "gunicorn_command.py").write_text("from gunicorn.app.wsgiapp import run\nrun()\n")
        command = [sys.executable, "gunicorn_command.py", "-k", "syncless.contrib.gunicorn.Worker"]
        super().__init__(
            folder, [*command, "--no-control-socket", "-b", bind, *arguments, "app:app"], variables
        )

    @property
    def port(self):
        return int(self.says(r"Listening at: https?://127.0.0.1:(\d+)")[1])

    def booted(self, number=1):
        """Waits until this many workers have begun in all."""
        self.says("Booting worker with pid", number)
        return self

    def get(self, path="/", headers=None, connection=None):
        """(pid, body) by a connection of its own."""
        connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            body = response.read().decode()
            assert response.status == 200, body
            return int(response.headers["X-Pid"]), body
        finally:
            connection.close()


@pytest.fixture
def gunicorn(tmp_path):
    """gunicorn(*arguments) -> a running Gunicorn, which is ended at the end."""
    running = []

    def begin(*arguments, **options):
        running.append(Gunicorn(tmp_path, *arguments, **options))
        return running[-1]

    yield begin
    for each in running:
        each.end()


def in_flight(server, path):
    """A request that has begun; the list gets its answer."""
    answers = []

    def ask():
        try:
            answers.append(server.get(path))
        except (OSError, http.client.HTTPException, AssertionError) as error:
            answers.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert eventually((server.folder / "begun").exists)
    return thread, answers


def test_entry_point_names_the_worker():
    found = importlib.metadata.entry_points(group="gunicorn.workers", name="syncless")
    if not found:
        pytest.skip("syncless was installed before it had this entry point: pip install -e .")
    from syncless.contrib.gunicorn import Worker

    assert [point.load() for point in found] == [Worker]


def test_preloaded_application_is_imported_patched_in_the_master(gunicorn, tmp_path):
    early = "from syncless.patches import patch_all\nVERSION = patch_all() == [], os.getpid()\n"
    (tmp_path / "app.py").write_text(APP.replace("VERSION = 1\n", early))
    server = gunicorn("--preload", "-w", "2").booted(2)
    assert server.get()[1].startswith(f"(True, {server.process.pid}) ")
    assert server.end() == 0


def test_settings_become_limits():
    from gunicorn.config import Config

    from syncless.contrib.gunicorn import limits_of

    def limits(**settings):
        config = Config()
        for name, value in settings.items():
            config.set(name, value)
        return limits_of(config)

    usual = limits()
    assert (usual.connections, usual.idle_seconds, usual.stop_seconds) == (1000, 2, 30)
    assert (usual.request_line, usual.header_count, usual.head_bytes) == (4094, 100, 32768)
    assert limits(limit_request_line=0).request_line == 8190
    assert limits(limit_request_fields=1000).header_count == 128
    assert limits(limit_request_field_size=16380).head_bytes == 60000
    assert limits(worker_connections=7).connections == 7
    assert limits(graceful_timeout=0).stop_seconds == 0


@pytest.mark.parametrize("preload", [[], ["--preload"]])
def test_requests_that_wait_do_not_hold_one_another_up(gunicorn, preload):
    server = gunicorn(
        *preload,
        "--access-logfile",
        "-",
        "--access-logformat",
        '%(m)s %(U)s %(s)s %(B)s %({x-pid}o)s "%(r)s"',
    )
    server.booted()
    threads = [threading.Thread(target=server.get, args=("/meet?20",)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pid, _ = server.get("/stream?a=%20")
    server.says(rf'GET /stream 200 8 {pid} "GET /stream\?a=%20 HTTP/1.1"\n')
    assert server.said().count("GET /meet 200") == 20


def test_error_of_the_application_is_in_the_log_of_gunicorn(gunicorn, tmp_path):
    files = ("--error-logfile", tmp_path / "errors", "--access-logfile", tmp_path / "access")
    server = gunicorn("--capture-output", *files)
    said = tmp_path / "errors"
    assert eventually(lambda: said.exists() and "Booting worker" in said.read_text())
    port = int((tmp_path / "errors").read_text().partition("127.0.0.1:")[2].split()[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/error")
    assert connection.getresponse().status == 500
    assert eventually(lambda: "ValueError: the application's own" in (tmp_path / "errors").read_text())
    assert "printed by the application" in said.read_text()
    assert eventually(lambda: '"GET /error HTTP/1.1" 500' in (tmp_path / "access").read_text())
    for name in ("errors", "access"):
        (tmp_path / name).rename(tmp_path / f"{name}.1")
    server.process.send_signal(signal.SIGUSR1)

    def answer_is_in_the_new_file():
        connection.request("GET", "/")
        assert connection.getresponse().read()
        return (tmp_path / "access").exists() and "GET / " in (tmp_path / "access").read_text()

    assert eventually(answer_is_in_the_new_file)
    connection.close()


def test_term_lets_requests_in_flight_end(gunicorn):
    server = gunicorn(variables={"SYNCLESS_CONSOLE": "1"}).booted()
    assert os.path.exists(socket_path(server.get()[0]))
    thread, answers = in_flight(server, "/wait?1")
    assert server.end() == 0
    thread.join()
    assert answers[0][1].startswith("1 http")


def test_graceful_timeout_interrupts_requests(gunicorn):
    server = gunicorn("--graceful-timeout", "1", "--workers", "2").booted(2)
    thread, answers = in_flight(server, "/wait?3600")
    assert server.end() == 0
    thread.join()
    assert not isinstance(answers[0], tuple)  # 503, or a reset


def test_int_stops_at_once(gunicorn):
    server = gunicorn("--graceful-timeout", "3600").booted()
    thread, _ = in_flight(server, "/wait?3600")
    assert server.end(signal.SIGINT) == 0
    thread.join()


def test_hup_reloads_the_application_under_load(gunicorn, tmp_path):
    server = gunicorn("--workers", "2").booted(2)
    answers, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            answers.append(server.get()[1][0])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: len(answers) > 50)
    (tmp_path / "app.py").write_text(APP.replace("VERSION = 1", "VERSION = 22"))
    server.process.send_signal(signal.SIGHUP)
    server.says("Worker exiting", 2)
    seen = len(answers)
    assert all(server.get()[1][0] == "2" for _ in range(10))
    assert eventually(lambda: len(answers) > seen + 50)
    stop.set()
    for thread in threads:
        thread.join()
    assert set(answers) == {"1", "2"}  # an old one may be noted late, by a thread that had to wait


def test_usr2_starts_a_second_master_on_the_same_sockets(gunicorn, tmp_path):
    server = gunicorn("--pid", tmp_path / "pid").booted()
    old, _ = server.get()
    server.process.send_signal(signal.SIGUSR2)
    server.booted(2)
    new_master = tmp_path / "pid.2"
    assert eventually(lambda: new_master.exists() and new_master.read_text())
    second = int(new_master.read_text())
    assert eventually(lambda: server.get()[0] != old)
    assert server.process.poll() is None
    port = server.port
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(60)
    try:
        for _ in range(5):
            assert server.get()[0] != old
    finally:
        os.kill(second, signal.SIGTERM)

    def refused():
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return True
        return False

    assert eventually(refused)


def test_worker_ends_after_exactly_max_requests(gunicorn):
    server = gunicorn("--max-requests", "5").booted()
    pids = [server.get()[0] for _ in range(5)]
    assert len(set(pids)) == 1
    assert server.said().count("Autorestarting worker") == 1
    server.says("Worker exiting")
    assert server.get()[0] != pids[0]


def test_worker_whose_loop_stands_still_is_killed_and_tells_where(gunicorn):
    server = gunicorn("--timeout", "1").booted()
    first, _ = server.get("/wait?1.5")  # a request may take longer: the loop goes on
    with pytest.raises((OSError, http.client.HTTPException)):
        server.get("/hang")
    server.says(rf"WORKER TIMEOUT \(pid:{first}\)")
    server.says(r"is blocked here:\n(?s:.*)app.py.*in app\n")
    assert server.get()[0] != first


def test_certificate_and_clients_of_an_authority(gunicorn, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.files("localhost")
    authority.ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    server = gunicorn(
        "--certfile", certificate, "--keyfile", key, "--ca-certs", tmp_path / "ca.pem", "--cert-reqs", "2"
    ).booted()

    def get(context):
        sock = context.wrap_socket(
            socket.create_connection(("127.0.0.1", server.port), 20), server_hostname="localhost"
        )
        connection = http.client.HTTPSConnection("127.0.0.1", server.port)
        connection.sock = sock
        return server.get(connection=connection)[1]

    assert get(authority.client_context("client")).startswith("1 https")
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
        get(authority.client_context())


def test_unix_socket(gunicorn, tmp_path):
    server = gunicorn(bind=f"unix:{tmp_path}/sock").booted()
    connection = http.client.HTTPConnection("localhost", timeout=60)

    def get(**headers):
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(f"{tmp_path}/sock")
        return server.get(connection=connection, headers=headers)[1]

    server.says("Listening at: unix:")
    assert eventually((tmp_path / "sock").exists)
    assert get() == "1 http  None"
    assert get(**{"X-Forwarded-Proto": "https"}).startswith("1 https")


def test_hooks_are_called(gunicorn, tmp_path):
    (tmp_path / "gunicorn.conf.py").write_text(
        "def post_fork(server, worker): print('post_fork')\n"
        "def post_worker_init(worker): print('post_worker_init')\n"
        "def pre_request(worker, req):\n"
        "    print('pre_request', req.method, req.path, dict(req.headers)['X-ONE'])\n"
        "def post_request(worker, req, environ, resp):\n"
        "    print('post_request', resp.status, environ['RAW_URI'])\n"
        "def worker_int(worker): print('worker_int')\n"
        "def worker_exit(server, worker): print('worker_exit', worker.nr)\n"
    )
    server = gunicorn().booted()
    server.get("/a%20b?c", {"X-One": "1"})
    server.end(signal.SIGINT)
    said = server.said()
    assert [line for line in said.splitlines() if line.startswith(("p", "worker_"))] == [
        "post_fork",
        "post_worker_init",
        "pre_request GET /a%20b 1",
        "post_request 200 OK /a%20b?c",
        "worker_int",
        "worker_exit 1",
    ]


def test_setting_without_effect_is_told_once_and_a_limit_counts(gunicorn):
    limits = ("--limit-request-fields", "1000", "--limit-request-line", "100")
    server = gunicorn("--workers", "2", "--threads", "4", *limits).booted(2)
    with socket.create_connection(("127.0.0.1", server.port), 20) as sock:
        sock.sendall(b"GET /" + b"a" * 100 + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        assert sock.recv(4000).startswith(b"HTTP/1.1 414 ")
    assert server.said().count("ignores the setting") == 1
    assert "ignores the setting threads: leave it out: each request is a tasklet" in server.said()
    assert "syncless accepts at most 128 header fields" in server.said()


def test_scheme_is_believed_of_forwarded_allow_ips_only(gunicorn):
    secure = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"}
    server = gunicorn().booted()  # the default is 127.0.0.1
    assert server.get(headers=secure)[1] == "1 https 127.0.0.1 192.0.2.1"
    assert server.get(headers={**secure, "X-Forwarded-Ssl": "off"})[1] == "1 http 127.0.0.1 192.0.2.1"
    server.end()
    server = gunicorn("--forwarded-allow-ips", "10.0.0.1").booted(2)
    port = int(server.said().split("127.0.0.1:")[2].split()[0])
    connection = http.client.HTTPConnection("127.0.0.1", port)
    assert server.get(headers=secure, connection=connection)[1] == "1 http 127.0.0.1 192.0.2.1"


def test_proxy_protocol_and_script_name(gunicorn):
    server = gunicorn("--proxy-protocol", "auto", variables={"SCRIPT_NAME": "/below"}).booted()
    with socket.create_connection(("127.0.0.1", server.port), 20) as sock:
        sock.sendall(b"PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\nGET /below/a HTTP/1.0\r\n\r\n")
        answer = b""
        while data := sock.recv(1000):
            answer += data
    assert b"1 http 192.0.2.7 None" in answer and b"X-Path: /below /a\r\n" in answer


@pytest.mark.parametrize(("seconds", "kept"), [("0", False), ("5", True)])
def test_connection_is_kept_as_keep_alive_says(gunicorn, seconds, kept):
    server = gunicorn("--keep-alive", seconds).booted()
    with socket.create_connection(("127.0.0.1", server.port), 20) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (b"Connection: close" not in sock.recv(4000)) == kept


def test_application_of_another_kind_stops_gunicorn(gunicorn, tmp_path):
    (tmp_path / "app.py").write_text("async def app(scope, receive, send): pass\n")
    server = gunicorn()
    assert server.process.wait(60) == 3
    assert "is an ASGI application" in server.said()


def test_reload_notices_a_changed_file(gunicorn, tmp_path):
    server = gunicorn("--reload", "--reload-engine", "poll").booted()
    assert server.get()[1][0] == "1"
    (tmp_path / "app.py").write_text(APP.replace("VERSION = 1", "VERSION = 2"))
    later = itertools.count(time.time())

    def noticed():  # not before the reloader has looked once
        os.utime(tmp_path / "app.py", (next(later),) * 2)
        return "Worker reloading" in server.said()

    assert eventually(noticed)
    assert eventually(lambda: server.get()[1][0] == "2")
