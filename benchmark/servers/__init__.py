"""The servers that are compared, each started by one command; and why one is absent where it is."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable

from benchmark.measure import CORES, LOAD_CORE, cpu_ns, pinned, private_bytes
from benchmark.servers import apps, websocketclient
from benchmark.servers.asgi_peers import ASGI_PEERS, CALLING, HTTP2
from benchmark.servers.coroutines import COROUTINES
from benchmark.servers.peer import Absent, Peer, package_version

HERE = pathlib.Path(__file__).parent
BUILD = HERE.parent.parent / "build" / "benchmark"
BODY = b"Hello, World!"
START_SECONDS = 60
"""For which a server may take to answer: on a busy machine a framework is imported for long."""


HELD = ("held c", "held python")
ARENA = ("sum", "items", "upload", "database")
FRAMEWORKS = ("flask", "django", "django database")
WSGI = ("hello", "logged", "sleep", "json", "big", "fib", "fib native", *FRAMEWORKS, *HELD, *ARENA)
SILENT = tuple(name for name in WSGI if name != "logged")
"""of servers that have no access log of their own"""


def _python(script: str, package: str, applications: tuple[str, ...] = WSGI) -> Peer:
    return Peer(
        package,
        lambda port, app: [sys.executable, str(HERE / script), str(port), app],
        package_version(package),
        applications,
    )


def _wsgi(name: str, package: str, applications: tuple[str, ...] = WSGI) -> Peer:
    """One of those that run_wsgi.py knows."""
    return Peer(
        name,
        lambda port, app: [sys.executable, str(HERE / "run_wsgi.py"), name, str(port), app],
        package_version(package),
        applications,
    )


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _compiled_c(name: str) -> pathlib.Path:
    target = BUILD / name
    sources = (HERE / f"{name}.c", HERE / "loopback.h")
    if not target.exists() or target.stat().st_mtime < max(each.stat().st_mtime for each in sources):
        BUILD.mkdir(parents=True, exist_ok=True)
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", target, HERE / f"{name}.c"], check=True)
    return target


def _floor(name: str, program: str = "floor", *options: str, application: str = "hello") -> Peer:
    return Peer(
        name,
        lambda port, app: [str(_compiled_c(program)), str(port), *options],
        lambda: "C, parses nothing" if program == "floor_uring" else "C, epoll, parses nothing",
        (application,),
    )


def compile_native() -> None:
    """fibonacci_native, which the applications import from BUILD."""
    source, target = (
        HERE / "fibonacci_native.pyx",
        BUILD / f"fibonacci_native{sysconfig.get_config_var('EXT_SUFFIX')}",
    )
    if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
        return
    if importlib.util.find_spec("Cython") is None:
        raise Absent("Cython is not installed")
    BUILD.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-m", "cython", "-o", BUILD / "fibonacci_native.c", source],
        check=True,
        capture_output=True,
    )
    include = sysconfig.get_path("include")
    compiler = os.environ.get("CC", "cc")
    subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", f"-I{include}", "-o", target, BUILD / "fibonacci_native.c"],
        check=True,
    )


GO = shutil.which("go") or ("/usr/local/go/bin/go" if os.path.exists("/usr/local/go/bin/go") else None)


def _go_version(name: str) -> Callable[[], str]:
    def version() -> str:
        if GO is None:
            raise Absent("there is no Go compiler")
        BUILD.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [GO, "build", "-o", BUILD / name, "."], cwd=HERE / name, capture_output=True, text=True
        )
        if done.returncode:
            raise Absent(f"go build failed: {done.stderr.strip().splitlines()[-1]}")
        return _output(GO, "version").split()[2]

    return version


def _node_version() -> str:
    if shutil.which("node") is None:
        raise Absent("node is not installed")
    return _output("node", "--version")


def _meinheld() -> Peer:
    """It does not compile on Python 3.10 and later: BENCHMARK_MEINHELD_PYTHON names an interpreter that has
    it."""
    python = os.environ.get("BENCHMARK_MEINHELD_PYTHON", "")

    def version() -> str:
        if not python:
            raise Absent(
                "it needs Python 3.9 or older; BENCHMARK_MEINHELD_PYTHON=/path/to/python that has it"
            )
        return _output(
            python,
            "-c",
            "import meinheld, platform; print(meinheld.__version__, 'on Python', platform.python_version())",
        )

    return Peer(
        "meinheld",
        lambda port, app: [python, str(HERE / "run_meinheld.py"), str(port), app],
        version,
        ("hello", "logged", "json", "big", "fib"),
    )


def _uwsgi(*options: str, socket: str = "--http11-socket") -> Callable[[int, str], list[str]]:
    """uWSGI with the file served.py, or another that the options name."""
    uwsgi = str(pathlib.Path(sys.executable).with_name("uwsgi"))
    file = () if "--wsgi-file" in options else ("--wsgi-file", str(HERE / "served.py"))
    common = (
        "--listen",
        "100",
        "--chdir",
        str(HERE),
        "--pythonpath",
        str(HERE),
        "--need-app",
        "--die-on-term",
    )
    if "VIRTUAL_ENV" in os.environ or sys.prefix != sys.base_prefix:
        common += ("--home", sys.prefix)
    quiet = "--disable-logging"
    return lambda port, app: [
        uwsgi,
        socket,
        f"127.0.0.1:{port}",
        *common,
        *file,
        *options,
        *((quiet,) if app != "logged" else ()),
    ]


def _uwsgi_version(asynchronous: bool = False) -> Callable[[], str]:
    def version() -> str:
        uwsgi = pathlib.Path(sys.executable).with_name("uwsgi")
        if not uwsgi.exists():
            raise Absent("uWSGI is not installed")
        if (
            asynchronous
            and "--asyncio" not in subprocess.run([uwsgi, "--help"], capture_output=True, text=True).stdout
        ):
            raise Absent("this uWSGI was built without asyncio: UWSGI_PROFILE=asyncio pip install uwsgi")
        return _output(str(uwsgi), "--version")

    return version


def _native_version() -> str:
    compile_native()
    return "the computing part without the interpreter's lock"


def _several(number: int) -> list[Peer]:
    """Servers that use several cores: by processes, or by the threads of Go."""
    count = str(number)
    hello = ("hello", "fib")
    return [
        Peer(
            f"syncless, {count} workers",
            lambda port, app: [sys.executable, str(HERE / "run_syncless.py"), str(port), app, count],
            package_version("syncless"),
            WSGI,
            cores=number,
        ),
        Peer(
            f"syncless, {count} workers, Cython",
            lambda port, app: [sys.executable, str(HERE / "run_syncless.py"), str(port), "fib native", count],
            _native_version,
            ("fib",),
            cores=number,
        ),
        *(
            Peer(
                f"go {name}, {count}",
                lambda port, app, name=name: [str(BUILD / name), str(port), app, count],  # type: ignore[misc]
                _go_version(name),
                hello,
                cores=number,
            )
            for name in ("nethttp", "fasthttp")
        ),
        Peer(
            f"node cluster, {count}",
            lambda port, app: ["node", str(HERE / "run_node.js"), str(port), app, count],
            _node_version,
            hello,
            cores=number,
        ),
        Peer(
            f"uvloop protocol, {count}",
            lambda port, app: [sys.executable, str(HERE / "run_uvloop.py"), str(port), app, count],
            package_version("uvloop"),
            hello,
            cores=number,
        ),
        Peer(
            f"lwan, {count}",
            lambda port, app: [str(BUILD / "lwan"), str(port), count],
            _lwan,
            ("hello",),
            cores=number,
        ),
        _native(f"syncless native, {count}", number),
    ]


def _lwan() -> str:
    """Links its hello with a library that has been built: BENCHMARK_LWAN names the source, where the folder
    `build` is cmake's."""
    source = pathlib.Path(os.environ.get("BENCHMARK_LWAN", ""))
    if not source.name:
        raise Absent("BENCHMARK_LWAN=/path/to/lwan, with its library in build/ by cmake and make")
    BUILD.mkdir(parents=True, exist_ok=True)
    target = BUILD / "lwan"
    command = [os.environ.get("CC", "cc"), "-O3", "-std=gnu11", f"-I{source / 'src' / 'lib'}"]
    command += [f"-I{source / 'build'}", "-include", str(source / "build" / "lwan-build-config.h")]
    command += [str(HERE / "lwan.c"), "-Wl,-whole-archive", str(source / "build/src/lib/liblwan.a")]
    command += ["-Wl,-no-whole-archive", "-o", str(target), "-lpthread", "-ldl", "-lm"]
    libraries = [f"-l{name}" for name in ("z", "brotlienc", "brotlidec", "brotlicommon", "zstd")]
    for some in (libraries, libraries[:-1], libraries[:1]):  # as cmake has found them
        done = subprocess.run([*command, *some], capture_output=True, text=True)
        if done.returncode == 0:
            return "from its source"
    raise Absent(f"it cannot be linked: {done.stderr.strip().splitlines()[-1]}")


