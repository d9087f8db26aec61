"""`python -m syncless.wsgi module`, the command of the original Syncless, and what it finds in the module."""

import importlib.util
import subprocess
import sys
import urllib.request

import pytest

import syncless

SOURCES = {
    "a WSGI callable": (
        None,
        """
def application(environ, start_response):
    start_response("200 OK", [])
    return [b"answered"]
""",
    ),
    "a class of handlers": (
        None,
        """
from http.server import BaseHTTPRequestHandler
class app(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"answered")
""",
    ),
    "web.py's application": (
        "web",
        """
import web
class Page:
    def GET(self, name):
        return "answered"
app = web.application(("/(.*)", Page), {"Page": Page})
""",
    ),
    "webapp's application": (
        "webapp2",
        """
import webapp2
class Page(webapp2.RequestHandler):
    def get(self):
        self.response.write("answered")
app = webapp2.WSGIApplication([("/", Page)])
""",
    ),
    "a root of CherryPy": (
        "cherrypy",
        """
import cherrypy
class Root:
    @cherrypy.expose
    def index(self):
        return "answered"
app = Root()
""",
    ),
    "a class for roots of CherryPy": (
        "cherrypy",
        """
import cherrypy
class app:
    @cherrypy.expose
    def index(self):
        return "answered"
""",
    ),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_module_is_served(tmp_path, kind):
    needed, source = SOURCES[kind]
    if needed is not None and importlib.util.find_spec(needed) is None:
        pytest.skip(f"serves an application of {needed}, which is not installed")
    (tmp_path / "site_of_mine.py").write_text(source)
    command = [sys.executable, "-W", "ignore", "-m", "syncless.wsgi", "site_of_mine", "--bind", "127.0.0.1:0"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)
    try:
        line = syncless.run_in_thread(process.stdout.readline)
        assert " on http" in line, line or process.communicate()[1]
        url = line.split(" on ")[1].split()[0]
        answer = syncless.run_in_thread(lambda: urllib.request.urlopen(url, timeout=60).read())
        assert answer == b"answered"
    finally:
        process.terminate()
        _, errors = process.communicate()
    assert process.returncode == 0, errors


def test_wrong_module_is_refused_as_by_the_command(tmp_path):
    command = [sys.executable, "-m", "syncless.wsgi", "no_such_module"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith("syncless: ") and "no_such_module" in done.stderr
