"""``manage.py runsyncless``: Django's runserver with our server."""

import http.client
import os
import re
import signal
import sys
import threading
import time

import pytest

from tests.contrib.commands import Command
from tests.supervised import halted
from tests.waiting import eventually

pytest.importorskip("django", reason="Django is not installed: pip install django")

MANAGE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""

SETTINGS = """
DEBUG = {debug}
SECRET_KEY = "secret"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "urls"
INSTALLED_APPS = [{apps}]
STATIC_URL = "static/"
STATICFILES_DIRS = ["assets"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": "db"}}}}
"""

URLS = """
import os, time
from django.http import HttpResponse
from django.urls import path
def home(request):
    return HttpResponse(f"first {os.getpid()}")
waiting = [0]
def wait(request):
    waiting[0] += 1
    while waiting[0] < 20:  # requests wait together, or none is answered
        time.sleep(0.01)
    return HttpResponse("waited")
def fail(request):
    raise ValueError("the view's own")
urlpatterns = [path("", home), path("wait", wait), path("fail", fail)]
"""

ASGI = """
from channels.generic.websocket import AsyncWebsocketConsumer, WebsocketConsumer
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.urls import path
class Echo(WebsocketConsumer):
    def receive(self, text_data=None, bytes_data=None):
        self.send(text_data=f"echo {text_data}")
class AsyncEcho(AsyncWebsocketConsumer):
    async def receive(self, text_data=None, bytes_data=None):
        await self.send(text_data=f"async echo {text_data}")
routes = URLRouter([path("ws", Echo.as_asgi()), path("async", AsyncEcho.as_asgi())])
application = ProtocolTypeRouter({"http": get_asgi_application(), "websocket": routes})
"""


@pytest.fixture
def project(tmp_path):
    """project(*arguments) -> a running manage.py runsyncless, whose port is in `port`."""
    running = []

    def begin(
        *arguments,
        apps=("django.contrib.staticfiles", "syncless.contrib.django"),
        debug=True,
        port=0,
        settings="",
    ):
        (tmp_path / "manage.py").write_text(MANAGE)
        (tmp_path / "asgi.py").write_text(ASGI)
        names = ", ".join(map(repr, apps))
        (tmp_path / "settings.py").write_text(SETTINGS.format(apps=names, debug=debug) + settings)
        (tmp_path / "urls.py").write_text(URLS)
        (tmp_path / "assets").mkdir(exist_ok=True)
        (tmp_path / "assets" / "style.css").write_text("p {}")
        command = [sys.executable, "manage.py", "runsyncless", str(port), *arguments]
        running.append(Command(tmp_path, command))
        running[-1].port = int(running[-1].says(r"http://127.0.0.1:(\d+)/")[1])
        return running[-1]

    yield begin
    for each in running:
        each.end(signal.SIGINT)


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


CHANNELS = 'ASGI_APPLICATION = "asgi.application"\n'


@pytest.fixture(params=["WSGI", "ASGI"])
def kind(request):
    """By which the project is served: its settings."""
    if request.param == "ASGI":
        pytest.importorskip("channels", reason="Channels is not installed: pip install channels")
    return {"settings": CHANNELS if request.param == "ASGI" else ""}


def test_views_wait_together_and_static_files_are_served(project, kind):
    server = project("--noreload", **kind)
    threads = [threading.Thread(target=get, args=(server.port, "/wait")) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert get(server.port, "/static/style.css") == (200, "p {}")
    assert get(server.port, "/fail")[0] == 500
    server.says(r'\[[^]]*\] "GET /static/style.css HTTP/1.1" 200 4\n')
    server.says("ValueError: the view's own")
    assert server.said().count("GET /wait HTTP/1.1") == 20
    assert server.end(signal.SIGINT) == 0


@pytest.mark.parametrize("reason", ["--nostatic", "not installed", "no DEBUG"])
def test_static_files_are_not_served(project, reason, kind):
    arguments = ["--nostatic"] if reason == "--nostatic" else []
    apps = ("syncless.contrib.django",) if reason == "not installed" else ("django.contrib.staticfiles",)
    server = project(
        "--noreload",
        *arguments,
        apps={*apps, "syncless.contrib.django"},
        debug=reason != "no DEBUG",
        **kind,
    )
    assert get(server.port, "/static/style.css")[0] == 404
    assert get(server.port, "/")[1].startswith("first")


def test_changed_file_reloads(project, tmp_path, kind):
    server = project(**kind)
    first = get(server.port, "/")[1]
    (tmp_path / "urls.py").write_text(URLS.replace("first", "second"))

    def noticed():
        """Django compares with what it saw first, which may be the changed file: it is changed once more."""
        os.utime(tmp_path / "urls.py", (time.time() + 5, time.time() + 5))
        return "urls.py changed, reloading" in server.said()

    assert eventually(noticed)
    server.says(r"http://127.0.0.1:\d+/", 2)
    port = int(re.findall(r"http://127.0.0.1:(\d+)/", server.said())[1])
    status, second = get(port, "/")
    assert status == 200 and second.startswith("second") and second.split()[1] != first.split()[1]


def talk(port, path):
    websockets = pytest.importorskip(
        "websockets.sync.client", reason="the websockets library is the client: pip install websockets"
    )
    with websockets.connect(f"ws://127.0.0.1:{port}{path}") as client:
        client.send("hello")
        return client.recv()


@pytest.mark.parametrize("arguments", [["--noreload"], [], ["--workers", "1"]], ids=" ".join)
def test_channels_are_served(project, arguments):
    pytest.importorskip("channels", reason="Channels is not installed: pip install channels")
    server = project(*arguments, settings=CHANNELS)
    assert talk(server.port, "/ws") == "echo hello"
    assert talk(server.port, "/async") == "async echo hello"
    assert get(server.port, "/")[1].startswith("first")
    assert get(server.port, "/static/style.css") == (200, "p {}")
    server.says(r"\(ASGI\): http")


def test_wsgi_can_be_asked_for(project):
    """Without an import of the other one."""
    server = project("--noreload", "--noasgi", settings='ASGI_APPLICATION = "missing.application"\n')
    server.says(r"\(WSGI\): http")
    assert get(server.port, "/")[1].startswith("first")


def test_asgi_application_that_cannot_be_imported_is_told(project, tmp_path):
    pytest.importorskip("channels", reason="Channels is not installed: pip install channels")
    server = project("--noreload", settings=CHANNELS)
    server.end(signal.SIGINT)
    with (tmp_path / "settings.py").open("a") as settings:
        settings.write('ASGI_APPLICATION = "no.app"')
    command = [sys.executable, "manage.py", "runsyncless", "0", "--noreload"]
    second = Command(tmp_path, command)
    second.says("ASGI application 'no.app' could not be loaded")
    assert second.process.wait(60) == 1
    second.end()


def test_workers(project, kind):
    server = project("--workers", "2", **kind)
    first = int(get(server.port, "/")[1].split()[1])
    with halted(first):  # an idle worker may take each connection that comes
        assert int(get(server.port, "/")[1].split()[1]) != first
    assert server.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("workers", ["0", "2"])
def test_port_in_use_is_reported(workers, project, tmp_path):
    first = project("--noreload")
    said = first.said()
    options = "--noreload", "--workers", workers
    command = [sys.executable, "manage.py", "runsyncless", str(first.port), *options]
    second = Command(tmp_path, command)
    second.says("Error: That port is already in use.")
    assert second.process.wait(60) == 1
    second.end()
    assert "http://" not in second.said()[len(said) :]
