"""Static files: which are sent, whole or in part (RFC 9110, 13 and 14), and which never are."""

import errno
import io
import os
import re
import signal
import subprocess
import sys
import threading

import pytest

import syncless
from syncless._core.calls import filesystems
from syncless._core.calls.files import walk_parts
from syncless.apps.wsgi.application import EnvironRequest
from syncless.http.content.static.answers import MOST_RANGES
from syncless.http.content.static.files import LONGEST, StaticFiles, media_type
from syncless.wsgi import Server
from tests.kernel import needs_openat2
from tests.plugin import Client
from tests.waiting import eventually

LARGE = bytes(range(256)) * 2000
"""More than is read into memory."""
SMALL = b"0123456789abcdefghijklmnopqrstuvwxyz"
WHEN = 1_700_000_000
DATE = "Tue, 14 Nov 2023 22:13:20 GMT"


def app(environ, start_response):
    start_response("200 OK", [("X-From", "application")])
    return [environ["PATH_INFO"].encode("latin-1")]


@pytest.fixture
def site(tmp_path):
    site = tmp_path / "site"
    for name, content in {
        "small.txt": SMALL,
        "large.bin": LARGE,
        "empty.css": b"",
        "sub/index.html": b"<h1>sub</h1>",
        "bare/file.html": b"<p>",
        ".hidden": b"hidden",
        ".git/config": b"hidden",
        "a b\u00fc.txt": b"utf-8",
        "index.html": b"<h1>top</h1>",
        "packed.js": b"plain" * 50,
        "packed.js.br": b"as brotli",
        "packed.js.gz": b"as gzip",
        "packed.js.zst": b"as zstd",
        "picture.png": b"png",
        "picture.png.gz": b"never",
    }.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(content)
        os.utime(site / name, (WHEN, WHEN))
    (tmp_path / "secret").write_text("secret")
    (site / "link").symlink_to("../secret")
    (site / "inside").symlink_to("small.txt")
    os.mkfifo(site / "fifo")
    (site / "device").symlink_to("/dev/zero")
    return site


@pytest.fixture
def served(start, site):
    """A client of a server with files below /static."""
    return start.client(start(app, static={"/static": site}))


def get(client, path, method="GET", **fields):
    """(status, headers, body)"""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    client.send(f"{method} {path} HTTP/1.1\r\nHost: test\r\n{lines}\r\n".encode("latin-1"))
    return client.response(method == "HEAD")


@pytest.mark.parametrize(
    ("name", "content"), [("small.txt", SMALL), ("large.bin", LARGE), ("empty.css", b"")]
)
def test_file_is_sent_with_validators(served, name, content):
    for _ in range(2):
        status, headers, body = get(served, f"/static/{name}")
        assert (status, body) == (200, content)
        assert headers["content-length"] == str(len(content)) and headers["last-modified"] == DATE
        assert re.fullmatch(r'"[0-9a-f]+-[0-9a-f]+"', headers["etag"])
        assert headers["accept-ranges"] == "bytes" and headers["cache-control"] == "max-age=0"
        assert get(served, f"/static/{name}", "HEAD")[:2] == (200, headers)


def test_application_answers_all_other_paths(served):
    for path in ("/", "/stat", "/statics/small.txt", "/x/static/small.txt"):
        assert get(served, path)[2] == path.encode()


def test_longest_prefix_counts_and_root_leaves_the_rest_to_the_application(start, site):
    mounts = {"/": site, "/static/": site / "sub", "/static/deep": site / "bare"}
    client = start.client(start(app, static=mounts))
    assert get(client, "/small.txt")[2] == SMALL
    assert get(client, "/")[2] == b"<h1>top</h1>" and get(client, "/static/")[2] == b"<h1>sub</h1>"
    assert get(client, "/static/deep/file.html")[2] == b"<p>"
    assert get(client, "/static/small.txt")[0] == 404
    for path in ("/missing", "/.hidden", "/a/../b", "/bare/", "/link", "//etc/passwd"):
        assert get(client, path)[1]["x-from"] == "application"
    assert get(client, "/small.txt", "POST", Content_Length=0)[1]["x-from"] == "application"


