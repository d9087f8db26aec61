"""A network in memory: any address, names, faults that a test asks for, and those that a schedule chooses."""

import pytest

from tests.programs import check, run_unchecked
from tests.testing.test_schedules import run

BEGIN = """
import errno, gc, os, socket, threading, time
import http.client
import syncless
from syncless.testing import network, until_idle, virtual_time

def descriptors():
    "Those that are open. Exceptions of urllib3 are in circles with their sockets."
    gc.collect()
    return {each for each in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + each)}

def raises(kind, function, *args, **kwargs):
    "The exception, which must be of that kind."
    try:
        function(*args, **kwargs)
    except kind as error:
        return error
    raise AssertionError(f"no {kind}")

def echo(address, count=1):
    "A thread that sends back what it gets, over that many connections, until they end."
    listener = socket.create_server(address)
    def serve():
        with listener:
            for _ in range(count):
                sock, _ = listener.accept()
                with sock:
                    while data := sock.recv(1000):
                        sock.sendall(data)
    thread = threading.Thread(target=serve)
    thread.start()
    return thread
"""


def checked(program):
    return check(BEGIN + program)


def test_any_address_is_bound_and_connected_to():
    checked("""
before = None
for _ in range(2):
    with network() as net:
        net.host("db", "10.0.0.2")
        thread = echo(("10.0.0.2", 6379))
        with socket.create_connection(("db", 6379)) as sock:
            assert sock.getpeername() == ("10.0.0.2", 6379)
            assert sock.getsockname() == ("127.0.0.1", 49152), "the same in each network"
            sock.sendall(b"hello")
            assert sock.recv(100) == b"hello"
        thread.join()
        listener = socket.create_server(("", 0))
        port = listener.getsockname()[1]
        client = socket.socket()
        client.bind(("10.0.0.7", 5000))
        client.connect(("10.1.2.3", port))
        sock, address = listener.accept()
        assert port == 49153 and address == sock.getpeername() == ("10.0.0.7", 5000)
        six = socket.create_server(("2001:db8::1", 80), family=socket.AF_INET6)
        with socket.create_connection(("2001:db8::1", 80)) as other:
            assert other.getpeername()[:2] == six.getsockname()[:2] == ("2001:db8::1", 80)
        taken = socket.socket()
        assert raises(OSError, taken.bind, ("2001:db8::1", port)).errno != errno.EADDRINUSE
        assert raises(OSError, taken.bind, ("0.0.0.0", port)).errno == errno.EADDRINUSE
        for each in listener, client, sock, six, taken:
            each.close()
        again = socket.create_server(("", port))
        again.close()
    assert len(syncless.tasklets()) == 1
    before = before or descriptors()
assert descriptors() == before
""")


def test_nothing_leaves_the_process():
    checked("""
outside = socket.create_server(("127.0.0.1", 0))
port = outside.getsockname()[1]
with network() as net:
    raises(ConnectionRefusedError, socket.create_connection, ("127.0.0.1", port))
    raises(ConnectionRefusedError, socket.create_connection, ("10.0.0.1", 80))
    sock = socket.socket()
    assert sock.connect_ex(("10.0.0.1", 80)) == errno.ECONNREFUSED
    bound = socket.socket()
    bound.bind(("10.0.0.1", 80))
    assert sock.connect_ex(("10.0.0.1", 80)) == errno.ECONNREFUSED, "it does not listen"
    bound.close()
    for look_up in socket.gethostbyname, socket.gethostbyname_ex:
        raises(socket.gaierror, look_up, "example.org")
    raises(socket.gaierror, socket.getaddrinfo, "example.org", 80)
    raises(socket.gaierror, socket.create_connection, ("example.org", 80))
    raises(socket.herror, socket.gethostbyaddr, "10.0.0.1")
    net.host("api", "10.0.0.1")
    assert socket.gethostbyname("API.") == "10.0.0.1" and socket.gethostbyname("localhost") == "127.0.0.1"
    assert socket.gethostbyaddr("10.0.0.1")[0] == "api" == socket.getnameinfo(("10.0.0.1", 80), 0)[0]
    assert socket.getaddrinfo("api", 80, type=socket.SOCK_STREAM)[0][4] == ("10.0.0.1", 80)
    with socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        for call in (
            lambda: datagrams.connect(("10.0.0.1", 53)),
            lambda: datagrams.sendto(b"x", ("10.0.0.1", 53)),
            lambda: datagrams.sendmsg([b"x"], [], 0, ("10.0.0.1", 53)),
            lambda: datagrams.bind(("10.0.0.1", 53)),
        ):
            assert "no datagrams" in str(raises(OSError, call))
    raises(RuntimeError, network().__enter__)
    sock.close()
assert "choose from reset, pieces, late" in str(raises(ValueError, network(faults=["rest"]).__enter__))
with socket.create_connection(("127.0.0.1", port)) as sock:
    assert sock.getpeername() == ("127.0.0.1", port), "the block is over"
outside.close()
assert "connect" in vars(socket.socket) and "getsockname" not in vars(socket.socket)
""")


