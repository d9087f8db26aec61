"""The titles of the command's processes in `ps`."""

import pathlib

import pytest

from tests.cli.test_loading import HELLO, command, environment
from tests.cli.test_patch import Served
from tests.programs import run_unchecked


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hello.py").write_text(HELLO.replace('b"found"', "str(__import__('os').getpid()).encode()"))
    return tmp_path


def title(pid):
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()


def test_processes_have_titles(folder):
    pytest.importorskip(
        "setproctitle", reason="setproctitle is not installed: pip install 'syncless[titles]'"
    )
    with Served(folder, command("hello:app", "--bind", "127.0.0.1:0", "--workers", "1")) as server:
        assert title(server.get("/")) == "syncless: worker 1 hello:app"
        assert title(server.process.pid) == "syncless: master hello:app"
    with Served(folder, command("hello:app", "--bind", "127.0.0.1:0")) as server:
        assert title(server.process.pid) == "syncless: hello:app"


def test_titles_are_left_alone_without_the_package(folder):
    program = (
        "import sys; sys.modules['setproctitle'] = None\n"
        "from syncless.server.program.process import set_title; set_title('worker 1', 'hello:app')\n"
        "print(open('/proc/self/cmdline').read().count('syncless: '))"
    )
    done = run_unchecked(program, env=environment())
    assert done.stdout == "1\n" and done.stderr == ""  # the program itself has it
