"""``python -m syncless run``: servers and workers of others, unchanged. Their threads are tasklets."""

import contextlib
import http.client
import importlib.util
import socket
import sys
import threading

import pytest

from tests.contrib.commands import Command
from tests.contrib.test_django import MANAGE, SETTINGS
from tests.patches.servers import free_port, redis
from tests.waiting import eventually

NUMBER = 100
MEET = f"""
import threading
import syncless, syncless.patches
barrier = threading.Barrier({NUMBER})
def meet():
    assert syncless.patches.is_patched("thread") and not syncless.current().is_main
    barrier.wait(60)
"""
URLS = """
from django.http import HttpResponse
from django.urls import path
from meet import meet
def home(request):
    meet()
    return HttpResponse("met")
urlpatterns = [path("", home)]
"""
BACKLOG = f"""
from django.core.servers.basehttp import WSGIServer
WSGIServer.request_queue_size = {NUMBER}
"""
"""It is 10, and a client that finds it full tries again after a second, two, four, eight, sixteen."""
TASKS = """
from celery import Celery
from meet import meet
app = Celery("tasks", broker="{url}", backend="{url}")
@app.task
def wait():
    meet()
    return "met"
"""


def need(product):
    if importlib.util.find_spec(product) is None:
        pytest.skip(f"{product} is not installed: pip install {product}")


def start(folder, files, arguments):
    for name, text in {**files, "meet.py": MEET}.items():
        (folder / name).write_text(text)
    return Command(folder, [sys.executable, "-m", "syncless", "run", *map(str, arguments)])


def test_requests_to_runserver_of_django_wait_for_one_another(tmp_path):
    need("django")
    port = free_port()
    settings = SETTINGS.format(apps="", debug=True) + BACKLOG
    files = {"manage.py": MANAGE, "settings.py": settings, "urls.py": URLS}
    command = start(tmp_path, files, ["manage.py", "runserver", str(port), "--noreload"])
    answers = []

    def ask():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", "/")
            answers.append(connection.getresponse().read())
        finally:
            connection.close()

    def listens():
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 5).close()
            return True

    try:
        assert eventually(listens), command.said()
        threads = [threading.Thread(target=ask) for _ in range(NUMBER)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [b"met"] * NUMBER, command.said()
    finally:
        command.end()


def test_threads_of_celery(tmp_path):
    need("celery")
    import celery

    with redis() as port:
        url = f"redis://127.0.0.1:{port}/0"
        quiet = ["--without-mingle", "--without-gossip", "-l", "INFO", "--pool", "threads", "-c", NUMBER]
        command = start(
            tmp_path, {"tasks.py": TASKS.format(url=url)}, ["-m", "celery", "-A", "tasks", "worker", *quiet]
        )
        try:
            command.says("ready")
            app = celery.Celery("client", broker=url, backend=url, set_as_current=False)
            results = [app.send_task("tasks.wait") for _ in range(NUMBER)]
            assert [result.get(timeout=60) for result in results] == ["met"] * NUMBER
            app.close()
        finally:
            command.end()
