"""Flask, Django and CherryPy over a real socket, as their users use them. The sites are in
tests/wsgi/apps/."""

import hashlib
import http.client
import http.cookiejar
import importlib.util
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

pytestmark = pytest.mark.slow

ROOT = __file__.rsplit("/tests/", 1)[0]
SITES = {
    "flask": "flask_site:app",
    "flask, validated": "flask_site:validated",
    "django": "django_site:app",
    "cherrypy": "cherrypy_site:app",
}
MEGABYTE = os.urandom(1 << 20)


class Site:
    def __init__(self, name):
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "syncless",
            f"tests.wsgi.apps.{SITES[name]}",
            "--bind",
            "127.0.0.1:0",
        ]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate()[1])
        self.url = line.split()[4].rstrip("/")
        self.port = int(self.url.rpartition(":")[2])
        self.name = name

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method, path, body=None, headers=None, chunked=False):
        """(status, headers, body) of one request on a connection of its own."""
        connection = self.connection()
        try:
            connection.request(method, path, body, headers or {}, encode_chunked=chunked)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def stop(self):
        self.process.terminate()
        self.out, self.err = self.process.communicate(timeout=60)
        return self.err


@pytest.fixture(params=SITES, scope="module")
def site(request):
    if importlib.util.find_spec(request.param.partition(",")[0]) is None:
        pytest.skip(f"{request.param} is not installed")
    running = Site(request.param)
    yield running
    errors = running.stop()
    assert running.process.returncode == 0
    assert "AssertionError" not in errors, errors  # errors that wsgiref.validate finds


def multipart(size):
    """The parts of an upload with a file of that many megabytes, and the file's digest."""
    digest = hashlib.sha256()
    head = (
        b'--cut\r\nContent-Disposition: form-data; name="field"\r\n\r\nvalue\r\n'
        b'--cut\r\nContent-Disposition: form-data; name="file"; filename="a b.bin"\r\n'
        b"Content-Type: application/octet-stream\r\n\r\n"
    )
    for _ in range(size):
        digest.update(MEGABYTE)
    return [head, *[MEGABYTE] * size, b"\r\n--cut--\r\n"], digest.hexdigest()


@pytest.mark.parametrize("chunked", [False, True], ids=["by length", "in chunks"])
def test_a_hundred_megabytes_of_multipart(site, chunked):
    parts, digest = multipart(100)
    headers = {"Content-Type": "multipart/form-data; boundary=cut"}
    if chunked:
        if site.name == "django":
            pytest.skip("Django reads a body only by its Content-Length")
        if site.name == "cherrypy":
            pytest.skip("CherryPy wants a Content-Length (411)")
        headers["Transfer-Encoding"] = "chunked"
    else:
        headers["Content-Length"] = str(sum(map(len, parts)))
    status, _, body = site.ask("POST", "/upload", iter(parts), headers, chunked)
    assert status == 200
    assert json.loads(body) == {"name": "a b.bin", "size": 100 << 20, "sha256": digest, "field": "value"}


def test_a_raw_body_in_chunks(site):
    if site.name in ("django", "cherrypy"):
        pytest.skip("it reads a body only by its Content-Length")
    status, _, body = site.ask(
        "POST", "/raw", iter([b"abc", MEGABYTE, b"x"]), {"Transfer-Encoding": "chunked"}, True
    )
    assert status == 200
    assert json.loads(body) == {
        "size": 4 + len(MEGABYTE),
        "sha256": hashlib.sha256(b"abc" + MEGABYTE + b"x").hexdigest(),
    }


def test_a_raw_body_by_length(site):
    status, _, body = site.ask("POST", "/raw", MEGABYTE * 3)
    assert status == 200 and json.loads(body) == {
        "size": 3 << 20,
        "sha256": hashlib.sha256(MEGABYTE * 3).hexdigest(),
    }


def test_streams(site):
    status, headers, body = site.ask("GET", "/stream")
    assert status == 200 and headers["Transfer-Encoding"] == "chunked"
    assert body.decode() == "".join(f"{number} /stream\n" for number in range(1000))


