"""Makes the picture of a trace anew: ``python -m scripts.docs.tracepicture``. Needs Jaeger 2, PostgreSQL,
psycopg, Flask and Chromium.

$JAEGER is the program unless ``jaeger`` is on the PATH, $JAEGER_UI the folder of its user interface unless
that is built in. Two services run with ``--otel``: a shop, which asks its database, waits for a lock and
calls the other one, for prices. Jaeger shows one request to the shop in docs/pictures/trace.png.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator

from scripts.docs.screenshots import free_port, photograph
from tests.patches.servers import postgresql, running

JAEGER = """
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {{receivers: [otlp], exporters: [jaeger_storage_exporter]}}
  telemetry:
    metrics: {{level: none}}
extensions:
  jaeger_query:
    storage: {{traces: memory}}
    ui: {{assets_path: "{ui}"}}
    http: {{endpoint: "127.0.0.1:{page}"}}
    grpc: {{endpoint: "127.0.0.1:{grpc}"}}
  jaeger_storage:
    backends: {{memory: {{memory: {{max_traces: 100}}}}}}
receivers:
  otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{otlp}"}}}}}}
exporters:
  jaeger_storage_exporter: {{trace_storage: memory}}
"""
TABLES = """
CREATE VIEW orders AS SELECT 42 AS id, 'Alice' AS customer, 7 AS item FROM pg_sleep(0.03);
CREATE VIEW stock AS SELECT 7 AS item, 3 AS number FROM pg_sleep(0.04);
"""
SHOP = """import os, queue, threading, urllib.request
import psycopg
from flask import Flask, request

app = Flask(__name__)
stock_lock = threading.Lock()
connections = queue.Queue()
for _ in range(2):
    connections.put(psycopg.connect(os.environ["DATABASE"], autocommit=True))

@app.before_request
def name_route():
    request.environ["http.route"] = request.url_rule.rule

def query(statement, value):
    connection = connections.get()
    try:
        return connection.execute(statement, (value,)).fetchone()
    finally:
        connections.put(connection)

def reserve(item):
    with stock_lock:
        return query("SELECT number FROM stock WHERE item = %s", item)

@app.get("/stock/<int:item>")
def count(item):
    return str(reserve(item))

@app.get("/orders/<int:number>")
def order(number):
    customer, item = query("SELECT customer, item FROM orders WHERE id = %s", number)
    reserve(item)
    return urllib.request.urlopen(os.environ["PRICES"] + f"/prices/{item}").read()
"""
PRICES = """import time
from flask import Flask, request

app = Flask(__name__)

@app.before_request
def name_route():
    request.environ["http.route"] = request.url_rule.rule

@app.get("/prices/<int:item>")
def price(item):
    time.sleep(0.025)
    return "9.90"
"""


@contextlib.contextmanager
def jaeger(folder: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Give its address for OTLP, and that of its pages."""
    program = os.environ.get("JAEGER") or shutil.which("jaeger") or sys.exit("there is no jaeger")
    otlp, page, grpc = free_port(), free_port(), free_port()
    config = folder / "jaeger.yaml"
    config.write_text(JAEGER.format(ui=os.environ.get("JAEGER_UI", ""), otlp=otlp, page=page, grpc=grpc))
    with running([program, "--config", str(config)], page):
        yield f"http://127.0.0.1:{otlp}", f"http://127.0.0.1:{page}"


@contextlib.contextmanager
def service(folder: pathlib.Path, name: str, text: str, otlp: str, **variables: str) -> Iterator[str]:
    """Give its address."""
    (folder / f"{name}.py").write_text(text)
    port = free_port()
    command = [sys.executable, "-m", "syncless", f"{name}:app", "--bind", f"127.0.0.1:{port}", "--otel", otlp]
    environ = os.environ | variables | {"OTEL_SERVICE_NAME": name}
    environ |= {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}  # Jaeger takes spans alone
    server = subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None and "serves" in server.stdout.readline()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def ask(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as response:
        return bytes(response.read())


def order(shop: str) -> None:
    """Order once to warm up, and once while another request holds the lock."""
    ask(f"{shop}/orders/42")
    counting = threading.Thread(target=ask, args=[f"{shop}/stock/7"])
    ordering = threading.Thread(target=ask, args=[f"{shop}/orders/42"])
    ordering.start()
    time.sleep(0.015)  # it is in its first query
    counting.start()
    ordering.join()
    counting.join()


def find_trace(pages: str) -> str:
    """Return the ID of the trace in which a request has waited for a lock."""
    found = json.loads(ask(f"{pages}/api/traces?service=shop&limit=20"))["data"]
    for trace in found:
        if {"lock", "GET /prices/<int:item>"} <= {span["operationName"] for span in trace["spans"]}:
            return str(trace["traceID"])
    sys.exit("no request has waited for the lock")


def main() -> None:
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        otlp, pages = stack.enter_context(jaeger(folder))
        database = f"host=127.0.0.1 port={stack.enter_context(postgresql())} user=postgres dbname=postgres"
        subprocess.run(["psql", "-q", database, "-c", TABLES], check=True)
        with (
            service(folder, "prices", PRICES, otlp) as prices,
            service(folder, "shop", SHOP, otlp, DATABASE=database, PRICES=prices) as shop,
        ):
            order(shop)
        url = f"{pages}/trace/{find_trace(pages)}?uiEmbed=v0&uiTimelineHideMinimap=1"
        # ms: the page asks for the trace when it is there itself
        photograph(url, "trace.png", 318, "--window-size=1000,318", "--virtual-time-budget=10000")


if __name__ == "__main__":
    main()
