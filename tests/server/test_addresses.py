"""Where a server can listen."""

import os
import pwd
import socket as blocking
import stat
import subprocess
import sys
import wsgiref.validate

import pytest

import syncless
from syncless.io import socket
from syncless.server.addresses import Bind, parse_bind, show
from syncless.server.sockets import owner_ids
from tests.plugin import Client


def hello(environ, start_response):
    start_response("200 OK", [])
    return [f"{environ['SERVER_NAME']}|{environ['REMOTE_ADDR']}".encode()]


def ask(address):
    sock = socket.socket(socket.AF_UNIX) if isinstance(address, str) else None
    if sock is None:
        sock = socket.create_connection(address, timeout=60)
    else:
        sock.connect("\0" + address[1:] if address.startswith("@") else address)
    with sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        data = b""
        while piece := sock.recv(1000):
            data += piece
        return data.partition(b"\r\n\r\n")[2].decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:80", Bind(host="127.0.0.1", port=80)),
        ("[::1]:8080", Bind(host="::1", port=8080)),
        ("8000", Bind(host="127.0.0.1", port=8000)),
        (":8000", Bind(host="*", port=8000)),
        ("*:8000", Bind(host="*", port=8000)),
        ("localhost:0", Bind(host="localhost", port=0)),
        ("localhost:65535", Bind(host="localhost", port=65535)),
        ("unix:/run/x.sock", Bind(path="/run/x.sock")),
        ("unix:@name", Bind(path="\0name")),
        ("fd:3", Bind(fd=3)),
        ("https://127.0.0.1:443/", Bind(True, host="127.0.0.1", port=443)),
        ("http://unix:/x", Bind(False, path="/x")),
    ],
)
def test_addresses_as_text(text, expected):
    assert parse_bind(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "a", "a:b", "a:65536", "a:-1", "unix:", "unix:@", "fd:", "fd:x", "a:\u0663", "::1", "::1:80", "::"],
)
def test_invalid_address_is_refused(text):
    with pytest.raises(ValueError, match=r"write|needs"):
        parse_bind(text)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "0.0.0.0"),
        ("[::1]", "::1"),
        ("a-b.example", "a-b.example"),
        ("http://localhost/", "localhost"),
    ],
)
def test_host_without_a_port_has_the_default_one(text, host):
    assert parse_bind(text, 8000)[1:3] == (host, 8000)


@pytest.mark.parametrize("text", ["", "65536", "a:b", "localhost:", "/run/x", "::1", "a b", "*"])
def test_host_that_is_none_is_refused_with_a_default_port_too(text):
    with pytest.raises(ValueError, match=r"write|needs"):
        parse_bind(text, 8000)


def test_addresses_are_shown_as_they_are_written():
    assert (
        show(("::1", 80)) == "http://[::1]:80/"
        and show(b"\0name") == "unix:@name"
        and show("/x") == "unix:/x"
    )
    assert show(("127.0.0.1", 443), True) == "https://127.0.0.1:443/"


def test_all_addresses_of_both_families(start):
    if not blocking.has_dualstack_ipv6():
        pytest.skip("this machine has no dual-stack sockets")
    assert len(start(hello, host="", port=0).addresses) == 1
    server = start(hello, bind="*:0")
    assert ask(("127.0.0.1", server.port)).endswith("|127.0.0.1")  # as IPv4, not ::ffff:127.0.0.1
    assert ask(("::1", server.port)).endswith("|::1")


def test_ipv6_only(start):
    if not blocking.has_ipv6:
        pytest.skip("this machine has no IPv6")
    server = start(hello, bind="[::]:0", ipv6_only=True)
    assert ask(("::1", server.port)).endswith("|::1")
    with pytest.raises(ConnectionRefusedError):
        ask(("127.0.0.1", server.port))


def test_a_name_is_all_its_addresses_on_one_port(start):
    server = start(hello, bind="localhost:0")
    found = {info[4][0] for info in blocking.getaddrinfo("localhost", server.port, type=blocking.SOCK_STREAM)}
    for address in found & {address[0] for address in server.addresses}:
        assert ask((address, server.port)).endswith(f"|{address}")
    assert len({address[1] for address in server.addresses}) == 1
    with pytest.raises(OSError, match=r"no\.such\.host"):
        start(hello, bind="no.such.host.invalid:0")


def test_several_addresses_at_once(start, tmp_path):
    server = start(hello, bind=["127.0.0.1:0", f"unix:{tmp_path}/s", "127.0.0.1:0"])
    assert [ask(address) for address in server.addresses] == [
        "127.0.0.1|127.0.0.1",
        "localhost|",
        "127.0.0.1|127.0.0.1",
    ]