@pytest.mark.parametrize(
    "path",
    [
        *"/../secret /%2e%2e/secret /sub/../../secret /sub/%2e%2e%2f%2e%2e/secret /..%2fsecret /link".split(),
        *"/sub/..%5c..%5csecret /..\\secret /small.txt%00 /%00 /%00.html //etc/passwd /%2fetc/passwd".split(),
        *"/./small.txt /sub//index.html /.hidden /.git/config /sub/.%2fx /fifo /device /small.txt/".split(),
        *"/small.txt/more /missing /bare/ /%ff%fe /sub/../small.txt".split(),
        "/" + "x" * 300,
        "/" + "x/" * 2500,
    ],
)
@pytest.mark.parametrize("how", ["kernel", "parts"])
def test_nothing_else_is_sent(served, path, how):
    was = walk_parts(how == "parts")
    try:
        status, _, body = get(served, f"/static{path}")
    finally:
        walk_parts(was)
    assert status == 404 and body == b"404 Not Found\n"


@needs_openat2
def test_link_inside_the_directory_is_followed(served):
    assert get(served, "/static/inside")[2] == SMALL


def test_names_in_utf_8(served):
    assert get(served, "/static/a%20b%C3%BC.txt")[2] == b"utf-8"


def test_prefix_in_utf_8(start, site):
    client = start.client(start(app, static={"/\u00e9t\u00e9": site}))
    assert get(client, "/%C3%A9t%C3%A9/small.txt")[2] == SMALL


def test_directory_has_its_index_behind_a_slash(served):
    assert get(served, "/static/sub/")[2] == b"<h1>sub</h1>"
    for path, target in {
        "/static/sub": "/static/sub/",
        "/static": "/static/",
        "/static/sub?a=b": "/static/sub/?a=b",
    }.items():
        status, headers, _ = get(served, path)
        assert (status, headers["location"]) == (301, target)
    assert get(served, "/static/bare")[0] == 404


def test_redirect_keeps_bytes_that_a_field_must_not_have(start, site):
    (site / "a\r\nSet-Cookie: b").mkdir()
    (site / "a\r\nSet-Cookie: b" / "index.html").write_text("x")
    status, headers, _ = get(
        start.client(start(app, static={"/static": site})), "/static/a%0d%0aSet-Cookie:%20b"
    )
    assert status == 301 and "set-cookie" not in headers
    assert headers["location"] == "/static/a%0D%0ASet-Cookie%3A%20b/"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PURGE"])
def test_other_methods_are_not_allowed(served, method):
    status, headers, _ = get(served, "/static/small.txt", method, Content_Length=0)
    assert (status, headers["allow"]) == (405, "GET, HEAD")


# -- conditions -------------------------------------------------------------------------------------------


EARLIER, LATER = "Tue, 14 Nov 2023 22:13:19 GMT", "Tue, 14 Nov 2023 22:13:21 GMT"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"If_None_Match": "ETAG"}, 304),
        ({"If_None_Match": "W/ETAG"}, 304),
        ({"If_None_Match": '"a,b", W/"c", ETAG'}, 304),
        ({"If_None_Match": "*"}, 304),
        ({"If_None_Match": '"other"'}, 200),
        ({"If_None_Match": "nonsense"}, 200),
        ({"If_Modified_Since": DATE}, 304),
        ({"If_Modified_Since": LATER}, 304),
        ({"If_Modified_Since": EARLIER}, 200),
        ({"If_Modified_Since": "yesterday"}, 200),
        ({"If_Modified_Since": "Tuesday, 14-Nov-23 22:13:20 GMT"}, 304),
        ({"If_Modified_Since": "Tue Nov 14 22:13:20 2023"}, 304),
        ({"If_None_Match": '"other"', "If_Modified_Since": DATE}, 200),
        ({"If_Match": "ETAG"}, 200),
        ({"If_Match": "*"}, 200),
        ({"If_Match": "W/ETAG"}, 412),
        ({"If_Match": '"other"'}, 412),
        ({"If_Unmodified_Since": DATE}, 200),
        ({"If_Unmodified_Since": EARLIER}, 412),
        ({"If_Match": "ETAG", "If_Unmodified_Since": EARLIER}, 200),
        ({"If_Match": "ETAG", "If_None_Match": "ETAG"}, 304),
        ({"If_None_Match": "ETAG", "Range": "bytes=0-1"}, 304),
        ({"If_Match": '"other"', "Range": "bytes=0-1"}, 412),
    ],
)
def test_conditions(served, fields, status):
    etag = get(served, "/static/small.txt", "HEAD")[1]["etag"]
    for method in ("GET", "HEAD"):
        answer = get(
            served, "/static/small.txt", method, **{k: v.replace("ETAG", etag) for k, v in fields.items()}
        )
        assert answer[0] == status
        if status == 304:
            assert answer[1]["etag"] == etag and answer[1]["cache-control"] == "max-age=0"
            assert "content-length" not in answer[1] and "content-type" not in answer[1]


