"""Programs and libraries that were written for gevent, unchanged, under `syncless run`."""

import concurrent.futures
import importlib.util
import os
import signal
import subprocess
import textwrap
import urllib.request

import pytest

from tests.contrib.commands import RUN, output_of, where

pytest.importorskip("gevent", reason="the programs use it: pip install gevent")

SERVER = """
from gevent import monkey; monkey.patch_all()
import gevent, time
from gevent.pywsgi import WSGIServer

def app(environ, start_response):
    time.sleep(0.001)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"hello"]

def serve(app, **options):
    server = WSGIServer(("127.0.0.1", 0), app, log=None, **options)
    server.start()
    return server
"""

PROGRAMS = {
    "grequests": """
        import grequests
        url = f"http://127.0.0.1:{serve(app).server_port}/"
        answers = grequests.map([grequests.get(url) for _ in range(40)], size=10)
        print(sum(answer.text == "hello" for answer in answers))
    """,
    "geventhttpclient": """
        import geventhttpclient, gevent.pool
        client = geventhttpclient.HTTPClient("127.0.0.1", serve(app).server_port, concurrency=10)
        answers = gevent.pool.Pool(10).map(lambda _: bytes(client.get("/").read()), range(40))
        print(answers.count(b"hello"))
    """,
    "geventwebsocket": """
        import websocket
        from geventwebsocket.handler import WebSocketHandler
        def answers(environ, start_response):
            while (message := environ["wsgi.websocket"].receive()) is not None:
                environ["wsgi.websocket"].send(message.upper())
            return []
        port = serve(answers, handler_class=WebSocketHandler).server_port
        def asks(number):
            client = websocket.create_connection(f"ws://127.0.0.1:{port}/")
            client.send(f"hello {number}")
            answer = client.recv()
            client.close()
            return answer == f"HELLO {number}"
        clients = [gevent.spawn(asks, number) for number in range(40)]
        gevent.joinall(clients)
        print(sum(one.value for one in clients))
    """,
    "zerorpc": """
        import tempfile, zerorpc
        most = 0
        class Service:
            present = 0
            def double(self, number):
                global most
                self.present += 1
                most = max(most, self.present)
                gevent.sleep(0.1)
                self.present -= 1
                return number * 2
        address = f"ipc://{tempfile.mkdtemp()}/socket"
        server, client = zerorpc.Server(Service()), zerorpc.Client(timeout=50)
        server.bind(address)
        gevent.spawn(server.run)
        client.connect(address)
        calls = [gevent.spawn(client.double, number) for number in range(40)]
        gevent.joinall(calls)
        assert most > 1
        print(sum(call.value == 2 * number for number, call in enumerate(calls)))
    """,
}
"""The module of a library -> a program that prints 40."""


@pytest.mark.parametrize("library", PROGRAMS)
def test_library_for_gevent_gives_all_answers(tmp_path, library):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    assert output_of(tmp_path, SERVER + textwrap.dedent(PROGRAMS[library])) == "40\n"


ASKING = """
import gevent, locust
class User(locust.HttpUser):
    wait_time = locust.constant(0.01)
    @locust.task
    def ask(self):
        self.client.get("/")
def ends(environment):
    while environment.runner.stats.total.num_requests < 100:
        gevent.sleep(0.01)
    environment.runner.quit()
@locust.events.init.add_listener
def begin(environment, **_):
    gevent.spawn(ends, environment)
"""


def test_locust_asks(begin, tmp_path):
    folder = where("locust")
    served = "print('port', serve(app).server_port, flush=True)\ngevent.sleep(1000)\n"
    port = begin(SERVER + served, "program.py").says(r"port (\d+)").group(1)
    (tmp_path / "asking.py").write_text(ASKING)
    options = ["--headless", "-u", "20", "-r", "20", "-t", "60s", "-H", f"http://127.0.0.1:{port}"]
    done = subprocess.run(
        [*RUN, "-m", "locust", "-f", tmp_path / "asking.py", *options],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": folder},
    )
    total = [line.split() for line in done.stderr.splitlines() if line.strip().startswith("Aggregated")]
    assert done.returncode == 0 and total, done.stdout + done.stderr
    assert int(total[-2][1]) >= 100 and total[-2][2] == "0(0.00%)", done.stderr


APP = """
import gevent, time
present = most = 0
def app(environ, start_response):
    global present, most
    present += 1
    most = max(most, present)
    time.sleep(0.1)
    present -= 1
    start_response("200 OK", [])
    return [f"{gevent.get_hub().__class__.__module__} {most}".encode()]
"""


def test_gunicorn_serves_with_its_worker_for_gevent(begin):
    pytest.importorskip("gunicorn", reason="gunicorn is not installed")
    options = ["-k", "gevent", "-w", "1", "-b", "127.0.0.1:0", "--no-control-socket", "app:app"]
    server = begin(APP, "-m", "gunicorn", *options, name="app.py")
    url = server.says(r"Listening at: (http://\S+)").group(1)

    def ask(number):
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.read().decode().split()

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(ask, range(20)))
    assert {hub for hub, _ in answers} == {"syncless.contrib.gevent.hub"}
    assert max(int(most) for _, most in answers) > 1
    assert server.end(signal.SIGTERM) == 0, server.said()
