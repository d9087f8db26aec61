"""The package where the standard library lacks names that only Linux has (tests/elsewhere)."""

import os
import pathlib

import pytest

from tests.programs import run_unchecked

ELSEWHERE = pathlib.Path(__file__).parents[1] / "elsewhere"


def run(program):
    path = os.pathsep.join(filter(None, [str(ELSEWHERE), os.environ.get("PYTHONPATH")]))
    done = run_unchecked(program, env=os.environ | {"PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_module_can_be_imported():
    assert run("""
import importlib.util, os, pkgutil, select, signal
assert not any(hasattr(os, name) for name in ("waitid", "pidfd_open", "eventfd", "setresuid"))
assert not hasattr(select, "epoll") and not hasattr(signal, "sigtimedwait")
import syncless
from syncless._core.poll.backends import BACKENDS
left_out = ["syncless.contrib.", "syncless.__main__"]
left_out += ["syncless.shared.redis", "syncless.eventlet.green."]  # of products that may be missing
if "epoll" not in BACKENDS:
    left_out.append("syncless.native")  # its threads wait by epoll, so it is not built
if importlib.util.find_spec("syncless._core.nativestack") is None:
    left_out.append("syncless.patches.libraries")  # they read ELF objects, too
for found in pkgutil.walk_packages(syncless.__path__, "syncless."):
    if not found.name.startswith(tuple(left_out)):
        importlib.import_module(found.name)
print("imported")
""").endswith("imported\n")


def test_each_area_is_patched_and_taken_back():
    assert (
        run("""
from syncless.patches import AREAS, OFF, is_patched, patch_all, unpatch
assert patch_all() == [area for area in AREAS if area not in OFF]
unpatch()
assert not any(is_patched(area) for area in AREAS)
print("and back")
""")
        == "and back\n"
    )


@pytest.mark.parametrize("blocked", [True, False])
def test_sigwait_lets_others_run(blocked):
    assert (
        run(f"""
import os, signal
from syncless.patches import patch_all
patch_all()
import syncless
if {blocked}:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
syncless.spawn(lambda: (syncless.sleep(0.05), os.kill(os.getpid(), signal.SIGUSR1)))
print(signal.sigwait([signal.SIGUSR1, signal.SIGUSR2]).name)
""")
        == "SIGUSR1\n"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_privileges_are_dropped_for_good():
    assert (
        run("""
from syncless.server.program.privileges import Privileges
Privileges(65534, 65533).drop()
with open("/proc/self/status") as file:
    status = dict(line.split(":", 1) for line in file)
print(*status["Uid"].split(), *status["Gid"].split(), *status["Groups"].split())
""")
        == "65534 65534 65534 65534 65533 65533 65533 65533 65533\n"
    )
