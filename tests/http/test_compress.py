"""Compression of answers: which ones, for which clients, and that a stream is not held back."""

import gzip
import random
import subprocess
import sys
import zlib

import pytest

import syncless
from syncless.http.content import compression
from syncless.http.content.compression import Compression, compressors
from syncless.wsgi import Server
from tests.http.test_static import get

TEXT = b"All work and no play makes Jack a dull boy. " * 100
HTML = ("Content-Type", "text/html; charset=utf-8")


def noise(size):
    return random.Random(1).randbytes(size)


def decompressor(coding):
    """decompress(data), piece by piece."""
    if coding == "gzip":
        return zlib.decompressobj(31).decompress
    if coding == "br":
        return pytest.importorskip("brotli", reason="brotli is not installed").Decompressor().process
    library = pytest.importorskip("zstandard", reason="zstandard is not installed")
    return library.ZstdDecompressor().decompressobj().decompress


def answering(*parts, status="200 OK", headers=(HTML,), kind=list):
    def app(environ, start_response):
        start_response(status, list(headers))
        return kind(parts)

    return app


@pytest.fixture
def ask(start):
    """ask(app, coding, **options) -> (status, headers, body) of an answer to GET."""

    def ask(app, coding="gzip", method="GET", **options):
        client = start.client(start(app, **{"compress": True, **options}))
        return get(client, "/", method, **({"Accept_Encoding": coding} if coding else {}))

    return ask


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_answer_is_compressed(ask, coding, kind):
    decompress = decompressor(coding)
    status, headers, body = ask(answering(TEXT[:3000], b"", TEXT[3000:], kind=kind), coding)
    assert status == 200 and headers["content-encoding"] == coding and headers["vary"] == "Accept-Encoding"
    assert decompress(body) == TEXT and len(body) < len(TEXT) // 4
    assert ("content-length" in headers) == (kind is not iter)


@pytest.mark.parametrize(
    ("field", "coding"),
    [
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip, deflate, br;q=0.9", "gzip"),
        ("br;q=0.2, gzip;q=0.1", "br"),
        ("*;q=0.5", "zstd"),
        ("identity", None),
        ("gzip;q=0", None),
        ("deflate", None),
        (None, None),
    ],
)
def test_client_chooses(ask, field, coding):
    decompressor("br"), decompressor("zstd")
    _, headers, body = ask(answering(TEXT), field)
    assert headers.get("content-encoding") == coding and headers["vary"] == "Accept-Encoding"
    assert (body == TEXT) == (coding is None) and int(headers["content-length"]) == len(body)


@pytest.mark.parametrize(
    "head",
    [
        {"headers": [("Content-Type", "image/png")]},
        {"headers": []},
        {"headers": [HTML, ("Content-Encoding", "br")]},
        {"headers": [HTML, ("Cache-Control", "private, No-Transform")]},
        {"headers": [HTML, ("Content-Range", "bytes 0-4399/5000")], "status": "206 Partial Content"},
        {"headers": [HTML, ("Content-Range", "bytes */5000")], "status": "416 Range Not Satisfiable"},
        {"headers": [HTML], "status": "206 Partial Content"},
        {"headers": [HTML, ("Repr-Digest", "sha-256=:x:")]},
    ],
)
@pytest.mark.parametrize("kind", [list, iter])
def test_answer_that_is_left_alone(ask, head, kind):
    _, headers, body = ask(answering(TEXT, kind=kind, **head))
    assert body == TEXT and "vary" not in headers
    assert headers.get("content-encoding") == dict(head["headers"]).get("Content-Encoding")


@pytest.mark.parametrize("status", ["204 No Content", "205 Reset Content", "304 Not Modified"])
def test_answer_without_a_body_is_left_alone(ask, status):
    answer = ask(answering(TEXT, status=status, headers=[HTML, ("ETag", '"a"')]))
    assert answer[1]["etag"] == '"a"' and "content-encoding" not in answer[1]


def test_small_body_is_left_alone(ask):
    for size, coding in ((999, None), (1000, "gzip")):
        assert ask(answering(b"a" * size))[1].get("content-encoding") == coding
        length = ("Content-Length", str(size))
        generated = ask(answering(b"a" * size, headers=[HTML, length], kind=iter))[1]
        assert generated.get("content-encoding") == coding
        assert (generated.get("content-length") == str(size)) == (coding is None)
    assert ask(answering(b"a" * 50), compress_minimum=50)[1]["content-encoding"] == "gzip"


def test_chosen_types(ask):
    app = answering(TEXT, headers=[("Content-Type", "Application/X-Mine; a=b")])
    assert "content-encoding" not in ask(app)[1]
    for types in ("text/css, application/x-mine", ["application/*"]):
        assert ask(app, compress=types)[1]["content-encoding"] == "gzip"
    assert "content-encoding" not in ask(answering(TEXT), compress="application/*")[1]
    with pytest.raises(ValueError, match="must be a list of media types such as"):
        Server(app, compress="html")
    with pytest.raises(ValueError, match="number of bytes"):
        Server(app, compress=True, compress_minimum=-1)