def test_changed_file_has_another_etag_at_once(served, site):
    first = get(served, "/static/small.txt")[1]["etag"]
    (site / "small.txt").write_bytes(SMALL[::-1])
    status, headers, body = get(served, "/static/small.txt", If_None_Match=first)
    assert status == 200 and body == SMALL[::-1] and headers["etag"] != first


def test_last_modified_is_never_in_the_future(served, site):
    os.utime(site / "small.txt", (4_000_000_000, 4_000_000_000))
    assert "2096" not in get(served, "/static/small.txt")[1]["last-modified"]


# -- ranges -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=5-9", 5, 9),
        ("bytes=5-", 5, None),
        ("bytes=-5", -5, None),
        ("bytes=-99999999", 0, None),
        ("bytes=10-99999999", 10, None),
        ("BYTES=5-9", 5, 9),
        ("bytes= 5-9 , ", 5, 9),
        ("bytes=5-9,99999999-", 5, 9),
    ],
)
def test_one_range(served, text, content, first, last):
    name = "small.txt" if content is SMALL else "large.bin"
    first = first % len(content) if first else 0
    last = len(content) - 1 if last is None else last
    status, headers, body = get(served, f"/static/{name}", Range=text)
    assert (status, body) == (206, content[first : last + 1])
    assert headers["content-range"] == f"bytes {first}-{last}/{len(content)}"
    assert headers["content-length"] == str(len(body)) and "etag" in headers
    status, headers, _ = get(served, f"/static/{name}", "HEAD", Range=text)
    assert status == 200 and headers["content-length"] == str(len(content))


@pytest.mark.parametrize("text", ["bytes=36-", "bytes=99-100", "bytes=-0", "bytes=40-,50-"])
def test_range_behind_the_end_is_not_satisfiable(served, text):
    status, headers, _ = get(served, "/static/small.txt", Range=text)
    assert (status, headers["content-range"]) == (416, "bytes */36")


@pytest.mark.parametrize(
    "text",
    [
        "bytes=5-2",
        "bytes=a-b",
        "bytes=1-2-3",
        "bytes=-",
        "bytes 1-2",
        "lines=1-2",
        "bytes=+1-2",
        "bytes=1-2;3-4",
        "bytes=" + "9" * 30 + "-",
        "bytes=0-,0-,0-",
        "bytes=" + ",".join("0-0" for _ in range(MOST_RANGES + 1)),
    ],
)
def test_range_that_is_ignored(served, text):
    assert get(served, "/static/small.txt", Range=text)[::2] == (200, SMALL)