def _native_library() -> str:
    """The native handlers, compiled."""
    source, target = HERE / "native_handlers.c", BUILD / "native_handlers.so"
    BUILD.mkdir(parents=True, exist_ok=True)
    include = HERE.parent.parent / "syncless" / "native" / "include"
    command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", f"-I{include}"]
    subprocess.run([*command, source, "-o", target], check=True)
    return "in C"


def _native(name: str, threads: int, route: str = "/") -> Peer:
    """Ours with native handlers, on a route."""

    def command(port: int, app: str) -> list[str]:
        library, function = str(BUILD / "native_handlers.so"), "fib" if app == "fib" else "hello"
        script = str(HERE / "run_native.py")
        return [sys.executable, script, library, str(port), route, function, str(threads)]

    return Peer(name, command, _native_library, ("hello", "fib"), cores=threads)


def _slow_log(way: str) -> Peer:
    log = str(BUILD / "slow.log")
    return Peer(
        f"log: {way}",
        lambda port, app: [sys.executable, str(HERE / "run_slowlog.py"), str(port), way, log],
        lambda: "",
        ("slow log",),
    )


def _nghttpd(port: int, application: str) -> list[str]:
    folder = BUILD / application
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_bytes(ANSWERS.get(application, (None, BODY))[1])
    files = [str(path) for path in CERTIFICATE.values()] if application in ENCRYPTED else []
    options = ["--address=127.0.0.1", f"--htdocs={folder}", *([] if files else ["--no-tls"])]
    return ["nghttpd", *options, str(port), *files]