def test_validators_say_that_the_bytes_are_others(ask):
    fields = [HTML, ("ETag", '"a"'), ("Accept-Ranges", "bytes"), ("Vary", "Cookie"), ("vary", "Origin")]
    _, headers, _ = ask(answering(TEXT, headers=fields))
    assert headers["etag"] == 'W/"a"' and "accept-ranges" not in headers
    assert headers["vary"] == "Cookie, Origin, Accept-Encoding"
    _, headers, _ = ask(answering(TEXT, headers=fields), "identity")
    assert headers["etag"] == '"a"' and headers["accept-ranges"] == "bytes"


@pytest.mark.parametrize("kind", [list, iter])
def test_head_has_the_fields_of_get(ask, kind):
    for length in ((), (("Content-Length", str(len(TEXT))),)):
        for parts in ([TEXT], []) if length else ([TEXT],):
            status, headers, body = ask(answering(*parts, headers=[HTML, *length], kind=kind), method="HEAD")
            assert (status, body, headers["content-encoding"]) == (200, b"", "gzip")
            assert "content-length" not in headers


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_each_event_of_a_stream_is_sent_at_once(start, coding):
    decompressor(coding)
    go_on = syncless.Channel()

    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        for number in range(3):
            yield b"data: %d\n\n" % number
            go_on.receive()

    client = start.client(start(app, compress=True))
    client.send(f"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n".encode())
    events = b""
    for number in range(3):
        while not events.endswith(b"data: %d\n\n" % number):
            assert client._more()
            body = client.buffer.partition(b"\r\n\r\n")[2]
            events = b"".join(events_of(body, decompressor(coding)))
        go_on.send(None)
    while not client.buffer.endswith(b"\r\n0\r\n\r\n"):
        assert client._more()
    assert events == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"


def events_of(body, decompress):
    """The events in a chunked body that has come in part."""
    while b"\r\n" in body:
        line, _, body = body.partition(b"\r\n")
        size = int(line, 16)
        if len(body) < size + 2:
            return
        yield decompress(body[:size]) if size else b""
        body = body[size + 2 :]


def test_write_is_compressed_and_sent_at_once(ask):
    def app(environ, start_response):
        write = start_response("200 OK", [HTML])
        write(TEXT)
        write(b"")
        write(b"more")
        return [b" and more"]

    _, headers, body = ask(app)
    assert headers["content-encoding"] == "gzip" and gzip.decompress(body) == TEXT + b"more and more"


def test_start_response_inside_a_generator(ask):
    def app(environ, start_response):
        start_response("200 OK", [HTML])
        yield b""
        yield TEXT

    assert gzip.decompress(ask(app)[2]) == TEXT


def test_head_is_replaced_until_it_is_sent(ask, errors):
    def app(environ, start_response):
        start_response("200 OK", [HTML])
        try:
            raise KeyError("oops")
        except KeyError:
            start_response("500 Oops", [HTML, ("X-Second", "2")], sys.exc_info())
        return [TEXT]

    status, headers, body = ask(app)
    assert (status, headers["x-second"]) == (500, "2") and gzip.decompress(body) == TEXT

    def late(environ, start_response):
        start_response("200 OK", [HTML])
        yield TEXT
        try:
            raise KeyError("needle")
        except KeyError:
            start_response("500 Oops", [HTML], sys.exc_info())

    assert ask(late, error_log=errors)[2] is None and "needle" in errors.getvalue()


@pytest.mark.parametrize(
    ("headers", "result"),
    [
        ([("Content-Type", 5)], [TEXT]),
        ([("X",)], [TEXT]),
        ("text", [TEXT]),
        ([HTML], None),
        ([HTML], ["text"]),
        ([HTML], [TEXT, "text"]),
        ([HTML], [None]),
        ([HTML], 5),
        ([("X", "a\r\nb")], [TEXT]),
    ],
)
def test_application_errors_are_the_same_without_compression(start, errors, headers, result):
    def app(environ, start_response):
        start_response("200 OK", headers)
        return result

    said = []
    for options in ({}, {"compress": True}):
        errors.truncate(0)
        errors.seek(0)
        client = start.client(start(app, error_log=errors, **options))
        assert get(client, "/", Accept_Encoding="gzip")[0] == 500
        said.append(errors.getvalue().strip().rsplit("\n", 1)[-1])
    assert said[0] == said[1] and "Error" in said[0]


def test_list_of_headers_may_be_changed_afterwards(ask):
    def app(environ, start_response):
        headers = [HTML]
        start_response("200 OK", headers)
        headers.append(("X-Late", "1"))
        return [TEXT]

    assert "x-late" not in ask(app)[1]