@pytest.mark.parametrize(
    ("condition", "status"),
    [("ETAG", 206), (DATE, 206), ("W/ETAG", 200), ('"other"', 200), (LATER, 200), (EARLIER, 200)],
)
def test_if_range(served, condition, status):
    etag = get(served, "/static/small.txt", "HEAD")[1]["etag"]
    fields = {"Range": "bytes=0-1", "If_Range": condition.replace("ETAG", etag)}
    assert get(served, "/static/small.txt", **fields)[0] == status


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
def test_several_ranges(served, content):
    name = "small.txt" if content is SMALL else "large.bin"
    status, headers, body = get(served, f"/static/{name}", Range="bytes=0-3, 10-12,-2")
    boundary = re.fullmatch("multipart/byteranges; boundary=(.+)", headers["content-type"])[1].encode()
    assert status == 206 and headers["content-length"] == str(len(body)) and "content-range" not in headers
    before, *parts, after = body.split(b"--" + boundary)
    assert (before, after) == (b"", b"--\r\n")
    size = len(content)
    for part, (first, last) in zip(parts, [(0, 3), (10, 12), (size - 2, size - 1)], strict=True):
        head, _, data = part.partition(b"\r\n\r\n")
        assert data == content[first : last + 1] + b"\r\n"
        assert f"Content-Range: bytes {first}-{last}/{size}".encode() in head
        assert (b"Content-Type: text/plain; charset=utf-8" in head) == (content is SMALL)


# -- codings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "coding", "content"),
    [
        ("gzip, deflate, br, zstd", "br", b"as brotli"),
        ("gzip, zstd;q=0.9", "gzip", b"as gzip"),
        ("zstd", "zstd", b"as zstd"),
        ("*;q=0.1, br;q=0", "zstd", b"as zstd"),
        ("identity", None, b"plain" * 50),
        ("br;q=0", None, b"plain" * 50),
        ("deflate", None, b"plain" * 50),
    ],
)
def test_compressed_sibling(served, field, coding, content):
    status, headers, body = get(served, "/static/packed.js", Accept_Encoding=field)
    assert (status, headers.get("content-encoding"), body) == (200, coding, content)
    assert headers["vary"] == "Accept-Encoding" and headers["content-type"].startswith("text/javascript")
    assert headers["content-length"] == str(len(content))


def test_each_coding_has_an_etag_of_its_own(served):
    answers = [get(served, "/static/packed.js", Accept_Encoding=coding)[1] for coding in ("br", "gzip", "a")]
    assert len({answer["etag"] for answer in answers}) == 3
    again = get(served, "/static/packed.js", Accept_Encoding="br", If_None_Match=answers[0]["etag"])
    assert again[0] == 304 and again[1]["vary"] == "Accept-Encoding" and "content-encoding" not in again[1]
    assert (
        get(served, "/static/packed.js", Accept_Encoding="gzip", If_None_Match=answers[0]["etag"])[0] == 200
    )


def test_missing_sibling_and_types_that_do_not_gain(served):
    _, headers, body = get(served, "/static/small.txt", Accept_Encoding="br, gzip")
    assert body == SMALL and headers["vary"] == "Accept-Encoding" and "content-encoding" not in headers
    _, headers, body = get(served, "/static/picture.png", Accept_Encoding="br, gzip")
    assert body == b"png" and "vary" not in headers
    assert get(served, "/static/packed.js.gz")[1]["content-type"] == "application/gzip"


@pytest.mark.parametrize(
    ("name", "kind"),
    {
        "a.html": "text/html; charset=utf-8",
        "a/b.c/x.CSS": "text/css; charset=utf-8",
        "a.mjs": "text/javascript; charset=utf-8",
        "a.json": "application/json",
        "a.svg": "image/svg+xml",
        "a.wasm": "application/wasm",
        "a.woff2": "font/woff2",
        "a.png": "image/png",
        "a.pdf": "application/pdf",
        "a.tar.gz": "application/gzip",
        "a.js.br": "application/x-brotli",
        "x:a.png": "image/png",
        "Makefile": "application/octet-stream",
        "a.b/c": "application/octet-stream",
        "a.unknown-thing": "application/octet-stream",
    }.items(),
)
def test_media_types(name, kind):
    assert media_type(name) == kind


# -- errors ----------------------------------------------------------------------------------------------


def test_time_for_caches(start, site):
    client = start.client(start(app, static={"/static": site}, static_max_age=3600))
    assert get(client, "/static/small.txt")[1]["cache-control"] == "max-age=3600"
    with pytest.raises(ValueError, match="static_max_age must be a number of seconds, not -1"):
        Server(app, static={"/static": site}, static_max_age=-1)


def test_directory_and_prefix_are_checked_at_once(site):
    with pytest.raises(ValueError, match="missing is not a directory"):
        Server(app, static={"/static": site / "missing"})
    with pytest.raises(ValueError, match="must begin with a slash"):
        Server(app, static={"static": site})


