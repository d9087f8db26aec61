"""http/sockets and server/program/slot: listening sockets of a server, and of a master's slots."""

import errno
import os
import socket
import stat
from unittest.mock import Mock

import pytest

from syncless.io.socketfiles import bind_file
from syncless.server.addresses import Bind, parse_bind
from syncless.server.program.slot import SharedSockets, Slot
from syncless.server.sockets import SocketOptions, Sockets

HERE = Bind(host="127.0.0.1", port=0)


@pytest.fixture
def shared():
    made = []

    def make(reuse_port, *binds):
        one = SharedSockets(Sockets(binds or [HERE], SocketOptions(5, reuse_port), False), reuse_port)
        one.open()
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()


def numbers(opened):
    return [sock.fileno() for sock, _ in opened]


def connects(address):
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as client:
        return client.connect_ex(address) == 0


def test_address_speaks_tls_where_there_is_a_certificate_unless_it_says_otherwise(tmp_path):
    binds = [
        HERE,
        HERE._replace(tls=False),
        parse_bind(f"unix:{tmp_path}/a"),
        parse_bind(f"https://unix:{tmp_path}/b"),
    ]
    for certificate, expected in ((True, [True, False, False, True]), (False, [False] * 4)):
        sockets = Sockets(binds, SocketOptions(5), certificate)
        opened = sockets.open()
        assert [tls for _, tls in opened] == expected
        sockets.close(opened)


def test_nothing_stays_open_if_one_address_cannot_be_had(tmp_path):
    path = tmp_path / "socket"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        sockets = Sockets(
            [parse_bind(f"unix:{path}"), Bind(host="127.0.0.1", port=taken.getsockname()[1])],
            SocketOptions(5),
            False,
        )
        before = os.listdir("/proc/self/fd")
        with pytest.raises(OSError, match="another program already listens there"):
            sockets.open()
        assert os.listdir("/proc/self/fd") == before
    assert not path.exists()


def test_inherited_socket_is_closed_but_not_shut():
    with socket.create_server(("127.0.0.1", 0)) as theirs:
        sockets = Sockets([Bind(fd=os.dup(theirs.fileno()))], SocketOptions(5), False)
        opened = sockets.open()
        sockets.begin_no_more(opened)
        sockets.close(opened)
        assert connects(theirs.getsockname())


def test_closed_socket_is_shut_for_all_that_have_it():
    sockets = Sockets([HERE], SocketOptions(5), False)
    opened = sockets.open()
    address = opened[0][0].getsockname()
    with socket.socket(fileno=os.dup(opened[0][0].fileno())):
        assert connects(address)
        sockets.close(opened)
        assert not connects(address)


def test_slots_share_the_sockets_of_their_master(shared):
    one = shared(False)
    assert one.of(Slot()) is one.of(Slot()) is one.shared
    assert numbers(one.all()) == numbers(one.shared)


def test_slots_have_sockets_of_their_own_with_reuse_port(shared, tmp_path):
    one = shared(True, HERE, parse_bind(f"unix:{tmp_path}/a"))
    first, second = Slot(), Slot()
    assert one.of(first) is one.shared
    own = one.of(second)
    assert one.of(second) is own
    (tcp, unix), (again, same) = one.shared, own
    assert again[0] is not tcp[0] and again[0].getsockname() == tcp[0].getsockname()
    assert same[0] is unix[0]  # of a path there is only one
    assert len(one.all()) == 3


def test_removed_slot_leaves_shared_sockets_open(shared, tmp_path):
    one = shared(True, HERE, parse_bind(f"unix:{tmp_path}/a"))
    first, second = Slot(), Slot()
    one.of(first)
    (own, _), (unix, _) = one.of(second)
    one.forget(second)
    assert own.fileno() == -1 and unix.fileno() != -1
    assert all(sock.fileno() != -1 for sock, _ in one.all())
    assert connects(str(tmp_path / "a"))


def test_connection_that_waits_is_seen(shared):
    one = shared(False)
    assert not one.have_waiting()
    with socket.create_connection(one.shared[0][0].getsockname()):
        assert one.have_waiting()


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("127.0.0.1:80", "start as root with --user NAME, or choose a port above 1023"),
        ("unix:app.sock", "this user may not write to the directory"),
    ],
)
def test_refused_permission_is_told_with_its_cure(text, advice, monkeypatch, tmp_path):
    def bind(sock, address):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket.socket, "bind", bind)
    with pytest.raises(OSError, match=advice):
        Sockets([parse_bind(text)], SocketOptions(5), False).open()


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


class Looking(socket.socket):
    """Knows the mode of its file from the first moment."""

    def bind(self, path):
        super().bind(path)
        self.first = stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("mask", [0, 0o022, 0o077, 0o777])
def test_unix_socket_is_for_its_user_and_group_whatever_the_umask_is(tmp_path, umask, mask):
    umask(mask)
    sockets = Sockets([parse_bind(f"unix:{tmp_path}/socket")], SocketOptions(5), False)
    opened = sockets.open()
    assert stat.S_IMODE((tmp_path / "socket").stat().st_mode) == 0o660
    assert umask(0o022) == mask
    sockets.begin_no_more(opened)
    sockets.close(opened)


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
@pytest.mark.parametrize("on_linux", [True, False])
def test_unix_socket_is_never_open_to_more_users(tmp_path, umask, mask, mode, on_linux, monkeypatch):
    if not on_linux:
        monkeypatch.setattr(os, "fchmod", Mock(side_effect=OSError))
    umask(mask)
    path = tmp_path / "socket"
    with Looking(socket.AF_UNIX) as sock:
        bind_file(sock, str(path), mode)
        assert sock.first & ~mode == 0
    assert stat.S_IMODE(path.stat().st_mode) == mode and umask(0o022) == mask
