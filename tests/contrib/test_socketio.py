"""Flask-SocketIO and flask-sock on our server, with their own clients, and Redis between two workers."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.authority import Authority
from tests.browser import BROWSER, browse
from tests.contrib.commands import Command
from tests.patches.servers import redis

for module, package in (
    ("flask_socketio", "Flask-SocketIO"),
    ("flask_sock", "flask-sock"),
    ("simple_websocket", "simple-websocket"),
    ("websocket", "websocket-client"),
):
    pytest.importorskip(module, reason=f"{package} is not installed: pip install {package}")

SERVER = '''
import os
from flask import Flask, request
from flask_sock import Sock
from flask_socketio import SocketIO, emit

app = Flask(__name__)
app.config["SOCK_SERVER_OPTIONS"] = {"ping_interval": 0.5}
sock = Sock(app)
if os.environ.get("QUEUE") == "shared":
    from syncless.contrib.socketio import SharedManager
    socketio = SocketIO(app, client_manager=SharedManager())
else:
    socketio = SocketIO(app, message_queue=os.environ.get("QUEUE") or None)
PAGE = """<script>
// Engine.IO and Socket.IO in their own frames, as their library writes them
const log = [];
const socket = new WebSocket(`ws://${location.host}/socket.io/?EIO=4&transport=websocket`);
socket.onmessage = event => {
  log.push(event.data.slice(0, 2));
  if (event.data[0] === "0") socket.send("40");
  else if (event.data.startsWith("40")) socket.send('42["say","from a browser"]');
  else if (event.data.startsWith("42")) { log.push(event.data); socket.close(); }
};
socket.onerror = () => log.push("error");
socket.onclose = () => fetch("/report", {method: "POST", body: log.join(" ")});
</script>"""
print("mode", socketio.async_mode, flush=True)

@app.route("/")
def page():
    return PAGE

@app.post("/report")
def report():
    print("browser:", request.get_data(as_text=True), flush=True)
    return ""

@sock.route("/echo")
def echo(ws):
    while True:
        ws.send(ws.receive())

@socketio.on("where")
def where():
    return os.getpid()

@socketio.on("say")
def say(text):
    emit("said", text, broadcast=True)

@socketio.on("later")
def later():
    def work():
        socketio.sleep(0.05)
        socketio.emit("said", "from the background")
    socketio.start_background_task(work)
'''

CLIENTS = """
import json, queue, sys
import socketio
url, transport, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
clients, heard, pids = [], [], set()
while len(pids) < number:
    client = socketio.Client()
    client.said = queue.Queue()
    client.on("said", client.said.put)
    client.connect(url, transports=transport.split(","), wait_timeout=60)
    clients.append(client)
    pids.add(client.call("where", timeout=60))
    assert len(clients) < 100, pids
for client in clients:
    for _ in range(20):  # a worker that has just subscribed to Redis may have missed one
        clients[0].emit("say", "hello")
        try:
            heard.append(client.said.get(timeout=1))
            break
        except queue.Empty:
            pass
clients[-1].emit("later")
for client in clients:
    while heard[-1] != "from the background":
        heard.append(client.said.get(timeout=60))
    heard.append("")
print(json.dumps({"workers": len(pids), "heard": sorted(set(heard)), "by": clients[0].transport()}))
for client in clients:
    client.disconnect()
