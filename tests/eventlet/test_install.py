"""What `import eventlet` gives under `syncless run` and after install(), the real one installed or not."""

import importlib.util
import os
import subprocess
import sys

import pytest

HIDES = """
import importlib.machinery
found = importlib.machinery.PathFinder.find_spec
def find_spec(name, *rest):
    return None if name == "eventlet" else found(name, *rest)
importlib.machinery.PathFinder.find_spec = find_spec
"""
"""A sitecustomize: the real eventlet is not installed."""

PROGRAM = """
import eventlet, eventlet.green.socket
from eventlet.queue import LightQueue
eventlet.monkey_patch()
import socket, sys, time
def ticks():
    while not ended:
        ticked.append(time.sleep(0.001))
ended, ticked, queue = [], [], LightQueue(0)
eventlet.spawn_n(ticks)
one, other = socket.socketpair()
eventlet.spawn(lambda: queue.put(one.recv(9)))
while len(ticked) < 3:
    eventlet.sleep(0.001)
other.send(b"said")
print(queue.get(), eventlet.hubs.get_hub().__class__.__module__, eventlet.__name__)
ended.append(1)
"""
OURS = "b'said' syncless.eventlet.hubs.epolls syncless.eventlet\n"


@pytest.fixture(params=["installed", "absent"])
def environment(request, tmp_path):
    if request.param == "absent":
        (tmp_path / "sitecustomize.py").write_text(HIDES)
        return {**os.environ, "PYTHONPATH": str(tmp_path)}
    if importlib.util.find_spec("eventlet") is None:
        pytest.skip("eventlet is not installed: pip install eventlet")
    return dict(os.environ)


def run(*arguments, env=None):
    command = [sys.executable, "-W", "ignore", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env=env)


def syncless_run(path, code, *options, env=None):
    (path / "program.py").write_text(code)
    return run("-m", "syncless", "run", *options, path / "program.py", env=env)


def test_run_gives_ours_whether_eventlet_is_installed_or_not(environment, tmp_path):
    done = syncless_run(tmp_path, PROGRAM, env=environment)
    assert done.stdout == OURS, done.stderr


def test_real_eventlet_is_kept_on_our_hub_if_asked_for(environment, tmp_path):
    done = syncless_run(tmp_path, PROGRAM, "--real", "eventlet", env=environment)
    if "PYTHONPATH" in environment and (tmp_path / "sitecustomize.py").exists():
        assert "ModuleNotFoundError: No module named 'eventlet'" in done.stderr
    else:
        assert done.stdout == "b'said' syncless.contrib.eventlet eventlet\n", done.stderr


@pytest.mark.parametrize("arguments", [["--real"], ["--real", "program.py"]])
def test_unknown_library_is_refused(arguments):
    done = run("-m", "syncless", "run", *arguments)
    assert done.returncode == 2 and done.stderr == "syncless: --real needs the name of a library: eventlet\n"


def test_run_imports_nothing_of_it_before_the_program_does(tmp_path):
    done = syncless_run(tmp_path, "import sys; print('syncless.eventlet' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


def test_import_eventlet_gives_the_same_modules_after_install(environment, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import syncless.eventlet\n"
        "syncless.eventlet.install()\n"
        "import eventlet, eventlet.green.socket, syncless.eventlet.green.socket\n"
        "from eventlet.queue import Empty, LightQueue\n"
        "assert eventlet is syncless.eventlet\n"
        "assert eventlet.green.socket is syncless.eventlet.green.socket\n"
        "assert LightQueue is syncless.eventlet.queue.LightQueue\n"
        "print('same', eventlet.__spec__.name)\n"
    )
    done = run(program, env=environment)
    assert done.stdout == "same syncless.eventlet\n", done.stderr


def test_install_after_an_import_of_the_real_one_is_refused():
    if importlib.util.find_spec("eventlet") is None:  # imported here, it warns of each fork of a later test
        pytest.skip("eventlet is not installed: pip install eventlet")
    done = run("-c", "import eventlet, syncless.eventlet as ours; ours.install()")
    assert "RuntimeError: eventlet has been imported already: call install() before" in done.stderr
