"""Files that a process of root opens in a directory of somebody else's: io/guardedfiles.py, and the server
with --user. Run as root."""

import contextlib
import os
import pathlib
import pwd
import signal
import socket
import stat
import subprocess
import sys
import tempfile

import pytest

from syncless.http.log.errorlog import LogFile
from syncless.io.guardedfiles import Place, append_to, only_roots
from syncless.io.socketfiles import bind_file, remove_stale
from syncless.server.program.process import PidFile
from tests.cli.test_loading import command, environment
from tests.cli.test_patch import Served
from tests.programs import run_unchecked
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has more to give than others")

USER = "nobody"
WHO = pwd.getpwnam(USER)
HERS = (WHO.pw_uid, WHO.pw_gid)
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
RUN = "import sys\nfrom syncless.cli import main\n"
MAIN = "sys.exit(main(sys.argv[1:]))\n"
APP = """
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"here"]
"""


@pytest.fixture
def folder():
    """Not below pytest's folders, which are closed to others. ``mine`` belongs to nobody."""
    with tempfile.TemporaryDirectory(prefix="syncless-") as path:
        os.chmod(path, 0o755)
        folder = pathlib.Path(path)
        (folder / "app.py").write_text(APP)
        (folder / "victim").write_text("root only")
        (folder / "victim").chmod(0o600)
        (folder / "mine").mkdir()
        os.chown(folder / "mine", *HERS)
        yield folder


def is_untouched(victim):
    about = victim.stat()
    return (victim.read_text(), about.st_uid, stat.S_IMODE(about.st_mode)) == ("root only", 0, 0o600)


def make_trap(kind, folder):
    """A path in nobody's folder that leads to a file of root's."""
    path = folder / "mine" / "file"
    if kind == "symbolic link":
        path.symlink_to("../victim")
        os.chown(path, *HERS, follow_symlinks=False)
    elif kind == "hard link":
        path.hardlink_to(folder / "victim")
    elif kind == "file of root":
        (folder / "victim").rename(path)
    elif kind == "directory":
        (folder / "mine" / "logs").symlink_to("..")
        return folder / "mine" / "logs" / "victim"
    return path


WHY = {
    "symbolic link": "it is a symbolic link, and users other than root may write to the directory",
    "hard link": "it has several names (hard links)",
    "file of root": f"it belongs to user 0, not to user {WHO.pw_uid} (chown it)",
    "directory": "logs on the way to it is a symbolic link",
}


# -- the server -------------------------------------------------------------------------------------------