def test_second_start_response_is_an_error(ask, errors):
    def app(environ, start_response):
        start_response("200 OK", [HTML])
        start_response("200 OK", [HTML])
        return []

    assert ask(app, error_log=errors)[0] == 500 and "a second time without exc_info" in errors.getvalue()


def test_result_is_closed(ask):
    closed = []

    def app(environ, start_response):
        start_response("200 OK", [HTML])
        try:
            yield TEXT
            yield TEXT
        finally:
            closed.append(True)

    assert gzip.decompress(ask(app)[2]) == TEXT * 2 and closed == [True]


def test_file_of_the_application_is_compressed_or_sent_by_sendfile(ask, tmp_path):
    (tmp_path / "file").write_bytes(TEXT * 50)

    def app(kind):
        def app(environ, start_response):
            start_response("200 OK", [("Content-Type", kind), ("Content-Length", str(len(TEXT * 50)))])
            return environ["wsgi.file_wrapper"](open(tmp_path / "file", "rb"))

        return app

    _, headers, body = ask(app("text/html"))
    assert gzip.decompress(body) == TEXT * 50 and "content-length" not in headers
    assert b"\0\0\xff\xff" not in body  # with which a block ends that is sent at once
    _, headers, body = ask(app("text/html"), method="HEAD")
    assert headers["content-encoding"] == "gzip" and "content-length" not in headers
    for kind, coding in (("image/png", "gzip"), ("text/html", None)):
        _, headers, body = ask(app(kind), coding)
        assert body == TEXT * 50 and "content-encoding" not in headers


def test_static_files_are_compressed_too(start, tmp_path):
    (tmp_path / "small.css").write_bytes(TEXT)
    (tmp_path / "large.css").write_bytes(TEXT * 50)
    (tmp_path / "done.css").write_bytes(TEXT)
    (tmp_path / "done.css.gz").write_bytes(gzip.compress(TEXT, 9))
    client = start.client(start(answering(b""), compress=True, static={"/s": tmp_path}))
    for name, content in {"small": TEXT, "large": TEXT * 50, "done": TEXT}.items():
        for method in ("HEAD", "GET"):
            status, headers, body = get(client, f"/s/{name}.css", method, Accept_Encoding="gzip")
            assert headers["content-encoding"] == "gzip" and headers["vary"] == "Accept-Encoding"
            assert headers["etag"].startswith('"' if name == "done" else 'W/"')
        assert gzip.decompress(body) == content
        again = get(client, f"/s/{name}.css", Accept_Encoding="gzip", If_None_Match=headers["etag"])
        assert again[0] == 304
    status, headers, body = get(client, "/s/small.css", Accept_Encoding="gzip", Range="bytes=0-9")
    assert (status, body) == (206, TEXT[:10]) and "content-encoding" not in headers


def test_large_body_lets_others_run(ask):
    """Another tasklet gets a turn for each piece, however large the body is."""
    turns = []
    body = noise(100 * compression.PIECE)

    def count():
        while True:
            turns.append(None)
            syncless.sleep(0)

    def app(environ, start_response):
        start_response("200 OK", [HTML])
        turns.clear()
        return [body]

    counting = syncless.spawn(count)
    try:
        answer = ask(app)
    finally:
        counting.kill()
    assert len(turns) >= 99 and gzip.decompress(answer[2]) == body


def test_library_that_is_missing_is_not_offered(monkeypatch):
    for name in ("brotli", "zstandard", "compression.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    assert list(compressors()) == ["gzip"]
    plan = Compression().plan("br, zstd", "200 OK", [HTML], 5000)
    assert plan.make is None and ("Vary", "Accept-Encoding") in plan.headers


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), "# compress is not set"),
        (("app:app", "--compress"), 'compress = ""  # command line'),
        (("--compress", "app:app"), 'compress = ""  # command line'),
        (("--compress", "text/html,text/css", "app:app"), 'compress = "text/html,text/css"  # command line'),
        (("app:app", "--compress-minimum", "50"), "compress_minimum = 50  # command line"),
    ],
)
def test_options_of_the_command(tmp_path, options, shown):
    command = [sys.executable, "-m", "syncless", *options, "--print-config"]
    assert shown in subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout.split("\n")


@pytest.mark.parametrize(
    ("value", "shown"), [("true", '""'), ('"text/html"', '"text/html"'), ('["a/b", "c/*"]', '"a/b,c/*"')]
)
def test_options_of_a_file(tmp_path, value, shown):
    (tmp_path / "syncless.toml").write_text(f"compress = {value}\n")
    command = [sys.executable, "-m", "syncless", "--print-config"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert f"compress = {shown}  # syncless.toml" in told.stdout, told.stderr