def test_a_process_without_the_patch_is_told():
    program = """
from syncless.testing import network
try:
    network().__enter__()
except RuntimeError as error:
    print(error)
"""
    assert run_unchecked(program).stdout == (
        "network() needs the patch: call syncless.patches.patch_all() first\n"
    )


def test_latency_is_virtual():
    checked("""
with virtual_time(), network(latency=60) as net:
    thread = echo(("10.0.0.1", 80))
    began = time.monotonic()
    raises(TimeoutError, socket.create_connection, ("10.0.0.1", 80), timeout=59)
    assert time.monotonic() - began == 59
    sock = socket.create_connection(("10.0.0.1", 80))
    assert time.monotonic() - began == 119
    sock.sendall(b"x")
    assert sock.recv(1) == b"x" and time.monotonic() - began == 239
    sock.settimeout(50)
    sock.sendall(b"x")
    raises(TimeoutError, sock.recv, 1)
    sock.close()
    thread.join()
""")


def test_a_socket_that_must_not_wait_is_connected_after_the_latency():
    checked("""
import select

def begin(address):
    sock = socket.socket()
    sock.setblocking(False)
    sock.bind(("10.0.0.7", 0))
    assert sock.connect_ex(address) == errno.EINPROGRESS
    return sock

def until_writable(sock, seconds):
    began = time.monotonic()
    assert select.select([], [sock], [], seconds - 1)[1] == []
    assert sock.connect_ex(("10.0.0.1", 80)) == errno.EALREADY
    assert raises(OSError, sock.getpeername).errno == errno.ENOTCONN
    assert select.select([], [sock], [], 2)[1] == [sock]
    assert time.monotonic() - began == seconds, time.monotonic() - began
    return [sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for _ in range(2)]

for turn in range(2):
    with virtual_time(), network(latency=60) as net:
        thread = echo(("10.0.0.1", 80))
        sock = begin(("10.0.0.1", 80))
        own = sock.getsockname()
        assert until_writable(sock, 60) == [0, 0]
        assert sock.connect_ex(("10.0.0.1", 80)) in (0, errno.EISCONN)
        assert sock.getpeername() == ("10.0.0.1", 80) and own == sock.getsockname() == ("10.0.0.7", 49152)
        sock.sendall(b"x")
        assert select.select([sock], [], [], 119)[0] == [] and select.select([sock], [], [], 2)[0] == [sock]
        assert sock.recv(1) == b"x"
        sock.close()
        thread.join()
        refused = begin(("10.0.0.1", 80))
        assert until_writable(refused, 60) == [errno.ECONNREFUSED, 0]
        net.latency = 0
        thread = echo(("10.0.0.1", 80))
        net.partition("10.0.0.1")
        late, closed = [begin(("10.0.0.1", 80)) for _ in range(2)]
        closed.close()
        assert until_writable(late, 127) == [errno.ETIMEDOUT, 0]
        held = begin(("10.0.0.1", 80))
        until_idle()
        net.heal()
        assert select.select([], [held], [], 0.1)[1] == [held]
        held.sendall(b"y")
        held.settimeout(1)
        assert held.recv(1) == b"y"
        held.close()
        thread.join()
        net.partition()
        left = begin(("10.0.0.1", 80))
    assert left.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
    for each in refused, late, left:
        each.close()
    assert len(syncless.tasklets()) == 1
    before = descriptors() if turn == 0 else before
assert descriptors() == before
""")


def test_bytes_arrive_in_pieces():
    checked("""
with virtual_time(), network(piece=3) as net:
    thread = echo(("10.0.0.1", 80))
    with socket.create_connection(("10.0.0.1", 80)) as sock:
        sock.sendall(b"abcdefgh")
        got = []
        while sum(map(len, got)) < 8:
            got.append(sock.recv(100))
        assert got == [b"abc", b"def", b"gh"], got
    thread.join()
""")


