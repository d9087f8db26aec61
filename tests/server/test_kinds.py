"""Which kind of application is served, and several at once."""

import asyncio
import functools
import io

import pytest

import syncless
from syncless.apps.loading import ApplicationFailed
from syncless.wsgi import Server
from tests.asgi.test_http import START, http, saying
from tests.waiting import eventually

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("background")]


def wsgi(environ, start_response):
    start_response("200 OK", [])
    return [f"wsgi {environ['SCRIPT_NAME']}|{environ['PATH_INFO']}".encode()]


class Callable:
    async def __call__(self, scope, receive, send):
        await saying(b"asgi")(scope, receive, send)


def plain(scope, receive, send):
    """Gives a coroutine, as its signature does not tell."""
    return saying(b"asgi")(scope, receive, send)


@pytest.mark.parametrize(
    "app", [saying(b"asgi"), Callable(), functools.partial(functools.partial(saying(b"asgi")))]
)
def test_asgi_is_known_by_its_signature(start, app):
    assert start.client(start(app)).get()[2] == b"asgi"


def test_interface_says_what_the_signature_does_not(start):
    assert start.client(start(plain, interface="asgi")).get()[2] == b"asgi"
    assert start.client(start(wsgi, interface="wsgi")).get()[2] == b"wsgi |/"
    with pytest.raises(ValueError, match="interface must be one of auto, asgi, wsgi, not 'rsgi'"):
        Server(wsgi, interface="rsgi")


def test_asgi_2_is_refused_with_a_sentence():
    class Double:
        def __init__(self, scope):
            pass

        async def __call__(self, receive, send):
            pass

    with pytest.raises(TypeError, match=r"(?s)ASGI 2 .*guarantee_single_callable"):
        Server(Double)


# -- several -------------------------------------------------------------------------------------------------


def where():
    async def answer(scope, receive, send):
        await send(START)
        body = f"asgi {scope['root_path']}|{scope['path']}".encode()
        await send({"type": "http.response.body", "body": body})

    return http(answer)


def test_both_kinds_in_one_server(start):
    client = start.client(start({"/api": where(), "/api/old": wsgi, "/": wsgi}))
    for _ in range(3):  # on one connection, whose heads are not mixed up
        assert client.get("/")[2] == b"wsgi |/"
        assert client.get("/apix")[2] == b"wsgi |/apix"
        assert client.get("/api")[2] == b"asgi /api|/api"
        assert client.get("/api/x")[2] == b"asgi /api|/api/x"
        assert client.get("/%61pi/x")[2] == b"asgi /api|/api/x"
        assert client.get("/api/old/y")[2] == b"wsgi /api/old|/y"


