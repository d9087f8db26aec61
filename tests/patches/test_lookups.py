"""Lookups of names by C libraries, with a getaddrinfo that fails and waits as it is told."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.preload import without_preload

pytest.importorskip("syncless.patches.libraries.parking", reason="C libraries can be patched on Linux only")

COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
FOLDER = os.path.dirname(__file__)
BEGIN = """
import ctypes, errno, os, socket, sys
import syncless
from syncless.patches import patch_native
lib = ctypes.CDLL(sys.argv[1], use_errno=True)
assert patch_native(sys.argv[1])

def look_up(name):
    return lib.w_getaddrinfo(name), ctypes.get_errno()

def fails():
    return syncless.spawn(look_up, b"system").result(60) == (socket.EAI_SYSTEM, errno.EMFILE)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a program with the library that asks, and with the other getaddrinfo."""
    folder = tmp_path_factory.mktemp("lookups")
    made = {}
    for name in ("waits_in_c", "lookups_in_c"):
        made[name] = str(folder / f"{name}.so")
        source = os.path.join(FOLDER, f"{name}.c")
        command = [COMPILER, "-shared", "-fPIC", "-o", made[name], source, "-pthread"]
        subprocess.run(command, check=True, env=without_preload())

    def run(program):
        source, sink = os.pipe()
        before = os.environ.get("LD_PRELOAD", "")
        preload = f"{before} {made['lookups_in_c']}".strip()
        done = subprocess.run(
            [sys.executable, "-c", BEGIN + program, made["waits_in_c"], str(sink)],
            env={**os.environ, "LD_PRELOAD": preload, "LOOKUPS_END": str(source)},
            pass_fds=(source, sink),
            timeout=60,
        )
        os.close(source)
        os.close(sink)
        return done.returncode

    return run


def test_error_of_the_system_comes_with_its_number(run):
    assert run("os._exit(0 if fails() else 1)") == 0


def test_child_has_no_lookups_of_its_parent(run):
    told = """
for number in range(64):
    syncless.spawn(look_up, b"slow %d" % number)
syncless.sleep(0)
child = os.fork()
if child == 0:
    os._exit(0 if fails() else 1)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(told) == 0
