"""Metrics that an application makes with prometheus_client: those of all workers together, unchanged code."""

import os
import signal
import sys

import pytest

from tests import needs
from tests.status.test_metrics import metrics, parsed
from tests.supervised import Load, Program
from tests.waiting import eventually

pytest.importorskip("prometheus_client", reason="prometheus_client makes the metrics")

APP = """
import os
from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest
hits = Counter("hits", "Hits", ["path"])
size = Histogram("size", "Size", buckets=(1, 2))
up = Gauge("up", "Up", multiprocess_mode="livesum")
up.set(1)
def app(environ, start_response):
    start_response("200 OK", [("X-Pid", str(os.getpid()))])
    if environ["PATH_INFO"] == "/own":
        return [generate_latest(REGISTRY)]
    hits.labels(environ["PATH_INFO"]).inc()
    size.observe(1.5)
    return [b"hello"]
"""


@pytest.mark.parametrize("options", [["-w", "0"], ["-w", "2"], ["-w", "2", "--preload"]], ids=" ".join)
def test_two_scrapes_see_all_requests_of_all_workers(seen, options):
    running = seen("--metrics", *options, code=APP)
    for number in (6, 12):
        for _ in range(6):
            running.get("/a")
        for found in (metrics(running), parsed(running.get("/own")[2])):
            assert found["hits_total", "/a"] == found["size_bucket", "2.0"] == found["size_count",] == number
            assert found["size_sum",] == number * 1.5 and found["size_bucket", "1.0"] == 0
    assert eventually(lambda: metrics(running)["up",] == max(1, int(options[1])))


def test_metrics_at_a_path_of_the_main_addresses_are_those_of_all_workers(seen):
    running = seen("--metrics", "/metrics", "-w", "2", code=APP)
    for _ in range(12):
        running.get("/a")
    assert {parsed(running.get("/metrics")[2])["hits_total", "/a"] for _ in range(6)} == {12}


def test_metrics_of_the_application_never_go_back(seen):
    """Workers are recycled, killed and reloaded under load, and each request has been counted."""
    running, last = seen("--metrics", "-w", "2", "-l", "worker_requests=30", code=APP), 0

    def count():
        nonlocal last
        before, last = last, metrics(running).get(("hits_total", "/a"), 0)
        assert last >= before
        return last

    with Load(running, "/a") as load:
        for number in (100, 200, 300):
            assert eventually(lambda number=number: count() > number)
            os.kill(next(iter(running.children())), signal.SIGKILL)
            running.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: count() > 500)
    assert eventually(lambda: count() >= len(load.answers))


def test_gauges_of_a_killed_worker_are_not_live(seen):
    running = seen("--metrics", "-w", "2", code=APP)
    first = running.pids(2)
    assert metrics(running)["up",] == 2
    os.kill(min(first), signal.SIGKILL)
    assert eventually(lambda: running.pids(2) != first)
    assert eventually(lambda: metrics(running)["up",] == 2)


def test_workers_keep_their_own_metrics_if_told_to(seen):
    running = seen("--metrics", "-w", "2", "--no-shared-metrics", code=APP)
    pids = {running.get("/a")[1] for _ in range(12)}
    assert ("hits_total", "/a") not in metrics(running)
    assert sum(own(running, pid) for pid in pids) == 12


def own(running, pid):
    """The counter of that worker."""
    while True:
        _, found, text = running.get("/own")
        if found == pid:
            return parsed(text)["hits_total", "/a"]


def test_directory_of_the_librarys_own_files_is_respected(seen, tmp_path, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    running = seen("--metrics", "-w", "2", code=APP)
    running.get("/a")
    assert list(tmp_path.glob("counter_*.db")) and ("hits_total", "/a") not in metrics(running)


SCRIPT = """
import sys
from prometheus_client import Counter, Gauge
import syncless.wsgi
hits, build = Counter("hits", "Hits"), Gauge("build", "Build", ["version"], multiprocess_mode="max")
build.labels("1").set(7)
def app(environ, start_response):
    hits.inc()
    start_response("200 OK", [])
    return [b""]
if __name__ == "__main__":
    syncless.wsgi.serve(app, port=0, workers=int(sys.argv[1]), metrics="/metrics")
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_metrics_that_a_program_has_made_before_it_serves_are_taken_along(tmp_path, workers):
    (tmp_path / "program.py").write_text(SCRIPT)

    class Script(Program):
        command = (sys.executable, "program.py", workers)  # which ignores what comes behind

    running = Script(tmp_path, [])
    try:
        for _ in range(4):
            running.get("/")
        found = parsed(running.get("/metrics")[2])
        assert found["hits_total",] == 4 and found["build", "1"] == 7
    finally:
        running.end()


FLASK = """
import os
from flask import Flask
from prometheus_flask_exporter import PrometheusMetrics
app = Flask(__name__)
metrics = PrometheusMetrics(app)

@app.route("/a")
def a():
    return "a", {"X-Pid": str(os.getpid())}
"""
DJANGO = """
import os
from django.conf import settings
settings.configure(
    ROOT_URLCONF="app", ALLOWED_HOSTS=["*"], INSTALLED_APPS=["django_prometheus"], DATABASES={},
    MIDDLEWARE=[
        "django_prometheus.middleware.PrometheusBeforeMiddleware",
        "django_prometheus.middleware.PrometheusAfterMiddleware",
    ],
)
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import include, path

def a(request):
    return HttpResponse("a", headers={"X-Pid": str(os.getpid())})

urlpatterns = [path("a", a), path("", include("django_prometheus.urls"))]
app = get_wsgi_application()
"""
STARLETTE = """
import os
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette_exporter import PrometheusMiddleware, handle_metrics

async def a(request):
    return PlainTextResponse("a", headers={"X-Pid": str(os.getpid())})

app = Starlette(routes=[Route("/a", a), Route("/metrics", handle_metrics)])
app.add_middleware(PrometheusMiddleware)
"""


@pytest.mark.parametrize(
    ("package", "code", "counter"),
    [
        ("prometheus_flask_exporter", FLASK, "flask_http_request_total"),
        ("django_prometheus", DJANGO, "django_http_requests_total_by_view_transport_method_total"),
        ("starlette_exporter", STARLETTE, "starlette_requests_total"),
    ],
)
def test_exporter_of_a_framework_is_exact_unchanged(seen, package, code, counter):
    needs.module(package, "its metrics are tested")
    running = seen("--metrics", "-w", "2", code=code)
    pids = []
    while len(set(pids)) < 2:
        pids.append(running.get("/a")[1])

    def counted(text):
        return sum(number for (name, *_), number in parsed(text).items() if name == counter)

    assert counted(running.ask("/metrics")[2].decode()) == len(pids)
    assert counted(running.get("/metrics")[2]) >= len(pids)