"""


@pytest.fixture
def server(tmp_path):
    """server(*arguments, queue="") -> a running server of the application."""
    running = []

    def begin(*arguments, queue="", command=None):
        (tmp_path / "app.py").write_text(SERVER)
        command = command or [
            sys.executable,
            "-m",
            "syncless",
            "app:app",
            "--bind",
            "127.0.0.1:0",
            *arguments,
        ]
        running.append(Command(tmp_path, command, {"QUEUE": queue}))
        return running[-1]

    yield begin
    for each in running:
        port_of(each)  # it serves, so it hears signals
        assert each.end() == 0
        assert "ERROR" not in each.said(), each.said()


def port_of(server):
    return int(server.says(r"(?:serves on|Listening at:) https?://127.0.0.1:(\d+)\b")[1])


def run_clients(server, transport, number=1):
    url = f"http://127.0.0.1:{port_of(server)}"
    command = [sys.executable, "-W", "ignore", "-c", CLIENTS, url, transport, str(number)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr + server.said()
    return json.loads(done.stdout)


def test_mode_is_threading_though_others_are_installed(server):
    assert server().says(r"mode (\w+)")[1] == "threading"


@pytest.mark.parametrize(
    ("transport", "by"),
    [
        ("polling,websocket", "websocket"),
        pytest.param("websocket", "websocket", marks=pytest.mark.slow),
        pytest.param("polling", "polling", marks=pytest.mark.slow),
    ],
)
def test_client_of_socketio(server, transport, by):
    found = run_clients(server(), transport)
    assert found == {"workers": 1, "heard": ["", "from the background", "hello"], "by": by}


@pytest.mark.slow
def test_browser(server):
    if BROWSER is None:
        pytest.skip("there is no Chromium on this machine")
    command = server()
    browser, folder = browse(f"http://127.0.0.1:{port_of(command)}/")
    try:
        assert command.says(r"browser: (.*)\n")[1] == '0{ 40 42 42["said","from a browser"]'
    finally:
        browser.terminate()
        browser.wait()
        shutil.rmtree(folder, ignore_errors=True)


def test_client_of_socketio_below_gunicorn(server, tmp_path):
    pytest.importorskip("gunicorn", reason="gunicorn is not installed: pip install gunicorn")
    (tmp_path / "main.py").write_text("from gunicorn.app.wsgiapp import run\nrun()\n")
    options = ["-k", "syncless.contrib.gunicorn.Worker", "--no-control-socket", "-b", "127.0.0.1:0"]
    found = run_clients(server(command=[sys.executable, "main.py", *options, "app:app"]), "websocket")
    assert found == {"workers": 1, "heard": ["", "from the background", "hello"], "by": "websocket"}


@pytest.fixture
def queue():
    with redis() as port:
        yield f"redis://127.0.0.1:{port}/0"


def test_redis_carries_messages_between_two_workers(queue, server):
    """The server ends before Redis does."""
    found = run_clients(server("--workers", "2", queue=queue), "websocket", 2)
    assert found == {"workers": 2, "heard": ["", "from the background", "hello"], "by": "websocket"}


@pytest.mark.parametrize("on_redis", [False, True], ids=["memory", "redis"])
def test_shared_manager_carries_messages_between_two_workers(request, server, on_redis):
    options = ["--shared", request.getfixturevalue("queue")] if on_redis else []
    found = run_clients(server("--workers", "2", *options, queue="shared"), "websocket", 2)
    assert found == {"workers": 2, "heard": ["", "from the background", "hello"], "by": "websocket"}


@pytest.mark.parametrize("secure", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_client_of_flask_sock(server, tmp_path, secure):
    import websocket

    arguments, options = [], {}
    if secure:
        authority = Authority(tmp_path)
        certificate, key = authority.files("127.0.0.1", "localhost")
        authority.ca.cert_pem.write_to_path(tmp_path / "ca.pem")
        arguments = ["--certfile", certificate, "--keyfile", key]
        options = {"sslopt": {"ca_certs": str(tmp_path / "ca.pem")}}
    url = f"ws{'s' if secure else ''}://127.0.0.1:{port_of(server(*arguments))}/echo"
    client = websocket.create_connection(url, timeout=60, **options)
    for message in ("hello", "x" * 100_000, "é"):
        client.send(message)
        assert client.recv() == message
    opcode, frame = client.recv_data_frame(True)  # its own pings; one that is answered late ends it
    assert opcode == websocket.ABNF.OPCODE_PING or b"Ping/Pong timeout" in frame.data
    client.close()