def test_connections_are_reset_lost_and_held():
    checked("""
with virtual_time(), network() as net:
    net.host("db", "10.0.0.2")
    threading.excepthook = lambda args: failed.append(args.exc_type)
    failed = []
    thread = echo(("10.0.0.2", 1), 9)
    sock, other = [socket.create_connection(("db", 1)) for _ in range(2)]
    net.reset("10.9.9.9")
    other.close()
    sock.sendall(b"1")
    assert sock.recv(1) == b"1"
    net.reset("db")
    raises(ConnectionResetError, sock.recv, 1)
    sock.close()
    until_idle()
    assert failed == [ConnectionResetError], "the server has got it, too"
    thread.join(1)
""")
    checked("""
seen = []
def serve():
    for _ in range(2):
        sock, _ = listener.accept()
        with sock:
            seen.append(sock.recv(9))
            sock.sendall(b"done")
with virtual_time(), network() as net:
    listener = socket.create_server(("10.0.0.2", 1))
    thread = threading.Thread(target=serve)
    thread.start()
    net.lose_response("10.0.0.2")
    for turn in range(2):
        with socket.create_connection(("10.0.0.2", 1)) as sock:
            sock.sendall(b"do it")
            if turn:
                assert sock.recv(9) == b"done"
            else:
                raises(ConnectionResetError, sock.recv, 9)
    assert seen == [b"do it"] * 2, "only the answer was lost"
    thread.join()
    listener.close()
""")
    checked("""
with virtual_time(), network() as net:
    net.host("db", "10.0.0.2")
    threads = [echo(("10.0.0.2", 1)), echo(("10.0.0.3", 1))]
    sock, other = [socket.create_connection((host, 1), timeout=10) for host in ("db", "10.0.0.3")]
    net.partition("db")
    raises(TimeoutError, socket.create_connection, ("db", 1), timeout=10)
    for each in sock, other:
        each.sendall(b"x")
    raises(TimeoutError, sock.recv, 1)
    assert other.recv(1) == b"x"
    net.partition()
    other.sendall(b"y")
    raises(TimeoutError, other.recv, 1)
    net.heal("db")
    raises(TimeoutError, sock.recv, 1)
    net.heal()
    assert sock.recv(1) == b"x" and other.recv(1) == b"y"
    for each in (sock, other):
        each.close()
    for thread in threads:
        thread.join()
""")


SERVED = """
from syncless.wsgi import Server
def app(environ, start_response):
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(2 * len(body) + 2))])
    return [b"ok", body, body]
"""


def test_server_and_clients_meet_in_it():
    pytest.importorskip("requests")
    checked(
        SERVED
        + """
import requests, urllib3
for turn in range(2):
    with virtual_time(), network(latency=1) as net:
        net.host("api", "10.0.0.1")
        server = Server(app, host="api", port=80).start()
        assert server.url == "http://10.0.0.1:80/"
        began = time.monotonic()
        client = http.client.HTTPConnection("api", timeout=10)
        for _ in range(2):
            client.request("POST", "/", b"x" * 100_000)
            assert len(client.getresponse().read()) == 200_002
        assert time.monotonic() - began >= 5, time.monotonic() - began
        client.close()
        net.latency = 0
        with requests.Session() as session:
            assert session.get("http://api/").text == "ok"
        with urllib3.PoolManager(retries=1) as pool:
            net.lose_response("api")
            assert pool.request("GET", "http://api/").data == b"ok"
        server.stop(0)
    assert len(syncless.tasklets()) == 1
    before = descriptors() if turn == 0 else before
assert descriptors() == before
"""
    )


def test_tls_passes_through_it(tmp_path):
    pytest.importorskip("trustme")
    from tests.authority import Authority

    authority = Authority(tmp_path)
    files = authority.files("api")
    (tmp_path / "ca.pem").write_bytes(authority.ca.cert_pem.bytes())
    checked(
        SERVED
        + f"""
import ssl
with virtual_time(), network(latency=1) as net:
    net.host("api", "10.0.0.1")
    server = Server(app, host="api", port=443, certfile={files[0]!r}, keyfile={files[1]!r}).start()
    context = ssl.create_default_context(cafile={str(tmp_path / "ca.pem")!r})
    client = http.client.HTTPSConnection("api", timeout=60, context=context)
    client.request("GET", "/")
    assert client.getresponse().read() == b"ok"
    client.close()
    server.stop(0)
"""
    )


def test_redis_and_a_fake_one_meet_in_it():
    pytest.importorskip("redis")
    pytest.importorskip("fakeredis")
    checked("""
import warnings
warnings.simplefilter("ignore")
import redis
from fakeredis import TcpFakeServer
with virtual_time(), network(latency=0.5) as net:
    net.host("cache", "10.0.0.3")
    server = TcpFakeServer(("10.0.0.3", 6379))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    client = redis.Redis("cache")
    client.set("key", "value")
    assert client.get("key") == b"value"
    client.close()
    server.shutdown()
    server.server_close()
    thread.join()
""")


