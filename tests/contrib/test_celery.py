"""Celery's worker with our pool, and a real Redis for messages and results."""

import signal
import sys

import pytest

from tests.contrib.commands import Command
from tests.patches.servers import redis
from tests.waiting import eventually

celery = pytest.importorskip("celery", reason="Celery is not installed: pip install 'celery[redis]'")
client_library = pytest.importorskip("redis", reason="redis is not installed: pip install redis")

POOL = "syncless.contrib.celery:TaskPool"
TASKS = """
import json, threading, time
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded
app = Celery("tasks", broker="{url}", backend="{url}")
app.conf.result_expires = 600
present, most, all_there = 0, 0, threading.Event()

@app.task
def meet(number):
    global present, most
    present += 1
    most = max(most, present)
    if present == number:
        all_there.set()
    try:
        assert all_there.wait(60)
        time.sleep(0.3)
        return most
    finally:
        present -= 1

@app.task(acks_late=True)
def wait(seconds, name):
    try:  # the file is there before open() returns
        open(name + ".begun", "w").close()
        time.sleep(seconds)
        return "waited"
    finally:
        time.sleep(0.01)
        open(name + ".ended", "w").close()

@app.task(soft_time_limit=0.2, time_limit=30)
def soft(catches):
    try:
        time.sleep(30)
    except SoftTimeLimitExceeded:
        if catches:
            return "caught"
        raise

@app.task(time_limit=0.3)
def hard():
    try:
        time.sleep(30)
    except Exception:
        return "a hard limit is no Exception"

@app.task
def leave():
    raise SystemExit(3)
"""


@pytest.fixture(scope="module")
def port():
    with redis() as port:
        yield port


class Worker(Command):
    def __init__(self, folder, port, *options, configured=False):
        url = f"redis://127.0.0.1:{port}/0"
        line = f'app.conf.worker_pool = "{POOL}"\n' if configured else ""
        (folder / "tasks.py").write_text(TASKS.format(url=url) + line)
        quiet = ["--without-mingle", "--without-gossip", "--without-heartbeat", "-l", "INFO"]
        pool = [] if configured else ["--pool", "custom"]
        command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", *pool, *quiet, *options]
        super().__init__(folder, command, {} if configured else {"CELERY_CUSTOM_WORKER_POOL": POOL})
        self.app = celery.Celery("client", broker=url, backend=url, set_as_current=False)
        self.redis = client_library.Redis(port=port)

    def send(self, name, *arguments, **options):
        return self.app.send_task(f"tasks.{name}", arguments, **options)

    def pool(self):
        """The information that the pool gives about itself."""
        return next(iter(self.app.control.inspect(timeout=60, limit=1).stats().values()))["pool"]

    def messages(self):
        """Those that are in the queue or with a worker that has not acknowledged them."""
        return self.redis.llen("celery") + self.redis.hlen("unacked")

    def close(self):
        self.end(signal.SIGTERM)
        self.app.close()
        self.redis.flushall()
        self.redis.close()


@pytest.fixture
def worker(tmp_path, port):
    """worker(*options) -> a Worker that is ready, and is ended at the end."""
    running = []

    def begin(*options, **named):
        running.append(Worker(tmp_path, port, *options, **named))
        running[-1].says("ready")
        return running[-1]

    yield begin
    for each in running:
        each.close()


@pytest.mark.parametrize("many", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_tasks_wait_in_one_process(worker, many):
    server = worker("-c", str(many))
    results = [server.send("meet", many) for _ in range(many)]
    assert results[-1].get(timeout=60) == many
    assert {result.get(timeout=60) for result in results} == {many}


def test_no_more_tasks_run_than_the_concurrency(worker):
    server = worker("-c", "2", configured=True)
    results = [server.send("meet", 2) for _ in range(6)]
    assert [result.get(timeout=60) for result in results] == [2] * 6
    server.app.control.pool_grow(3, reply=True, timeout=60, limit=1)
    assert server.pool()["max-concurrency"] == 5
    server.app.control.pool_shrink(10, reply=True, timeout=60, limit=1)
    assert server.pool()["max-concurrency"] == 1


def test_time_limits_and_revoke(worker, tmp_path):
    server = worker("-c", "10")
    caught, uncaught, killed = server.send("soft", True), server.send("soft", False), server.send("hard")
    assert caught.get(timeout=60) == "caught"
    with pytest.raises(celery.exceptions.SoftTimeLimitExceeded):
        uncaught.get(timeout=60)
    with pytest.raises(celery.exceptions.TimeLimitExceeded):
        killed.get(timeout=60)
    with pytest.raises(Exception, match="exitcode 3"):
        server.send("leave").get(timeout=60)
    server.says("Soft time limit")
    running = server.send("wait", 60, "revoked")
    assert eventually((tmp_path / "revoked.begun").exists)
    server.app.control.revoke(running.id, terminate=True)
    with pytest.raises(celery.exceptions.TaskRevokedError):
        running.get(timeout=60)
    assert eventually((tmp_path / "revoked.ended").exists)
    assert eventually(lambda: server.messages() == 0)
    assert eventually(lambda: (pool := server.pool())["running"] == pool["waiting"] == 0)
    assert server.pool()["max-concurrency"] == 10


def test_warm_shutdown_lets_tasks_end_and_acknowledges_them(worker, tmp_path):
    server = worker("-c", "1")
    running = server.send("wait", 1, "first")
    assert eventually((tmp_path / "first.begun").exists)
    assert server.end(signal.SIGTERM) == 0
    assert running.get(timeout=60) == "waited"
    assert server.messages() == 0


@pytest.mark.parametrize("signals", [[signal.SIGQUIT], [signal.SIGINT, signal.SIGINT]])
def test_cold_shutdown_interrupts_tasks_and_leaves_late_ones_in_the_queue(worker, tmp_path, signals):
    server = worker("-c", "10")
    server.send("wait", 3600, "cold")
    assert eventually((tmp_path / "cold.begun").exists)
    server.process.send_signal(signals[0])
    if len(signals) > 1:
        server.says("Warm shutdown")  # said after "Hitting Ctrl+C again", which is said before that is true
        server.process.send_signal(signals[1])
    server.process.wait(60)
    assert (tmp_path / "cold.ended").exists(), server.said()
    assert server.messages() == 1
    assert "Unrecoverable" not in server.said()