def fails(folder, *options, start=None):
    """What a server that does not start says."""
    line = start or command("app:app")
    done = subprocess.run(
        [*line, "--bind", "127.0.0.1:0", "--user", USER, *options],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (1, 2, 3) and "Traceback" not in done.stderr, done.stderr
    return done.stderr


@pytest.mark.parametrize("workers", ["0", pytest.param("1", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", WHY)
@pytest.mark.parametrize("option", ["--access-log", "--error-log"])
def test_log_file_that_others_have_linked_to_roots_is_refused(folder, option, kind, workers):
    path = make_trap(kind, folder)
    said = fails(folder, option, str(path), "--workers", workers)
    assert f"{path}: {WHY[kind]}" in said
    assert is_untouched(path if kind == "file of root" else folder / "victim")


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("kind", ["symbolic link", "hard link", "directory"])
def test_pid_file_that_others_have_linked_to_roots_is_refused(folder, kind, workers):
    path = make_trap(kind, folder)
    assert f"{path}: {WHY[kind]}" in fails(folder, "--pid-file", str(path), "--workers", workers)
    assert is_untouched(folder / "victim")


@pytest.mark.parametrize("workers", ["0", "1"])
def test_files_in_the_users_own_directory_are_the_users_at_each_start(folder, workers):
    line = command("app:app", "--bind", "127.0.0.1:0", "--user", USER, "--workers", workers)
    mine = folder / "mine"
    line += ["--access-log", "mine/access", "--error-log", "mine/errors", "--pid-file", "mine/pid"]
    line += ["--bind", "unix:mine/socket"]
    for _ in range(2):
        with Served(folder, line) as server:
            assert server.get("/") == "here"
            assert (mine / "pid").read_text() == f"{server.process.pid}\n"
            for name in ("access", "errors", "socket"):
                assert ((mine / name).stat().st_uid, (mine / name).stat().st_gid) == HERS
            assert stat.S_IMODE((mine / "socket").stat().st_mode) == 0o660
    assert (mine / "access").read_text().count('"GET /') == 2
    assert sorted(os.listdir(mine)) == ["access", "errors"]


def test_file_that_is_linked_while_the_master_runs_is_not_opened_anew(folder):
    mine = folder / "mine"
    line = command("app:app", "--bind", "127.0.0.1:0", "--user", USER, "--workers", "1")
    with Served(folder, [*line, "--access-log", "mine/access", "--error-log", "mine/errors"]) as server:
        for name in ("access", "errors"):
            (mine / name).rename(mine / f"{name}.1")
            (mine / name).symlink_to("../victim")
        server.process.send_signal(signal.SIGUSR1)
        said = "it is a symbolic link"
        assert eventually(lambda: said in (mine / "errors.1").read_text())
        assert server.get("/") == "here"
    assert is_untouched(folder / "victim")


def test_standard_output_is_a_log_for_every_worker(folder):
    """A pipe of root's, which the user may not open."""
    for options in (["/dev/stdout"], ["mine/access"]):
        with contextlib.suppress(FileExistsError):
            (folder / "mine" / "access").symlink_to("/dev/stdout")
        line = command("app:app", "--bind", "127.0.0.1:0", "--user", USER, "--workers", "1")
        with Served(folder, [*line, "--access-log", *options]) as server:
            server.get("/")
            assert any('"GET /' in row for row in iter(server.process.stdout.readline, ""))


def test_key_that_the_user_has_linked_is_not_read_by_root(folder):
    trustme = pytest.importorskip("trustme", reason="trustme makes the certificate: pip install trustme")
    made = trustme.CA().issue_cert("localhost")
    (folder / "cert").write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
    made.private_key_pem.write_to_path(folder / "key")
    (folder / "key").chmod(0o600)
    (folder / "mine" / "key").symlink_to("../key")
    said = fails(folder, "--certfile", "cert", "--keyfile", "mine/key")
    assert "keyfile mine/key: it is a symbolic link" in said
    line = command("app:app", "--bind", "http://127.0.0.1:0", "--bind", "127.0.0.1:0", "--user", USER)
    with Served(folder, [*line, "--certfile", "cert", "--keyfile", "key"]) as server:
        assert server.get("/") == "here"


@pytest.mark.parametrize("name", ["syncless.toml", "gunicorn.conf.py"])
def test_configuration_that_the_user_may_write_is_not_obeyed_by_root(folder, name):
    file = folder / "mine" / name
    file.write_text("preload = True\n" if name.endswith("py") else "preload = true\n")
    assert "only root may be able to change it" in fails(folder, "--config", f"mine/{name}")
    os.chown(file, *HERS)
    assert only_roots(folder / "app.py") and not only_roots(file)


def test_root_imports_no_module_from_the_users_directory(folder):
    """A script in the place of the command, because `python -m` itself looks in the working directory."""
    mine = folder / "mine"
    (mine / "app.py").write_text(APP)
    for name in ("setproctitle", "json", "traceback", "dotenv"):
        (mine / f"{name}.py").write_text("import os\nopen('imported', 'a').write(f'{os.geteuid()} ')\nfail\n")
    (folder / "run.py").write_text(RUN + MAIN)
    line = [sys.executable, str(folder / "run.py"), "app:app", "--chdir", str(mine), "--user", USER]
    with Served(folder, [*line, "--bind", "127.0.0.1:0", "--workers", "1"]) as server:
        assert server.get("/") == "here"
        server.process.send_signal(signal.SIGHUP)
        assert server.get("/") == "here"
    assert not (mine / "imported").exists() or "0" not in (mine / "imported").read_text().split()


BORN = """
import os
with open("imported", "a") as file:
    file.write(f"{os.geteuid()} ")
"""


@pytest.mark.parametrize("options", [["--check"], ["--workers", "1"], []])
def test_handlers_and_applications_are_imported_by_the_user_only(folder, options):
    pytest.importorskip("syncless.native.handlerthreads", reason="native handlers are not built")
    mine = folder / "mine"
    (mine / "app.py").write_text(BORN + APP)
    (mine / "handlers.py").write_text(BORN)
    (folder / "run.py").write_text(
        RUN + "import syncless.native.handlerthreads\n" + MAIN
    )  # in case only root can
    line = [
        sys.executable,
        str(folder / "run.py"),
        "app:app",
        "--chdir",
        str(mine),
        "--native",
        "/n=handlers:n",
    ]
    said = fails(folder, *options, start=line)
    imported = (mine / "imported").read_text().split()
    assert "has no attribute 'n'" in said and set(imported) == {str(WHO.pw_uid)}


def test_check_without_root_rights_says_what_serving_would(folder):
    (folder / "mine" / "app.py").write_text(BORN + APP)
    line = [*command("app:app"), "--chdir", str(folder / "mine"), "--check", "--user", USER]
    done = subprocess.run(line, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "syncless: app:app can be served\n"), done.stderr
    assert (folder / "mine" / "imported").read_text() == f"{WHO.pw_uid} "


@pytest.mark.parametrize("kind", WHY)
def test_files_of_the_module_logging_are_refused_too(folder, kind):
    path = make_trap(kind, folder)
    (folder / "syncless.toml").write_text(
        f"[logging.handlers.file]\nclass = 'logging.FileHandler'\nfilename = '{path}'\nmode = 'w'\n"
        "[logging.loggers.syncless]\nhandlers = ['file']\n"
    )
    assert WHY[kind] in fails(folder, "--workers", "1")
    assert is_untouched(path if kind == "file of root" else folder / "victim")


def test_user_serves_from_no_directory_that_only_root_could_enter(folder):
    (folder / "closed").mkdir(mode=0o700)
    (folder / "closed" / "open").mkdir()
    (folder / "mine" / "current").symlink_to("../closed/open")
    said = fails(folder, "--chdir", "mine/current")
    assert f"{folder}/mine/current: the user cannot change to it: Permission denied" in said
    said = fails(folder, "--chdir", "mine/current", "--access-log", "log")
    assert "current on the way to it is a symbolic link" in said and not os.listdir(
        folder / "closed" / "open"
    )


# -- places ------------------------------------------------------------------------------------------------


def test_directory_that_is_swapped_meanwhile_does_not_count(folder):
    (folder / "root").mkdir()
    with Place(folder / "mine" / "new") as place:
        (folder / "mine").rename(folder / "away")
        (folder / "mine").symlink_to("root")
        os.close(place.append(APPEND, HERS))
    assert not os.listdir(folder / "root") and (folder / "away" / "new").stat().st_uid == WHO.pw_uid


def test_links_are_followed_where_only_root_can_have_made_them(folder):
    (folder / "link").symlink_to("victim")
    (folder / "up").symlink_to("/")
    os.close(append_to(folder / "up" / str(folder / "link")[1:], APPEND, HERS))
    assert (folder / "victim").stat().st_uid == WHO.pw_uid
    (folder / "sticky").mkdir()
    (folder / "sticky").chmod(0o1777)
    link = folder / "sticky" / "link"
    link.symlink_to("../app.py")
    os.close(append_to(link, APPEND))
    os.chown(link, *HERS, follow_symlinks=False)
    with pytest.raises(PermissionError, match="it is a symbolic link"):
        append_to(link, APPEND)


def test_circle_of_links_ends(folder):
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        Place(folder / "a")


def test_directory_of_roots_in_another_users_is_no_safer(folder):
    """Its user can put another one in its place."""
    (folder / "mine" / "inner").mkdir()
    (folder / "mine" / "inner" / "log").symlink_to("../../victim")
    with pytest.raises(PermissionError, match="it is a symbolic link"):
        append_to(folder / "mine" / "inner" / "log", APPEND, HERS)


def test_fifo_of_others_is_not_waited_for(folder):
    path = folder / "mine" / "fifo"
    os.mkfifo(path)
    os.chown(path, *HERS)
    with pytest.raises(PermissionError, match="FIFO without a reader"):
        append_to(path, APPEND, HERS)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    fd = append_to(path, APPEND, HERS)
    assert os.get_blocking(fd) and os.write(fd, b"line") and os.read(reader, 9) == b"line"
    os.close(fd)
    os.close(reader)


def test_devices_stay_roots(folder):
    """As /dev/null, but a device of our own: a failing test must harm no other program."""
    path = folder / "null"
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        fd = append_to(path, APPEND, HERS)
    except PermissionError:
        pytest.skip("no device can be made or opened here")
    os.close(fd)
    assert path.stat().st_uid == 0


def test_open_file_of_another_process_is_opened_through_proc(folder):
    with open(folder / "log", "w") as log, subprocess.Popen(["sleep", "60"], stdout=log) as other:
        os.unlink(folder / "log")
        fd = append_to(f"/proc/{other.pid}/fd/1", APPEND, HERS)
        assert os.path.sameopenfile(fd, log.fileno())
        os.close(fd)
        other.kill()


def test_log_file_of_other_users_may_be_any_link(folder):
    """For a process that is not root's a path means what it always means."""
    program = (
        "import os\nfrom syncless.http.log.errorlog import LogFile\n"
        f"os.setgroups([]); os.setresgid(*[{WHO.pw_gid}] * 3); os.setresuid(*[{WHO.pw_uid}] * 3)\n"
        f"os.chdir({str(folder / 'mine')!r}); os.symlink('real', 'log')\n"
        "file = LogFile('log'); file.write('one'); file.reopen(); file.write('two'); file.close()\n"
        "print(open('real').read())\n"
    )
    done = run_unchecked(program, env=environment())
    assert done.stdout == "onetwo\n", done.stderr


def test_lock_of_a_running_server_counts_in_a_directory_of_others(folder):
    path = folder / "mine" / "pid"
    with PidFile(path):
        with pytest.raises(FileExistsError, match=f"running process {os.getpid()}"), PidFile(path):
            pass
        assert path.read_text() == f"{os.getpid()}\n"
    assert not os.listdir(folder / "mine")


def test_stale_pid_file_gets_a_successor_and_keeps_its_content(folder):
    path = folder / "mine" / "pid"
    path.write_text("999999\n")
    with open(path) as old, PidFile(path):
        assert path.read_text() == f"{os.getpid()}\n" and old.read() == "999999\n"


class Swapped(socket.socket):
    """Others put a link in the place of its file at once."""

    def bind(self, path):
        super().bind(path)
        os.unlink(path)
        os.symlink("../victim", path)


def test_link_in_the_place_of_a_new_socket_gives_nothing_away(folder):
    path = str(folder / "mine" / "socket")
    with (
        Swapped(socket.AF_UNIX) as sock,
        pytest.raises(PermissionError, match="has replaced"),
    ):
        bind_file(sock, path, 0o666, HERS)
    assert is_untouched(folder / "victim")


def test_stale_socket_of_roots_is_not_removed_by_a_link_of_others(folder):
    (folder / "root").mkdir()
    path = folder / "root" / "socket"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
    (folder / "mine" / "logs").symlink_to("../root")
    remove_stale(str(folder / "mine" / "logs" / "socket"))
    assert path.exists()


def test_file_that_is_opened_anew_is_given_to_the_same_owner(folder):
    path = folder / "mine" / "log"
    log = LogFile(path, HERS)
    path.rename(folder / "mine" / "old")
    log.reopen()
    log.close()
    assert path.stat().st_uid == WHO.pw_uid