def test_asyncio_meets_in_it():
    checked("""
import asyncio
async def main():
    async def serve(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(serve, "10.0.0.1", 80)
    reader, writer = await asyncio.open_connection("api", 80)
    assert writer.get_extra_info("peername") == ("10.0.0.1", 80)
    writer.write(b"hello\\n")
    assert await reader.readline() == b"hello\\n"
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
    try:
        await asyncio.open_connection("api", 80)
    except ConnectionRefusedError:
        return time.monotonic()
with virtual_time(), network(latency=60) as net:
    net.host("api", "10.0.0.1")
    began = time.monotonic()
    ended = asyncio.run(main())
    assert 240 <= ended - began < 241, ended - began
""")


def test_who_waits_for_ever_in_it_is_told_at_once():
    checked("""
from syncless.debug import Deadlock
from syncless.testing import virtualtime
virtualtime.LONGEST = 10**6
with virtual_time(), network():
    listener = socket.create_server(("10.0.0.1", 80))
    with socket.create_connection(("10.0.0.1", 80)) as sock:
        assert "nothing can go on" in str(raises(Deadlock, sock.recv, 1))
    listener.close()
""")


RETRY = """
import socket
from syncless.testing import network
import syncless

def serve(listener, ran):
    while True:
        sock, _ = listener.accept()
        with sock:
            try:
                for order in sock.makefile("rb"):
                    ran.append(order)
                    sock.sendall(b"done\\n")
            except OSError:
                pass

def order():
    for _ in range(3):
        try:
            with socket.create_connection(("shop", 80), timeout=5) as sock:
                sock.sendall(b"one book\\n")
                if sock.makefile("rb").readline() == b"done\\n":
                    return
        except OSError:
            pass

def test():
    with network() as net:
        net.host("shop", "10.0.0.1")
        with socket.create_server(("10.0.0.1", 80)) as listener:
            ran = []
            server = threading.Thread(target=serve, args=(listener, ran), daemon=True)
            server.start()
            order()
            assert len(ran) < 2, ran
"""


def test_a_schedule_chooses_faults_and_repeats_them(tmp_path):
    program = (
        RETRY
        + """
found = search(test)
assert found.failed and isinstance(found.last.error, AssertionError), found.last and found.last.error
print(found.report())
for seed in (found.seed, encode(found.shortest)):
    lines = {" | ".join(search(test, seed=seed).last.interleaving.lines) for _ in range(10)}
    assert len(lines) == 1, lines
"""
    )
    first = run(program, tmp_path)
    assert "the network resets a connection to 10.0.0.1:80" in first or "the network delays" in first, first
    assert "the shortest schedule that fails has 1 unusual choice: n" in first, first
    assert run(program, tmp_path) == first


def test_requests_pass_under_schedules_without_faults(tmp_path):
    program = (
        SERVED
        + """
from syncless.testing import network
import http.client, os

def test():
    with network(faults=()) as net:
        server = Server(app, host="10.0.0.1", port=80).start()
        answers = []
        def ask():
            client = http.client.HTTPConnection("10.0.0.1", 80, timeout=60)
            client.request("GET", "/")
            answers.append(client.getresponse().read())
            client.close()
        in_threads(ask, ask)
        assert answers == [b"ok"] * 2
        server.stop(0)

search(test, 3)
before = len(os.listdir("/proc/self/fd"))
found = search(test)
assert not found.failed, found.report()
assert found.runs == 200 and len(syncless.tasklets()) == 1
assert len(os.listdir("/proc/self/fd")) == before
"""
    )
    run(program, tmp_path)


def test_a_seed_repeats_a_server_in_a_fresh_process_too(tmp_path):
    """Modules that it imports when it begins are no choices, nor are events that an earlier run has left."""
    program = (
        SERVED
        + """
from syncless.testing import network
import http.client

def test():
    with network() as net:
        server = Server(app, host="10.0.0.1", port=80).start()
        def ask():
            client = http.client.HTTPConnection("10.0.0.1", 80, timeout=60)
            try:
                client.request("GET", "/")
                client.getresponse().read()
            except (OSError, http.client.HTTPException):
                pass
            finally:
                client.close()
        in_threads(ask, ask)
        server.stop(0)

for seed in 25, 26, 59:
    lines = {" | ".join(search(test, seed=seed).last.interleaving.lines) for _ in range(10)}
    assert len(lines) == 1, (seed, lines)
    print(*lines)
"""
    )
    assert run(program, tmp_path) == run(program, tmp_path)