@pytest.mark.parametrize("limit", ["body", "busy"])
def test_refused_request_is_logged_below_its_mount_and_root_path(start, limit):
    """As one that the application has answered."""
    log, end = io.StringIO(), syncless.Event()

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/wait":
            end.wait()
        return wsgi(environ, start_response)

    server = start(
        {"/m\u00e4nner": app, "/": app},
        root_path="/api",
        access_log=log,
        access_log_format="%>s %{SCRIPT_NAME}e|%{PATH_INFO}e %U",
        body_bytes=10,
        requests=1,
        queued=0,
    )
    client, waiting = start.client(server), start.client(server)
    length = 11 if limit == "body" else 0
    if limit == "busy":
        waiting.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
        assert eventually(lambda: server.census()["active"])
    for path in ("/m%C3%A4nner/x", "/y"):
        client = start.client(server)
        client.send(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n".encode())
        assert client.response()[0] == (413 if limit == "body" else 503)
    assert eventually(lambda: log.getvalue().count("\n") == 2)
    status = 413 if limit == "body" else 503
    assert log.getvalue().splitlines() == [
        rf"{status} /api/m\xc3\xa4nner|/x /api/m%C3%A4nner/x",
        f"{status} /api|/y /api/y",
    ]
    end.set()


def test_static_files_lie_beside_mounts_and_behind_a_root_path(start, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "index.html").write_text("index")
    (tmp_path / "file").write_text("file")
    server = start({"/old": wsgi, "/": wsgi}, root_path="/api", static={"/old/static": str(tmp_path)})
    client = start.client(server)
    assert client.get("/old/static/file")[2] == b"file"
    assert client.get("/old/static/folder")[1]["location"] == "/api/old/static/folder/"
    assert client.get("/static/file")[2] == b"wsgi /api|/static/file"
    assert client.get("/old/file")[2] == b"wsgi /api/old|/file"


def test_all_kinds_see_the_same_fields(background, start):
    """`Proxy` and names with an underscore reach none, nor the log; so do untrusted forwarded fields."""

    async def fields(scope, receive, send):
        names = sorted({name.decode() for name, _ in scope["headers"]})
        await send({**START, "headers": []})
        await send({"type": "http.response.body", "body": ",".join(names).encode()})

    def variables(environ, start_response):
        names = (key[5:].lower().replace("_", "-") for key in environ if key.startswith("HTTP_"))
        start_response("200 OK", [])
        return [",".join(sorted(names)).encode()]

    log = io.StringIO()
    names = ("Proxy", "X-Own", "X-Under", "X-Forwarded-Odd", "Forwarded")
    server = start(
        {"/asgi": fields, "/": variables},
        lifespan="off",
        access_log=log,
        access_log_format=" ".join(f"%{{{name}}}i" for name in names),
    )
    client = start.client(server)
    head = "".join(f"{name.replace('X-Under', 'X_Under')}: 1\r\n" for name in names)
    for path in ("/", "/asgi"):
        for proxy in ("Proxy", "PROXY", "pRoXy"):
            assert client.get(path, head.replace("Proxy", proxy, 1))[2] == b"host,x-own"
    assert eventually(lambda: log.getvalue().count("\n") == 6)
    assert log.getvalue() == "- 1 - - -\n" * 6


def test_nothing_is_mounted_there(start):
    status, _, body = start.client(start({"/api": where()})).get("/other")
    assert status == 404 and b"No application is mounted" in body


@pytest.mark.parametrize("prefixes", [["api"], ["/a//b"], ["/a", "/a/"]])
def test_wrong_prefixes(prefixes):
    with pytest.raises(ValueError, match=r"mounted at a path|two applications"):
        Server(dict.fromkeys(prefixes, wsgi))


# -- lifespan ------------------------------------------------------------------------------------------------


class Living:
    """Has a lifespan."""

    def __init__(self, **fails):
        self.told = []
        self.fails = fails

    async def __call__(self, scope, receive, send):
        if scope["type"] != "lifespan":
            scope["state"]["own"] = 1
            scope["state"]["list"].append(len(scope["state"]))
            await saying(repr(sorted(scope["state"])).encode())(scope, receive, send)
            return
        scope["state"]["list"] = self.told
        for moment in ("startup", "shutdown"):
            message = await receive()
            assert message == {"type": f"lifespan.{moment}"}
            self.told.append(moment)
            if moment in self.fails:
                if self.fails[moment] == "raise":
                    raise ZeroDivisionError
                await send({"type": f"lifespan.{moment}.failed", "message": self.fails[moment]})
                return
            await send({"type": f"lifespan.{moment}.complete"})
        await asyncio.sleep(0.01)  # the server waits for its end, too
        self.told.append("end")


def test_lifespan_and_its_state(start):
    app = Living()
    server = start(app)
    client = start.client(server)
    for _ in range(2):  # a shallow copy for each request
        assert client.get()[2] == b"['list', 'own']"
    server.stop()
    assert app.told == ["startup", 2, 2, "shutdown", "end"]


def test_each_of_several_has_its_lifespan(start):
    one, other = Living(), Living()
    server = start({"/one": one, "/other": other})
    server.stop()
    assert one.told == other.told == ["startup", "shutdown", "end"]


@pytest.mark.parametrize("fails", ["no database", "raise"])
def test_start_fails_if_the_application_says_so(fails):
    server = Server(Living(startup=fails), port=0)
    with pytest.raises(ApplicationFailed, match="no database" if fails != "raise" else "ZeroDivisionError"):
        server.start()
    assert server.addresses == []


def test_failure_at_the_end_is_told(start, capsys):
    server = start(Living(shutdown="disk full"))
    server.stop()
    assert "disk full" in capsys.readouterr().err


def test_application_without_a_lifespan_is_served(start):
    async def app(scope, receive, send):  # takes every scope for a request
        await receive()
        await saying()(dict(scope, type="http"), receive, send)

    assert start.client(start(app)).get()[2] == b"hello"


def test_unknown_message_in_a_lifespan_is_refused(start):
    told = []

    async def app(scope, receive, send):
        if scope["type"] != "lifespan":
            await saying()(scope, receive, send)
            return
        try:
            await send({"type": "lifespan.startup.done"})
        except RuntimeError as error:
            told.append(str(error))
            raise

    assert start.client(start(app)).get()[2] == b"hello"
    assert "'lifespan.startup.done'" in told[0]


# -- static files, compression -------------------------------------------------------------------------------


def test_static_files_beside_an_asgi_application(start, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"x" * 100000)
    client = start.client(start(saying(), static={"/files": tmp_path}))
    assert client.get("/files/a.txt")[2] == b"x" * 100000
    assert client.get("/files/none")[0] == 404
    assert client.get("/")[2] == b"hello"


def test_compress_is_refused():
    with pytest.raises(ValueError, match="GZipMiddleware"):
        Server(saying(), port=0, compress=True).start()
