"""Programs and libraries that were written for eventlet, unchanged, under `syncless run`."""

import importlib.util
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from tests.contrib.commands import Command
from tests.contrib.test_gevent_programs import TASKS
from tests.patches.servers import postgresql, redis

BEGIN = """
import eventlet; eventlet.monkey_patch()
assert eventlet.__name__ == "syncless.eventlet"
import socket, time
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]
"""

PROGRAMS = {
    "nameko": """
        import urllib.request
        from nameko.containers import ServiceContainer
        from nameko.web.handlers import http
        present = most = 0
        class Service:
            name = "doubles"
            @http("GET", "/double/<int:number>")
            def double(self, request, number):
                global present, most
                present += 1
                most = max(most, present)
                time.sleep(0.1)
                present -= 1
                return str(number * 2)
        address = f"127.0.0.1:{free_port()}"
        container = ServiceContainer(Service, config={"WEB_SERVER_ADDRESS": address})
        container.start()
        def ask(number):
            answer = urllib.request.urlopen(f"http://{address}/double/{number}").read()
            return int(answer) == number * 2
        answers = list(eventlet.GreenPool(40).imap(ask, range(40)))
        assert most > 1
        container.stop()
        print(sum(answers))
    """,
    "oslo_service": """
        from oslo_config import cfg
        from oslo_service import loopingcall, service
        ticks, looks = [], []
        class Ticks(service.Service):
            def start(self):
                super().start()
                self.tg.add_timer(0.01, lambda: ticks.append(time.sleep(0.001)))
                self.tg.add_thread(self.end)
            def end(self):
                while len(ticks) < 20:
                    eventlet.sleep(0.001)
                launcher.stop()
        launcher = service.launch(cfg.ConfigOpts(), Ticks(), restart_method="reload")
        launcher.wait()
        def look():
            looks.append(1)
            if len(looks) == 20:
                raise loopingcall.LoopingCallDone("done")
        assert loopingcall.FixedIntervalLoopingCall(look).start(0.001).wait() == "done"
        print(len(ticks[:20]) + len(looks))
    """,
    "os_ken": """
        from os_ken.lib import hub
        queue = hub.Queue(5)
        def produce():
            for number in range(40):
                queue.put(number)
                hub.sleep(0)
        def serve(sock, address):
            sock.sendall(sock.recv(10).upper())
            sock.close()
        server = hub.StreamServer(("127.0.0.1", 0), serve)
        threads = [hub.spawn(produce), hub.spawn(server.serve_forever)]
        got = [queue.get() for _ in range(40)]
        hub.joinall(threads[:1])
        client = hub.StreamClient(server.server.getsockname()[:2]).connect()
        client.sendall(b"said")
        assert client.recv(10) == b"SAID" and got == list(range(40))
        try:
            with hub.Timeout(0.01):
                hub.Event().wait()
        except hub.Timeout:
            print(len(got))
        hub.kill(threads[1])
    """,
}
"""The module of a library -> a program that prints 40."""


def where(library):
    """Return a folder for PYTHONPATH; skip the test if the library is nowhere."""
    folder = os.environ.get("SYNCLESS_TEST_PROGRAMS", "")
    if importlib.util.find_spec(library) is None and not os.path.isdir(os.path.join(folder, library)):
        pytest.skip(f"{library} is neither installed nor in the folder SYNCLESS_TEST_PROGRAMS")
    return folder


@pytest.mark.parametrize("library", PROGRAMS)
def test_library_for_eventlet_gives_all_answers(tmp_path, library):
    variables = {**os.environ, "PYTHONPATH": where(library), "OSKEN_HUB_TYPE": "eventlet"}
    (tmp_path / "program.py").write_text(BEGIN + textwrap.dedent(PROGRAMS[library]))
    command = [sys.executable, "-W", "ignore", "-m", "syncless", "run", str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=variables)
    assert done.returncode == 0 and done.stdout == "40\n", done.stdout + done.stderr


@pytest.fixture
def begin(tmp_path):
    """begin(code, *arguments) -> a Command: `syncless run` of a file or module in the folder of the test."""
    running = []

    def begin(code, *arguments, name="program.py"):
        (tmp_path / name).write_text(code)
        command = [sys.executable, "-W", "ignore", "-m", "syncless", "run", *arguments]
        running.append(Command(tmp_path, command))
        return running[-1]

    yield begin
    for each in running:
        each.end(signal.SIGKILL)


SOCKETS = """
import flask, flask_socketio, socketio, threading
app = flask.Flask(__name__)
sockets = flask_socketio.SocketIO(app, async_mode="eventlet")

@sockets.on("ask")
def answer(number):
    sockets.sleep(0.01)
    return number * 2

port = free_port()
threading.Thread(target=sockets.run, args=(app, "127.0.0.1", port), daemon=True).start()
def asks(transport, number):
    client = socketio.Client()
    while not client.connected:
        try:
            client.connect(f"http://127.0.0.1:{port}", transports=[transport], wait_timeout=50)
        except socketio.exceptions.ConnectionError:
            eventlet.sleep(0.01)
    try:
        return client.call("ask", number, timeout=50) == number * 2
    finally:
        client.disconnect()
for transport in ("polling", "websocket"):
    answers = eventlet.GreenPool(20).imap(asks, [transport] * 20, range(20))
    print(transport, sum(answers), flush=True)
"""


def test_flask_socketio_answers_in_its_mode_for_eventlet(begin):
    for module in ("flask_socketio", "socketio", "websocket"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    server = begin(BEGIN + SOCKETS, "program.py")
    server.says("polling 20\n")
    server.says("websocket 20\n")


def test_celery_runs_tasks_in_its_pool_for_eventlet(begin):
    celery = pytest.importorskip("celery", reason="Celery is not installed: pip install 'celery[redis]'")
    with redis() as port:
        url = f"redis://127.0.0.1:{port}/0"
        options = ["-A", "tasks", "worker", "-P", "eventlet", "-c", "50", "-l", "INFO", "--without-mingle"]
        worker = begin(TASKS.format(url=url), "-m", "celery", *options, name="tasks.py")
        worker.says("ready")
        with celery.Celery("client", broker=url, backend=url, set_as_current=False) as app:
            results = [app.send_task("tasks.meet") for _ in range(50)]
            assert max(result.get(timeout=60) for result in results) > 1
        assert worker.end(signal.SIGTERM) == 0, worker.said()


QUERIES = """
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
print(sum({pool}(ask, range(20))), most > 1)
"""
POOLS = {
    "eventlet": "import eventlet; eventlet.monkey_patch(); pool = eventlet.GreenPool(20).imap",
    "gevent": "import gevent.monkey, gevent.pool; gevent.monkey.patch_all(); pool = gevent.pool.Pool(20).map",
}


@pytest.mark.parametrize("library", POOLS)
def test_psycogreen_lets_others_run_while_a_query_runs(tmp_path, library):
    for module in ("psycogreen", "psycopg2", *(["gevent"] if library == "gevent" else [])):
        pytest.importorskip(module, reason=f"{module} is not installed")
    with postgresql() as port:
        code = POOLS[library] + QUERIES.format(library=library, port=port, pool="pool")
        (tmp_path / "program.py").write_text(code)
        command = [sys.executable, "-W", "ignore", "-m", "syncless", "run", str(tmp_path / "program.py")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.stdout == "20 True\n", done.stdout + done.stderr
