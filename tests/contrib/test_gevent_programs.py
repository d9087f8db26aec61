"""Programs and libraries that were written for gevent, unchanged, under `syncless run`."""

import concurrent.futures
import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import urllib.request

import pytest

from tests.contrib.commands import Command
from tests.patches.servers import redis

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
    path = tmp_path / "program.py"
    path.write_text(SERVER + textwrap.dedent(PROGRAMS[library]))
    command = [sys.executable, "-W", "ignore", "-m", "syncless", "run", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and done.stdout == "40\n", done.stdout + done.stderr


@pytest.fixture
def begin(tmp_path):
    """begin(name, code, *arguments) -> a Command: `syncless run` of that file or module in its folder."""
    running = []

    def begin(code, *arguments, name="program.py"):
        (tmp_path / name).write_text(code)
        command = [sys.executable, "-W", "ignore", "-m", "syncless", "run", *arguments]
        running.append(Command(tmp_path, command))
        return running[-1]

    yield begin
    for each in running:
        each.end(signal.SIGKILL)


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
    folder = os.environ.get("SYNCLESS_TEST_LOCUST")
    if folder is None:
        pytest.skip("SYNCLESS_TEST_LOCUST is no folder with locust: pip install --target folder locust")
    served = "print('port', serve(app).server_port, flush=True)\ngevent.sleep(1000)\n"
    port = begin(SERVER + served, "program.py").says(r"port (\d+)").group(1)
    (tmp_path / "asking.py").write_text(ASKING)
    options = ["--headless", "-u", "20", "-r", "20", "-t", "60s", "-H", f"http://127.0.0.1:{port}"]
    command = [sys.executable, "-W", "ignore", "-m", "syncless", "run", "-m", "locust", "-f", "asking.py"]
    variables = {**os.environ, "PYTHONPATH": folder}
    done = subprocess.run(
        [*command, *options], cwd=tmp_path, capture_output=True, text=True, timeout=100, env=variables
    )
    total = [line.split() for line in done.stderr.splitlines() if line.strip().startswith("Aggregated")]
    assert done.returncode == 0 and total, done.stdout + done.stderr
    assert int(total[-2][1]) >= 100 and total[-2][2] == "0(0.00%)", done.stderr


SOCKETS = """
from gevent import monkey; monkey.patch_all()
import flask, flask_socketio, gevent, socket, socketio, threading
app = flask.Flask(__name__)
sockets = flask_socketio.SocketIO(app, async_mode="gevent")

@sockets.on("ask")
def answer(number):
    sockets.sleep(0.01)
    return number * 2

with socket.create_server(("127.0.0.1", 0)) as found:
    port = found.getsockname()[1]
threading.Thread(target=sockets.run, args=(app, "127.0.0.1", port), daemon=True).start()
def asks(number, transport):
    client = socketio.Client()
    while not client.connected:
        try:
            client.connect(f"http://127.0.0.1:{port}", transports=[transport], wait_timeout=50)
        except socketio.exceptions.ConnectionError:
            gevent.sleep(0.01)
    try:
        return client.call("ask", number, timeout=50) == number * 2
    finally:
        client.disconnect()
for transport in ("polling", "websocket"):
    clients = [gevent.spawn(asks, number, transport) for number in range(20)]
    gevent.joinall(clients)
    print(transport, sum(bool(one.value) for one in clients), flush=True)
"""


def test_flask_socketio_answers_in_its_mode_for_gevent(begin):
    for module in ("flask_socketio", "socketio", "websocket"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    server = begin(SOCKETS, "program.py")
    server.says("polling 20\n")
    server.says("websocket 20\n")


TASKS = """
import celery, time
app = celery.Celery("tasks", broker="{url}", backend="{url}")
present = most = 0

@app.task
def meet():
    global present, most
    present += 1
    most = max(most, present)
    time.sleep(0.2)
    present -= 1
    return most
"""


def test_celery_runs_tasks_in_its_pool_for_gevent(begin):
    celery = pytest.importorskip("celery", reason="Celery is not installed: pip install 'celery[redis]'")
    with redis() as port:
        url = f"redis://127.0.0.1:{port}/0"
        options = ["-A", "tasks", "worker", "-P", "gevent", "-c", "50", "-l", "INFO", "--without-mingle"]
        worker = begin(TASKS.format(url=url), "-m", "celery", *options, name="tasks.py")
        worker.says("ready")
        with celery.Celery("client", broker=url, backend=url, set_as_current=False) as app:
            results = [app.send_task("tasks.meet") for _ in range(50)]
            assert max(result.get(timeout=60) for result in results) > 1
        assert worker.end(signal.SIGTERM) == 0, worker.said()


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
