"""Native handlers that fail: the answer of the client, and the line in the log."""

import gc
import io
import os
import re
import resource

import pytest

from tests import virtualtime
from tests.native.conftest import HERE, chosen, compiled, python
from tests.programs import run_unchecked
from tests.shortage import descriptors_left
from tests.waiting import eventually

LINES = {
    "nothing": "returned SYNCLESS_DONE without a response",
    "status": "gave the status 99, which is not between 200 and 599",
    "type": "gave a Content-Type with bytes that a header field cannot have",
    "large": "gave a body of 2147483648 bytes, and 1073741823 is the most: send a file, or pieces",
    "file": "gave a file and other bytes: a response is one or the other",
    "begin": "asked for another step without syncless_begin()",
    "returned": "returned 77",
    "error": "returned -1",
}


@pytest.mark.parametrize("query", LINES)
def test_handler_that_fails_is_a_500_and_a_line_in_the_log(served, query):
    log = io.StringIO()
    client = served.client(served({"/wrong": "wrong"}, error_log=log))
    status, headers, body = client.get(f"/wrong?{query}")
    assert status == 500 and headers["connection"] == "close" and b"The application failed" in body
    assert client.at_end()
    assert eventually(lambda: "\n" in log.getvalue())
    assert log.getvalue().rstrip().endswith(f"[ERROR] the native handler of '/wrong' {LINES[query]}")


def test_many_failures_are_one_line_a_second(served):
    log = io.StringIO()
    server = served({"/wrong": "wrong"}, error_log=log, native_threads=1)
    failed = 0

    def fails_again():
        nonlocal failed
        failed += served.client(server).get("/wrong")[0] == 500
        return log.getvalue().count("\n") >= 2

    assert eventually(fails_again)
    more = re.search(r"; before that, (\d+) more requests have failed", log.getvalue().splitlines()[1])
    assert more and 1 <= int(more[1]) < failed