def _nghttpd_version() -> str:
    if shutil.which("nghttpd") is None:
        raise Absent("nghttpd is not installed")
    return _output("nghttpd", "--version").split("/")[-1]


ENCRYPTED = ("http2 tls", "tls")
CERTIFICATE = {"KEYFILE": BUILD / "key.pem", "CERTFILE": BUILD / "cert.pem"}


def make_certificate() -> None:
    """For 127.0.0.1, signed by itself."""
    if not all(path.exists() for path in CERTIFICATE.values()):
        options = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=127.0.0.1"
        command = ["openssl", "req", "-x509", *options.split()]
        files = ["-keyout", str(CERTIFICATE["KEYFILE"]), "-out", str(CERTIFICATE["CERTFILE"])]
        subprocess.run([*command, *files], check=True, capture_output=True)


LATER_LOG = BUILD / "later.log"
_PEERS: tuple[Peer, ...] = (
    _python("run_syncless.py", "syncless", (*WSGI, "echo", "slow", *HTTP2, "tls")),
    *(
        Peer(
            f"syncless, {words}",
            lambda port, app, threads=threads: [
                *(sys.executable, str(HERE / "run_syncless.py"), str(port), app, "0", "", threads)
            ],
            lambda: "patched",
            (*HELD, "hello", "sleep"),
        )
        for threads, words in (("1", "a thread stands by"), ("2", "two threads stand by"))
    ),
    Peer(
        "syncless, no wait recorded",
        lambda port, app: [sys.executable, str(HERE / "run_syncless.py"), str(port), f"{app} unrecorded"],
        package_version("syncless"),
        ("hello", "sleep"),
    ),
    Peer(
        "syncless, select",
        lambda port, app: [sys.executable, str(HERE / "run_syncless.py"), str(port), app],
        package_version("syncless"),
        WSGI,
        {"SYNCLESS_LOOP": "select"},
    ),
    Peer(
        "syncless, access log",
        lambda port, app: [
            sys.executable,
            str(HERE / "run_syncless.py"),
            str(port),
            app,
            "0",
            str(BUILD / "access.log"),
        ],
        lambda: "combined format, to a file",
    ),
    Peer(
        "syncless, raw, select",
        lambda port, app: [sys.executable, str(HERE / "run_raw.py"), str(port), app],
        lambda: "the same, waiting by select",
        ("hello",),
        {"SYNCLESS_LOOP": "select"},
    ),
    Peer(
        "syncless, raw",
        lambda port, app: [sys.executable, str(HERE / "run_raw.py"), str(port), app],
        lambda: "a tasklet for each connection, skips the head",
        ("hello",),
    ),
    *(
        Peer(
            f"syncless, raw, backlog {backlog}",
            lambda port, app, backlog=backlog: [
                sys.executable,
                str(HERE / "run_raw.py"),
                str(port),
                app,
                str(backlog),
            ],  # type: ignore[misc]
            lambda: "",
            ("hello",),
        )
        for backlog in (5, 100, 1024)
    ),
    _floor("floor"),
    _floor("floor, deferred accept", "floor", "defer"),
    _floor("floor, io_uring", "floor_uring"),
    _floor("floor, io_uring, deferred accept", "floor_uring", "defer"),
    _floor("floor, 1 MB", "floor_big", application="big"),
    _floor("floor, 1 MB, MSG_ZEROCOPY", "floor_big", "zerocopy", application="big"),
    Peer(
        "node",
        lambda port, app: ["node", str(HERE / "run_node.js"), str(port), app],
        _node_version,
        ("hello", "sleep", "fib", *ARENA[:3], "tls"),
    ),
    *(
        Peer(
            f"go {name}",
            lambda port, app, name=name: [str(BUILD / name), str(port), app],
            _go_version(name),
            ("hello", "sleep", "fib", *(ARENA[:3] if name == "fasthttp" else ["tls"])),
        )  # type: ignore[misc]
        for name in ("nethttp", "fasthttp")
    ),
    _floor("floor, fibonacci", "floor", "fib", application="fib"),
    _native("syncless native", 1),
    *COROUTINES,
    _native("syncless beside native", 1, "/native"),
    _python("run_bjoern.py", "bjoern", SILENT),
    _meinheld(),
    _python("run_gevent.py", "gevent"),
    _wsgi("gunicorn, gevent", "gunicorn", (*WSGI, "tls")),
    _wsgi("gunicorn, gthread", "gunicorn", (*WSGI, "tls")),
    _wsgi("eventlet", "eventlet"),
    _wsgi("granian", "granian", (*WSGI, *HTTP2, "tls")),
    Peer("nghttpd", _nghttpd, _nghttpd_version, HTTP2),
    _wsgi("waitress", "waitress", SILENT),
    _wsgi("cheroot", "cheroot", SILENT),
    _wsgi("fastpysgi", "fastpysgi", SILENT),
    _wsgi("freastal", "freastal", SILENT),
    _wsgi("pyruvate", "pyruvate", SILENT),
    _wsgi("peregrine", "peregrine-server", (*WSGI, *HTTP2, "tls")),
    Peer("uwsgi", _uwsgi(), _uwsgi_version(), WSGI),
    Peer("uwsgi, router", _uwsgi("--http-keepalive=600", socket="--http"), _uwsgi_version(), SILENT),
    *ASGI_PEERS,
    *_several(1),
    *_several(2),
    *(_slow_log(way) for way in ("none", "synchronous", "epoll thread", "thread per request", "tasklet")),
    Peer(
        "syncless, timer tasklet",
        lambda port, app: [sys.executable, str(HERE / "run_call_later.py"), str(port)],
        package_version("syncless"),
        ("call later",),
        {"LOG": str(LATER_LOG)},
    ),
    Peer(
        "syncless, blocking",
        lambda port, app: [sys.executable, str(HERE / "run_call_later.py"), str(port), "blocking"],
        package_version("syncless"),
        ("call later",),
        {"LOG": str(LATER_LOG)},
    ),
    *(
        Peer(
            name,
            _uwsgi("--wsgi-file", str(HERE / "call_later.py"), *threads, socket="--http-socket"),
            _uwsgi_version(),
            ("call later",),
            {"LOG": str(LATER_LOG)},
            keeps=False,
        )
        for name, threads in (("uwsgi, blocking", ()), ("uwsgi, 2 threads", ("--threads", "2")))
    ),
    Peer(
        "uwsgi, greenlet + asyncio",
        _uwsgi(
            "--wsgi-file",
            str(HERE / "call_later.py"),
            "--asyncio",
            "200",
            "--greenlet",
            socket="--http-socket",
        ),
        _uwsgi_version(True),
        ("call later",),
        {"LOG": str(LATER_LOG), "LATER": "1"},
        keeps=False,
    ),
)
PEERS = {peer.name: peer for peer in _PEERS}

