"""Libraries that work with either, eventlet or gevent, unchanged, under `syncless run`."""

import importlib.util
import signal

import pytest

from tests.contrib.commands import output_of
from tests.patches.servers import postgresql, redis

POOLS = {
    "eventlet": "import eventlet; eventlet.monkey_patch(); pool = eventlet.GreenPool(20).imap",
    "gevent": "import gevent.monkey, gevent.pool; gevent.monkey.patch_all(); pool = gevent.pool.Pool(20).map",
}
"""A library -> how a program that uses it begins."""


@pytest.fixture(params=POOLS)
def library(request):
    if request.param == "gevent" and importlib.util.find_spec("gevent") is None:
        pytest.skip("gevent is not installed: pip install gevent")
    return request.param


SOCKETS = """
{begin}
import flask, flask_socketio, socket, socketio, threading, time
app = flask.Flask(__name__)
sockets = flask_socketio.SocketIO(app, async_mode="{library}")

@sockets.on("ask")
def answer(number):
    sockets.sleep(0.01)
    return number * 2

with socket.create_server(("127.0.0.1", 0)) as found:
    port = found.getsockname()[1]
threading.Thread(target=sockets.run, args=(app, "127.0.0.1", port), daemon=True).start()
def asks(transport, number):
    client = socketio.Client()
    while not client.connected:
        try:
            client.connect(f"http://127.0.0.1:{{port}}", transports=[transport], wait_timeout=50)
        except socketio.exceptions.ConnectionError:
            time.sleep(0.01)
    try:
        return client.call("ask", number, timeout=50) == number * 2
    finally:
        client.disconnect()
for transport in ("polling", "websocket"):
    print(transport, sum(pool(lambda number: asks(transport, number), range(20))), flush=True)
"""


def test_flask_socketio_answers_in_the_mode_of_the_library(begin, library):
    for module in ("flask_socketio", "socketio", "websocket"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    server = begin(SOCKETS.format(begin=POOLS[library], library=library), "program.py")
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


def test_celery_runs_tasks_in_the_pool_of_the_library(begin, library):
    celery = pytest.importorskip("celery", reason="Celery is not installed: pip install 'celery[redis]'")
    with redis() as port:
        url = f"redis://127.0.0.1:{port}/0"
        options = ["-A", "tasks", "worker", "-P", library, "-c", "50", "-l", "INFO", "--without-mingle"]
        worker = begin(TASKS.format(url=url), "-m", "celery", *options, name="tasks.py")
        worker.says("ready")
        with celery.Celery("client", broker=url, backend=url, set_as_current=False) as app:
            results = [app.send_task("tasks.meet") for _ in range(50)]
            assert max(result.get(timeout=60) for result in results) > 1
        assert worker.end(signal.SIGTERM) == 0, worker.said()


QUERIES = """
{begin}
import psycogreen.{library}, psycopg2
psycogreen.{library}.patch_psycopg()
present = most = 0
def ask(number):
    global present, most
    with psycopg2.connect(host="127.0.0.1", port={port}, user="postgres") as connection:
        present += 1
        most = max(most, present)
        with connection.cursor() as cursor:
            cursor.execute("select %s * 2 from pg_sleep(0.1)", (number,))
            (answer,) = cursor.fetchone()
        present -= 1
    connection.close()
    return answer == number * 2
print(sum(pool(ask, range(20))), most > 1)
"""


def test_psycogreen_lets_others_run_while_a_query_runs(tmp_path, library):
    for module in ("psycogreen", "psycopg2"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    with postgresql() as port:
        code = QUERIES.format(begin=POOLS[library], library=library, port=port)
        assert output_of(tmp_path, code) == "20 True\n"