def test_response_cut_off_in_its_midst_is_told(served, handlers):
    log = io.StringIO()
    client = served.client(served({"/steps": "steps"}, error_log=log))
    client.send(b"GET /steps?1&size=5&length=6 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert eventually(lambda: "syncless_set_length()" in log.getvalue())


def test_handler_that_crashes_is_seen_by_the_fault_handler_of_python(library):
    program = f"""if True:
    import faulthandler, socket, syncless
    from syncless import native
    from syncless.wsgi import Server
    faulthandler.enable()
    server = Server(lambda e, s: None, port=0, native_threads=1,
                    native={{"/": native.load({str(library)!r}, "wrong")}}).start()
    with socket.create_connection(server.address, timeout=60) as client:
        client.sendall(b"GET /?c HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
        syncless.sleep(10)
    """
    done = run_unchecked(program)
    assert done.returncode < 0 and "Fatal Python error: Segmentation fault" in done.stderr


LOST = """if True:
    import os, select, socket, sys
    from syncless.http.limits import Limits
    from syncless.native.routing import parse_routes
    from syncless.native.threads import Threads
    from syncless import native

    def descriptors():
        return {{int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd)}}

    before = descriptors()
    threads = Threads(parse_routes({{"/": native.load({library!r}, "hello")}}), 1, Limits())
    made = descriptors() - before
    epoll, = (fd for fd in made if os.readlink(f"/proc/self/fd/{{fd}}") == "anon_inode:[eventpoll]")
    client, server = socket.socketpair()
    number = server.detach()
    os.set_blocking(number, False)
    threads.give(0, number)
    threads.turn()
    client.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
    threads.turn()
    assert client.recv(1000).endswith(b"Hello, World!") and threads.connections == 1
    mine, (reader, writer) = select.epoll(), os.pipe()
    {loss}
    threads.turn()
    assert threads.ended and threads.connections == 0
    threads.close_connections(True)
    threads.turn()
    os.fstat(number)                    # it is left alone
    {then}
    print("done")
"""


@pytest.mark.parametrize(
    ("loss", "then"),
    [
        ("os.close(epoll)", ""),
        (
            "os.write(writer, b'x'); mine.register(reader); os.dup2(mine.fileno(), epoll)",
            "assert mine.poll(0) == [(reader, select.EPOLLIN)]",
        ),
        ("os.dup2(os.open('/dev/null', os.O_RDWR), epoll)", "assert os.write(epoll, b'x') == 1"),
    ],
)
def test_thread_whose_descriptors_are_the_programs_ends(library, loss, then):
    done = run_unchecked(LOST.format(library=str(library), loss=loss, then=then))
    assert done.stdout == "done\n", done.stderr


def test_connection_goes_back_to_its_thread_where_no_descriptor_is_left(served):
    client = served.client(served({"/hello": "hello"}))
    assert client.get("/py")[2] == b"python GET /py "
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # those that are open stay
    try:
        assert client.get("/hello")[2] == b"Hello, World!"
        assert client.get("/py")[2] == b"python GET /py "
        assert client.get("/hello")[2] == b"Hello, World!"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("native", [False, True])
def test_last_descriptor_is_used_and_nobody_makes_room_where_nobody_waits(start, handlers, native):
    log = io.StringIO()
    more = {"native": chosen({"/hello": "hello"}, handlers), "native_threads": 1} if native else {}
    server = start(python, error_log=log, defer_accept=False, **more)
    idle = start.client(server)
    assert idle.get("/hello")[0] == 200
    with descriptors_left(2):  # for both ends of a connection
        last = start.client(server)
        assert last.get("/hello")[0] == 200 and idle.get("/hello")[0] == 200
    assert log.getvalue() == ""


def test_stopped_or_failed_server_keeps_no_descriptor_and_may_be_started_again(served):
    """Whichever descriptor of those that a start makes there is no room for."""

    def descriptors():
        gc.collect()
        return {int(each) for each in os.listdir("/proc/self/fd")}

    before = descriptors()
    server = served({"/hello": "hello"})
    server.stop()
    assert descriptors() == before
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    failures = 0
    for spare in range(12):
        free = [number for number in range(len(before) + 100) if number not in before]
        resource.setrlimit(resource.RLIMIT_NOFILE, (free[spare], hard))
        try:
            server.start()
        except OSError:
            failures += 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        server.stop()
        assert descriptors() == before, spare
    assert failures > 3
    server.start()
    assert served.client(server).get("/hello")[2] == b"Hello, World!"


# Each allocation of the threads' own code fails once: in a start, and in each exchange.
ALLOCATIONS = """
import contextlib, ctypes, gc, os, sys
from syncless import native
from syncless.wsgi import Server
from tests.native.conftest import python
from tests.plugin import Client
from tests.waiting import eventually
handler = lambda name, **options: native.load(sys.argv[1], name, **options)
routes = {name: handler(name[1:]) for name in ("/hello", "/echo", "/show", "/build", "/steps")}
routes["/mirror"] = handler("mirror", pieces=True)
with open("/proc/self/maps") as maps:
    lines = [line.split()[0].split("-") for line in maps if "/native/threads." in line]
here = [ctypes.c_void_p(int(address, 16)) for address in (lines[0][0], lines[-1][1])]
failing = ctypes.CDLL(None)
begun = b" HTTP/1.1\\r\\nHost: a\\r\\n"
body = b"Content-Length: 40000\\r\\n\\r\\n" + b"a" * 40000
chunked = b"Transfer-Encoding: chunked\\r\\n\\r\\n9c40\\r\\n" + b"a" * 40000 + b"\\r\\n0\\r\\n\\r\\n"
exchanges = [
    [b"GET /hello" + begun + b"\\r\\n"],
    [b"GET /hello" + begun + b"\\r\\nGET /show" + begun + b"X: " + b"a" * 9000 + b"\\r\\n\\r\\n"],
    [b"POST /echo" + begun + body[:9000], body[9000:]],
    [b"POST /echo" + begun + chunked[:9000], chunked[9000:]],
    [b"POST /mirror" + begun + chunked[:9000], chunked[9000:]],
    [b"GET /steps?3&size=5000" + begun + b"\\r\\n"],
]
def exchange(pieces, calls=-1):
    before = len(os.listdir("/proc/self/fd"))
    failing.fail_after(*here, ctypes.c_long(calls))
    with Client(server.address) as client:
        with contextlib.suppress(OSError):
            for piece in pieces:
                client.send(piece)
        answers = [client.response() for _ in range(b"".join(pieces).count(b" HTTP/1.1"))]
    for answer in filter(None, answers):
        answer[1].pop("date", None)
    left = failing.calls_left()
    failing.fail_after(*here, ctypes.c_long(-1))
    assert eventually(lambda: not any(server.census().values()))
    assert len(os.listdir("/proc/self/fd")) == before, (pieces, calls)
    return answers, left >= 0
def begin(calls):
    failing.fail_after(*here, ctypes.c_long(calls))
    try:
        server = Server(python, port=0, native=routes, native_threads=1, defer_accept=False).start()
    except (MemoryError, OSError):
        server = None
    left = failing.calls_left()
    failing.fail_after(*here, ctypes.c_long(-1))
    return server, left >= 0
begin(0)
before, failed = len(os.listdir("/proc/self/fd")), 0
while True:
    server, over = begin(failed)
    if over:
        break
    if server:
        server.stop()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before, failed
    failed += 1
print("start", failed)
for number, pieces in enumerate(exchanges):
    whole, failed, over = exchange(pieces)[0], 0, False
    assert all(answer[0] == 200 for answer in whole), whole
    while not over:
        answers, over = exchange(pieces, failed)
        for answer in filter(None, answers):
            assert answer[2] is None or answer[0] in (200, 500, 503), answer
        assert exchange(pieces)[0] == whole, (number, failed)
        failed += 1
    print(number, failed)
server.stop()
"""


@pytest.mark.skipif(not virtualtime.AVAILABLE, reason="allocations can be replaced where glibc is")
@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer has replaced them"
)
def test_each_allocation_that_fails_costs_one_connection_at_most(library, tmp_path):
    preloaded = compiled(HERE / "failing.c", tmp_path / "failing.so")
    program = f"import sys; sys.argv.append({str(library)!r})\n" + ALLOCATIONS
    done = run_unchecked(program, cwd=HERE.parent.parent, env={**os.environ, "LD_PRELOAD": str(preloaded)})
    assert done.returncode == 0, done.stderr
    assert sum(int(line.split()[1]) for line in done.stdout.splitlines()) > 15
