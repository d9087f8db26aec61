"""The access log: its format, and that a client cannot forge lines."""

import io
import re

COMBINED = re.compile(
    r'^127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "(?P<request>[^"]*)" (?P<status>\d{3}|-) (?P<size>\d+|-) '
    r'"(?P<referer>[^"]*)" "(?P<agent>[^"]*)"$'
)


def app(environ, start_response):
    start_response("200 OK", [])
    return [b"hello"] if environ["PATH_INFO"] != "/empty" else []


def entries(stream):
    return [COMBINED.match(line).groupdict() for line in stream.getvalue().splitlines()]


def test_combined_format(start):
    log = io.StringIO()
    server = start(app, access_log=log)
    client = start.client(server)
    client.get("/a?b=c", "Referer: http://r/\r\nUser-Agent: me\r\n")
    client.get("/empty")
    client.close()
    server.stop()
    first, second = entries(log)
    assert first == {"request": "GET /a?b=c HTTP/1.1", "status": "200", "size": "5", "referer": "http://r/", "agent": "me"}
    assert second == {"request": "GET /empty HTTP/1.1", "status": "200", "size": "-", "referer": "-", "agent": "-"}


def test_refused_requests_are_logged(start):
    log = io.StringIO()
    server = start(app, access_log=log)
    client = start.client(server)
    client.send(b"BAD\r\n\r\n")
    assert client.response()[0] == 400
    client.close()
    server.stop()
    assert [(entry["request"], entry["status"]) for entry in entries(log)] == [("-", "400")]


def test_clients_cannot_forge_lines_or_fields(start):
    log = io.StringIO()
    server = start(app, access_log=log)
    client = start.client(server)
    client.get("/%0a%22x%5c", 'User-Agent: a" "b\\\r\nReferer: \x85\r\n'.encode("latin-1").decode("latin-1"))
    client.close()
    server.stop()
    (entry,) = entries(log)
    assert "/%0A%22x%5C" in entry["request"] and "\\x22" in entry["agent"] and "\\x5c" in entry["agent"]


def test_lines_are_written_soon(start, tmp_path):
    import syncless

    path = tmp_path / "log"
    server = start(app, access_log=path)
    start.client(server).get()
    for _ in range(300):
        if path.read_text():
            break
        syncless.sleep(0.01)
    assert COMBINED.match(path.read_text().strip())