def test_redirects_cookies_and_sessions(site):
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    for user in ("anna", "ben"):
        seen = json.loads(opener.open(f"{site.url}/login?user={user}", timeout=60).read())
        assert seen["user"] == user
        assert json.loads(opener.open(f"{site.url}/whoami", timeout=60).read())["user"] == user
    assert json.loads(site.ask("GET", "/whoami")[2])["user"] is None
    if site.name.startswith("flask"):
        assert seen["cookies"] == ["session", "theme"] and seen["theme"] == "d\u00fcrk;,"


def test_conditional_requests(site):
    status, headers, body = site.ask("GET", "/etag")
    assert (status, body) == (200, b"the same as before")
    status, again, body = site.ask("GET", "/etag", headers={"If-None-Match": headers["ETag"]})
    assert (status, body) == (304, b"") and again["ETag"] == headers["ETag"]
    connection = site.connection()  # a 304 leaves the connection in order
    for _ in range(3):
        connection.request("GET", "/etag", headers={"If-None-Match": headers["ETag"]})
        response = connection.getresponse()
        assert (response.status, response.read()) == (304, b"")
    connection.close()


def test_files(site):
    status, headers, whole = site.ask("GET", "/file")
    assert status == 200 and len(whole) == 3 << 20 == int(headers["Content-Length"])
    status, _, body = site.ask("HEAD", "/file")
    assert (status, body) == (200, b"")
    if site.name == "flask" or site.name == "django":  # the validator and CherryPy hide the wrapper
        assert int(site.ask("GET", "/regions")[2]) >= 1, "sent by sendfile"
    if not site.name.startswith("django"):
        status, headers, part = site.ask("GET", "/file", headers={"Range": "bytes=1000-1999"})
        assert status == 206 and part == whole[1000:2000]
        status, headers, _ = site.ask("GET", "/file", headers={"Range": "bytes=99999999-"})
        assert status == 416


def test_head_and_empty_answers(site):
    connection = site.connection()
    for _ in range(3):
        connection.request("HEAD", "/")
        response = connection.getresponse()
        assert response.status == 200 and response.read() == b""
        assert response.headers["Content-Length"] == (
            "5" if site.name != "django" else None
        )  # Django gives an iterable
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"hello"
    connection.close()
    if site.name.startswith("flask"):
        assert site.ask("DELETE", "/empty")[0] == 204 and site.ask("GET", "/empty")[2] == b""


def test_errors_stay_on_the_server(site):
    status, _, body = site.ask("GET", "/boom")
    assert status == 500 and b"Traceback" not in body and b"RuntimeError" not in body
    status, _, body = site.ask("GET", "/no/such/page")
    assert status == 404 and b"Traceback" not in body
    if site.name.startswith("flask"):
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            site.ask("GET", "/late")


def test_refused_upload_does_not_hang_its_client(site):
    """The answer to a POST that nobody reads comes, whatever is still on its way."""
    try:
        status = site.ask("POST", "/no/such/page", MEGABYTE * 20)[0]
    except (BrokenPipeError, ConnectionResetError):
        status = 404  # the connection was closed before the client had sent all
    assert status in (404, 405)


def test_many_clients_at_once(site):
    connections = [site.connection() for _ in range(50)]
    for connection in connections:
        connection.request("POST", "/raw", MEGABYTE[:100_000])
    for connection in connections:
        assert json.loads(connection.getresponse().read())["size"] == 100_000
        connection.close()


def test_large_answers_to_slow_readers(site):
    connection = site.connection()
    connection.request("GET", "/file")
    response = connection.getresponse()
    size = 0
    while block := response.read(100_000):
        size += len(block)
        assert site.ask("GET", "/")[0] == 200  # others are served meanwhile
    assert size == 3 << 20
    connection.close()


def test_urls_are_those_of_the_request(site):
    with pytest.raises(urllib.error.HTTPError) as info:
        urllib.request.urlopen(f"{site.url}/%2e%2e/%00%ff", timeout=60)
    assert info.value.code in (400, 404)
    info.value.close()