def test_directory_that_is_replaced_is_noticed(start, site, tmp_path, monkeypatch):
    monkeypatch.setattr("syncless.http.content.static.directory.LOOK_AGAIN", 0)
    (tmp_path / "current").symlink_to(site)
    client = start.client(start(app, static={"/static": tmp_path / "current"}))
    assert get(client, "/static/small.txt")[2] == SMALL
    (tmp_path / "next").mkdir()
    (tmp_path / "next" / "small.txt").write_bytes(b"next release")
    (tmp_path / "new").symlink_to(tmp_path / "next")
    os.rename(tmp_path / "new", tmp_path / "current")
    assert get(client, "/static/small.txt")[2] == b"next release"


def test_directory_that_goes_and_comes_back(start, site, monkeypatch):
    """As by a build that begins with the removal of the last one."""
    monkeypatch.setattr("syncless.http.content.static.directory.LOOK_AGAIN", 0)
    client = start.client(start(app, static={"/static": site}))
    assert get(client, "/static/small.txt")[2] == SMALL
    aside = site.rename(site.parent / "aside")
    assert get(client, "/static/small.txt")[0] == 404
    aside.rename(site)
    assert get(client, "/static/small.txt")[2] == SMALL


def test_long_paths_are_not_remembered(site):
    files = StaticFiles({"/static": site})
    for path in ("/static/small.txt", "/static/" + "x" * LONGEST):
        files.answer(EnvironRequest({"REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": path}))
    assert files._remembered.cache_info().currsize == 1


def test_unreadable_file_is_forbidden(start, site, monkeypatch):
    refuse(monkeypatch, errno.EACCES)
    assert get(start.client(start(app, static={"/static": site})), "/static/small.txt")[0] == 403


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_without_descriptors_the_client_may_come_again(start, site, monkeypatch, number):
    refuse(monkeypatch, number)
    status, headers, _ = get(start.client(start(app, static={"/static": site})), "/static/small.txt")
    assert (status, headers["retry-after"]) == (503, "1")


def test_broken_disk_is_an_error_of_the_server(start, site, monkeypatch, errors):
    refuse(monkeypatch, errno.EIO)
    server = start(app, static={"/static": site}, error_log=errors)
    assert get(start.client(server), "/static/small.txt")[0] == 500
    assert "Error in GET /static/small.txt" in errors.getvalue()


def refuse(monkeypatch, number):
    monkeypatch.setattr("syncless.http.content.static.directory._open", lambda *names, **more: number)


