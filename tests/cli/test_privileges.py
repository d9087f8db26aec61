"""--user, --group and --umask: root is given up once what only root can get is there. Run as root, in
processes."""

import grp
import os
import pathlib
import pwd
import signal
import socket
import stat
import subprocess
import tempfile

import pytest

from tests.cli.test_loading import command, environment
from tests.cli.test_patch import Served, served
from tests.programs import run_unchecked
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

USER = "nobody"
WHO = pwd.getpwnam(USER)
APP = """
import os

def regain():
    for call in (os.setuid, os.seteuid, os.setgid, os.setegid):
        try:
            call(0)
            return "regained"
        except PermissionError:
            pass
    return "dropped"

BORN = os.geteuid()

def app(environ, start_response):
    start_response("200 OK", [])
    if environ["PATH_INFO"] == "/boom":
        raise ValueError("mine")
    who = [*os.getresuid(), *os.getresgid(), BORN, sorted(os.getgroups()), regain(), os.getpid()]
    return [repr(who).encode()]
"""


@pytest.fixture
def folder():
    """Not below pytest's folders, which are closed to others."""
    with tempfile.TemporaryDirectory(prefix="syncless-") as path:
        os.chmod(path, 0o755)
        (pathlib.Path(path) / "app.py").write_text(APP)
        yield pathlib.Path(path)


def groups_of(name, gid):
    return sorted(set(os.getgrouplist(name, gid)))


@pytest.mark.parametrize("workers", ["0", "2"])
def test_server_belongs_to_the_user_with_its_groups_for_good(folder, workers):
    with served(folder, "--user", USER, "--workers", workers) as server:
        *ids, born, groups, regained, pid = eval(server.get("/"))
    assert ids == [WHO.pw_uid] * 3 + [WHO.pw_gid] * 3 and regained == "dropped"
    assert groups == groups_of(USER, WHO.pw_gid)
    assert born == WHO.pw_uid, "the application has been imported by root"
    assert (pid == server.process.pid) == (workers == "0")


def test_group_can_be_chosen_and_numbers_do_without_names(folder):
    group = next(one for one in grp.getgrall() if one.gr_gid not in (0, WHO.pw_gid))
    with served(folder, "--user", USER, "--group", group.gr_name) as server:
        *ids, _, groups, _, _ = eval(server.get("/"))
    assert ids == [WHO.pw_uid] * 3 + [group.gr_gid] * 3 and groups == groups_of(USER, group.gr_gid)
    with served(folder, "--user", "54321", "--group", "54322") as server:
        *ids, _, groups, _, _ = eval(server.get("/"))
    assert ids == [54321] * 3 + [54322] * 3 and groups == [54322]


@pytest.mark.parametrize("workers", ["0", "1"])
def test_files_of_root_are_opened_before_privileges_are_dropped(folder, workers):
    """A port below 1024, log files and the pid file in a directory of root's."""
    kept = folder / "root"
    kept.mkdir(mode=0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
    options = [
        "--error-log",
        "root/errors",
        "--access-log",
        "root/access",
        "--pid-file",
        "root/pid",
        "--workers",
        workers,
    ]
    line = command(
        "app:app", "--bind", "127.0.0.1:0", "--bind", f"unix:{kept}/socket", "--user", USER, *options
    )
    with Served(folder, line) as server:
        pid = eval(server.get("/"))[-1]
        assert (kept / "pid").read_text() == f"{server.process.pid}\n"
        assert (kept / "socket").stat().st_uid == WHO.pw_uid
        with pytest.raises(OSError, match=r"500|closed"):
            server.get("/boom")
        assert pid
        for name in ("errors", "access"):
            assert (kept / name).stat().st_uid == WHO.pw_uid
    assert "ValueError: mine" in (kept / "errors").read_text() and '"GET /' in (kept / "access").read_text()
    assert server.said() == ""
    left = kept / "pid"
    assert not left.exists() or left.read_text() == ""


def test_masters_log_files_are_opened_anew_for_the_workers(folder):
    kept = folder / "root"
    kept.mkdir(mode=0o755)
    with served(folder, "--user", USER, "--workers", "1", "--access-log", "root/access") as server:
        server.get("/")
        assert eventually(lambda: (kept / "access").read_text())
        (kept / "access").rename(kept / "old")
        server.process.send_signal(signal.SIGUSR1)
        assert eventually(
            lambda: (kept / "access").exists() and (kept / "access").stat().st_uid == WHO.pw_uid
        )
        assert eventually(lambda: server.get("/") and (kept / "access").read_text())


def test_umask_is_that_of_all_files(folder):
    with served(folder, "--umask", "027", "--error-log", "log", "--pid-file", "pid") as server:
        assert stat.S_IMODE((folder / "log").stat().st_mode) == 0o640
        assert stat.S_IMODE((folder / "pid").stat().st_mode) == 0o640
        server.get("/")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--user", "no-such-user"], "--user no-such-user: there is no such user"),
        (["--group", "no-such-group"], "--group no-such-group: there is no such group"),
        (["--user", "54321"], "--user 54321: there is no such user, so name its group, too: --group"),
        (["--umask", "9"], "write an octal number such as 660 or 027, not '9'"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--check"], ["--workers", "1"]])
def test_wrong_names_are_told(folder, options, message, more):
    line = command("app:app", "--bind", "127.0.0.1:0", *options, *more)
    done = subprocess.run(line, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--user", "root"], "--user root needs root: this process belongs to user 54321"),
        (["--group", "root"], "--group root needs root: this process belongs to user 54321"),
        (["--user", "54321", "--group", "54321"], None),
    ],
)
def test_others_than_root_are_told_which_option_needs_it(folder, options, message):
    program = (
        "import os; from syncless.server.program.privileges import Privileges\n"
        "os.setgroups([]); os.setresgid(*[54321] * 3); os.setresuid(*[54321] * 3)\n"
        f"user, group = {dict(zip(options[::2], options[1::2], strict=True))!r}.get('--user'), "
        f"{dict(zip(options[::2], options[1::2], strict=True))!r}.get('--group')\n"
        "try:\n    Privileges.of(user, group).drop()\n"
        "except ValueError as error:\n    print(error)\n"
    )
    done = run_unchecked(program, env=environment())
    assert done.stdout == (f"{message}\n" if message else ""), done.stderr


@pytest.mark.parametrize("workers", ["0", "1"])
def test_application_that_fails_after_the_drop_shows_its_traceback(folder, workers):
    (folder / "broken.py").write_text("import os\nraise ValueError(f'as {os.geteuid()}')\n")
    line = command("broken:app", "--bind", "127.0.0.1:0", "--user", USER, "--workers", workers)
    done = subprocess.run(line, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode in (2, 3) and f"ValueError: as {WHO.pw_uid}" in done.stderr
    assert "broken:app raised an error:" in done.stderr and done.stdout == ""