ANSWERS: dict[str, tuple[bytes | None, bytes]] = {
    "big": (None, apps.BIG),
    "http2 big": (None, apps.BIG),
    "json": (apps.POSTED, apps.summary(apps.POSTED)),
    "fib": (None, b"1884755131"),
    "fib native": (None, b"1884755131"),
    "django database": (None, b"item 10000"),
    "sum": (b"5", b"5"),
    "upload": (apps.UPLOAD, str(len(apps.UPLOAD)).encode()),
    "items": (None, apps.listing(apps.with_totals(apps.ITEMS))),
    "database": (None, apps.listing([apps.stored(n) for n in range(10_000, 10_050)])),
    **dict.fromkeys(("fastapi", "fastapi sync", "slow", *CALLING), (None, b'{"hello":"world"}')),
}
"""application -> what is posted, and the right answer; hello for all others"""


class Running:
    """A server that runs on its cores and has given the right answer. Another beside the load is there to be
    called, if the application does so."""

    def __init__(self, peer: Peer, application: str, cores: list[int] | None = None):
        self.called = Running(PEERS["syncless"], "slow", [LOAD_CORE]) if application in CALLING else None
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.measured_from = 0
        self.name, self.application, self.keeps = peer.name, application, peer.keeps
        upstream = {"UPSTREAM": f"http://127.0.0.1:{self.called.port}/"} if self.called else {}
        if application in ENCRYPTED:
            make_certificate()
            upstream |= {name: str(path) for name, path in CERTIFICATE.items()}
        output = os.devnull
        BUILD.mkdir(parents=True, exist_ok=True)  # for the logs
        if application == "logged":
            output = str(BUILD / "output.log")
        with open(output, "w") as file:
            self.process = pinned(
                cores or CORES[: peer.cores],
                peer.command(self.port, application),
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "APPLICATION": application, **upstream, **peer.environment},
                start_new_session=True,
            )
        try:
            self._verify()
        except BaseException:
            self.__exit__()
            raise

    def _verify(self) -> None:
        """Waits until it answers. Answers are checked, not only counted."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                if self.application == "echo":
                    websocketclient.verify(self.port)
                elif self.application in HTTP2:
                    self._ask_http2()
                else:
                    self._ask()
                return
            except OSError:
                if self.process.poll() is not None:
                    raise Absent(
                        f"it ended with status {self.process.returncode} before it had answered"
                    ) from None
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _ask(self) -> None:
        """Twice on one connection, once on another."""
        posted, expected = ANSWERS.get(self.application, (None, BODY))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        if self.application in ENCRYPTED:
            context = ssl.create_default_context(cafile=CERTIFICATE["CERTFILE"])
            context.check_hostname = False
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=context)
        try:
            for _ in range(2):
                connection.request("GET" if posted is None else "POST", "/", posted)
                response = connection.getresponse()
                body = response.read()
                if (response.status, body) != (200, expected):
                    raise AssertionError(f"wrong answer: {response.status} {body[:100]!r}")
                if not self.keeps:
                    connection.close()  # it does not say so, but it has closed its side
        finally:
            connection.close()

    def _ask_http2(self) -> None:
        encrypted = self.application in ENCRYPTED
        options = ["--http2", "--insecure"] if encrypted else ["--http2-prior-knowledge"]
        command = ["curl", "--silent", *options, f"http{'s' * encrypted}://127.0.0.1:{self.port}/"]
        done = subprocess.run(command, stdout=subprocess.PIPE)
        if done.returncode:
            raise OSError(f"curl: status {done.returncode}")
        if done.stdout != ANSWERS.get(self.application, (None, BODY))[1]:
            raise AssertionError(f"wrong answer: {done.stdout[:100]!r}")

    @property
    def cpu_ns(self) -> int:
        return cpu_ns(self.process.pid)

    @property
    def private_bytes(self) -> int:
        return private_bytes(self.process.pid)

    def __enter__(self) -> Running:
        time.sleep(0.3)  # background work of the start is no cost of the requests
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(self.process.pid, signal.SIGKILL)  # with its workers
        self.process.wait()
        if self.called:
            self.called.__exit__()