def kinds_of_listeners(folder):
    binds = ["127.0.0.1:0", f"unix:{folder}/s"]
    try:
        with blocking.socket(blocking.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return binds
    return [*binds, "[::1]:0"]


PROXIED = "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n"


@pytest.mark.parametrize(
    ("fields", "port"), [("", "80"), (PROXIED, "443"), (PROXIED + "X-Forwarded-Port: 8443\r\n", "8443")]
)
def test_environ_is_that_of_pep_3333_on_each_kind_of_listener(start, tmp_path, fields, port):
    """SERVER_NAME and SERVER_PORT can never be empty: on a UNIX socket the port is that of the scheme."""
    seen = []

    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        seen.append(dict(environ))
        return [b""]

    server = start(
        wsgiref.validate.validator(app),
        bind=kinds_of_listeners(tmp_path),
        trusted=("127.0.0.1", "::1", "unix"),
        trusted_fields=("x-forwarded-for", "x-forwarded-proto", "x-forwarded-port"),
    )
    for address in server.addresses:
        client = Client(address)
        for _ in range(3):
            assert client.get("/a", fields)[0] == 200
            environ = seen.pop()
            strings = {key: value for key, value in environ.items() if key.isupper()}
            assert all(type(value) is str for value in strings.values()), strings
            for key in ("REQUEST_METHOD", "SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL", "REQUEST_URI"):
                assert strings[key], key
            own = str(address[1]) if isinstance(address, tuple) else port
            assert environ["SERVER_PORT"] == (port if "Port" in fields else own)
            assert environ["wsgi.url_scheme"] == ("https" if fields else "http")
        client.close()


def test_an_abstract_socket(start):
    if sys.platform != "linux":
        pytest.skip("abstract sockets are Linux's")
    name = f"@syncless-test-{os.getpid()}"
    server = start(hello, bind=f"unix:{name}")
    assert server.url == f"unix:{name}" and ask(name) == "localhost|"


def test_mode_and_owner_of_a_unix_socket(start, tmp_path):
    me = pwd.getpwuid(os.getuid()).pw_name
    path = tmp_path / "s"
    server = start(hello, bind=f"unix:{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o660, "without any option"
    server.stop()
    server = start(hello, bind=f"unix:{path}", unix_mode=0o620, unix_owner=me)
    info = path.stat()
    assert stat.S_IMODE(info.st_mode) == 0o620 and info.st_uid == os.getuid()
    server.stop()
    assert not path.exists()
    if os.getuid() == 0:
        start(hello, bind=f"unix:{path}", unix_owner="12345:54321")
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)
    with pytest.raises(ValueError, match="nobody-of-this-name"):
        start(hello, bind=f"unix:{path}2", unix_owner="nobody-of-this-name")
    assert owner_ids(f"{me}:") == (os.getuid(), -1) and owner_ids(":0") == (-1, 0)


def test_stale_socket_file_is_removed_and_a_live_server_is_not_disturbed(start, tmp_path):
    path = f"{tmp_path}/s"
    stale = blocking.socket(blocking.AF_UNIX)
    stale.bind(path)
    stale.close()
    start(hello, bind=f"unix:{path}")
    assert ask(path) == "localhost|"
    with pytest.raises(OSError, match="another program already listens"):
        start(hello, bind=f"unix:{path}")
    assert ask(path) == "localhost|"


def test_inherited_sockets(start):
    for family, address in (
        (blocking.AF_INET, ("127.0.0.1", 0)),
        (blocking.AF_UNIX, f"\0syncless-inherited-{os.getpid()}"),
    ):
        listener = blocking.socket(family)
        listener.bind(address)
        listener.listen(5)
        where = listener.getsockname()
        server = start(hello, bind=f"fd:{listener.detach()}")
        assert ask(where if family == blocking.AF_INET else "@" + os.fsdecode(where)[1:])
        server.stop()


def test_descriptor_that_does_not_listen_is_refused(start):
    with pytest.raises(OSError, match="cannot listen on fd:999"):
        start(hello, bind="fd:999")
    with blocking.socket() as sock, pytest.raises(OSError, match="not a listening stream socket"):
        start(hello, bind=f"fd:{sock.fileno()}")


PROGRAM = """
import os
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"served", *(name.encode() for name in os.environ if name.startswith("LISTEN_"))]
"""


@pytest.mark.parametrize("how", ["systemd", "--fd"])
def test_the_command_takes_inherited_sockets(tmp_path, how):
    (tmp_path / "inherits.py").write_text(PROGRAM)
    listener = blocking.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(5)
    command = [sys.executable, "-m", "syncless", "inherits:app"]
    if (
        how == "systemd"
    ):  # the variables name the process that is to use them, so a shell sets them and becomes it
        variables = "LISTEN_FDS=1 LISTEN_FDNAMES=x LISTEN_PID=$$"
        script = f"exec 3<&{listener.fileno()}; {variables} exec {' '.join(command)}"
        command = ["bash", "-c", script]
    else:
        command += ["--fd", str(listener.fileno())]
    process = subprocess.Popen(
        command, cwd=tmp_path, pass_fds=[listener.fileno()], stdout=subprocess.PIPE, text=True
    )
    try:
        line = syncless.run_in_thread(process.stdout.readline)
        assert str(listener.getsockname()[1]) in line
        with socket.create_connection(listener.getsockname(), timeout=60) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            data = b""
            while piece := sock.recv(1000):
                data += piece
        assert data.endswith(b"served")
    finally:
        process.terminate()
        syncless.run_in_thread(process.communicate)
        listener.close()
    assert process.returncode == 0


def test_two_servers_share_a_port(start):
    first = start(hello, reuse_port=True)
    second = start(hello, reuse_port=True, port=first.port)
    seen = set()
    for _ in range(200):
        before = first.requests
        ask(first.address)
        seen.add("first" if first.requests > before else "second")
    assert seen == {"first", "second"} and second.port == first.port