@pytest.mark.parametrize("extra", [{}, {"Range": "bytes=0-9,20000000-"}], ids=["whole", "ranges"])
def test_file_that_shrinks_resets_the_connection(start, site, errors, extra):
    path = site / "huge.bin"
    with open(path, "wb") as file:
        file.truncate(30_000_000)
    server = start(app, static={"/static": site}, error_log=errors)
    client = start.client(server)
    lines = "".join(f"{name}: {value}\r\n" for name, value in extra.items())
    client.send(f"GET /static/huge.bin HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())
    client._more()  # the answer is on its way
    os.truncate(path, 1000)
    assert client.response()[2] is None
    assert eventually(lambda: "became shorter while it was sent" in errors.getvalue())


def test_client_that_leaves_costs_no_descriptor(start, site):
    server = start(app, static={"/static": site})
    with open(site / "huge.bin", "wb") as file:
        file.truncate(30_000_000)
    fds = len(os.listdir("/proc/self/fd"))
    for method, fields in (("GET", {}), ("HEAD", {}), ("GET", {"Range": "bytes=0-9,20000000-"})):
        with Client(server.address) as client:
            lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
            client.send(f"{method} /static/huge.bin HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())
            client._more()
    get(start.client(server), "/static/small.txt")
    start_fds = fds + 3  # the directory, and both ends of this client
    assert eventually(lambda: len(os.listdir("/proc/self/fd")) <= start_fds)


@pytest.mark.parametrize("mode", ["pool", "direct"])
def test_files_are_read_in_threads_where_the_disk_is_slow(start, site, mode):
    was = filesystems.set_mode(mode)
    try:
        client = start.client(start(app, static={"/static": site}))
        assert get(client, "/static/small.txt")[2] == SMALL
        assert get(client, "/static/large.bin")[2] == LARGE
        assert get(client, "/static/large.bin", Range="bytes=1-2,4-5")[0] == 206
        assert get(client, "/static/missing")[0] == 404
    finally:
        filesystems.set_mode(was)


def evict(path):
    """The file leaves memory, if its file system lets it."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def is_evicted(path):
    """Linux begins to read what it is asked for, so it soon is not."""
    with open(path, "rb") as file:
        try:
            os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except OSError as error:
            return error.errno == errno.EAGAIN
    return False


@pytest.mark.parametrize("range_", [None, (100, 299_999)], ids=["whole", "range"])
def test_large_file_is_brought_into_memory_by_a_thread(start, site, monkeypatch, range_):
    """sendfile would wait for the disk, and all requests with it."""
    path = site / "large.bin"
    client = start.client(start(app, static={"/static": site}))
    brought = []

    def bring_in(fd, *part):
        brought.append((threading.current_thread() is threading.main_thread(), *part))
        filesystems.bring_in(fd, *part)

    monkeypatch.setattr("syncless.http.peer.bring_in", bring_in)
    first, last = range_ or (0, len(LARGE) - 1)

    def ask():
        fields = {"Range": f"bytes={first}-{last}"} if range_ else {}
        assert get(client, "/static/large.bin", **fields)[2] == LARGE[first : last + 1]
        return brought

    assert ask() == []
    if not any((evict(path), is_evicted(path))[1] for _ in range(50)):
        pytest.skip("this file system keeps its files in memory, or does not say")
    assert eventually(lambda: (evict(path), ask())[1])
    [(in_the_loop, offset, count)] = brought
    assert not in_the_loop and first <= offset and offset + count == last + 1


def test_files_through_tls(https, site, authority):
    from tests.authority import answer_of

    server = https(app, static={"/static": site})
    request = b"GET /static/large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    answer = syncless.run_in_thread(answer_of, server, authority.context, request)
    assert answer.partition(b"\r\n\r\n")[2] == LARGE


def test_answers_are_logged_and_counted(start, site):
    log = io.StringIO()
    server = start(app, static={"/static": site}, access_log=log, access_log_format="%m %U %s %B")
    client = start.client(server)
    for path in ("small.txt", "large.bin", "missing"):
        get(client, f"/static/{path}")
    assert server.requests == 3
    assert eventually(lambda: log.getvalue().count("\n") == 3)
    assert log.getvalue().split("\n")[:3] == [
        "GET /static/small.txt 200 36",
        "GET /static/large.bin 200 512000",
        "GET /static/missing 404 14",
    ]


def test_command_serves_files_and_says_what_is_wrong(site, tmp_path):
    (tmp_path / "hello.py").write_text(
        "def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'app']\n"
    )
    (tmp_path / "syncless.toml").write_text(
        f'application = "hello:app"\nstatic-max-age = 60\n[static]\n"/assets" = "{site}"\n'
    )
    command = [sys.executable, "-m", "syncless"]

    def told(*options):
        done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    assert told("--check")[0] == 0
    assert (
        told("--static", "static=x", "--check")[1]
        .strip()
        .endswith("--static: write /PREFIX=DIR, not 'static=x'")
    )
    status, text = told("--static", "/s=missing", "--check")
    assert status == 2 and "missing is not a directory of static files" in text
    assert '[static]  # command line\n"/assets"' in told("--static", "/s=site", "--print-config")[1]
    running = subprocess.Popen(
        [*command, "--static", "/s=site", "--workers", "1", "--bind", "127.0.0.1:0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = int(re.search(r":(\d+)/", running.stdout.readline())[1])
        with Client(("127.0.0.1", port)) as client:
            for prefix in ("/assets", "/s"):
                status, headers, body = get(client, f"{prefix}/small.txt")
                assert (status, headers["cache-control"], body) == (200, "max-age=60", SMALL)
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait()
        running.stdout.close()
