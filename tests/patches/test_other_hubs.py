"""gevent and eventlet beside syncless: their import is left alone; a hub of theirs that takes the thread of
our loop for itself is told. gevent's, and eventlet's default, wait in our loop under the patch."""

import importlib.util
import os
import subprocess
import sys
import urllib.request

import pytest

import syncless

pytestmark = pytest.mark.slow

ALONE = {**os.environ, "EVENTLET_HUB": "epolls"}
START = {"gevent": "gevent.spawn(int).join()", "eventlet": "eventlet.spawn(int).wait()"}
PROGRAMS = {
    "patched": """
from syncless.patches import patch_all
patch_all()
import {library}
print('imported', flush=True)
{start}
""",
    "imported before": """
import {library}
from syncless.patches import patch_all
patch_all()
print('imported', flush=True)
{start}
""",
    "in a thread": """
from syncless.patches import patch_all
patch_all()
import {library}, threading
print('imported', flush=True)
thread = threading.Thread(target=lambda: ({start}))
thread.start()
thread.join()
""",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_hub_of_eventlets_own_is_told_once(program):
    library = "eventlet"
    pytest.importorskip(library, reason=f"runs the hub of {library}: pip install {library}")
    program = PROGRAMS[program].format(library=library, start=f"{START[library]}, {START[library]}")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ALONE)
    try:
        _, errors = syncless.run_in_thread(process.communicate, timeout=60)
    except subprocess.TimeoutExpired:  # the rest is up to the program
        process.kill()
        _, errors = process.communicate()
    assert errors.count(f"the hub of {library} starts to run") == 1 and "async_mode='threading'" in errors, (
        errors
    )


@pytest.mark.parametrize("library", START)
def test_import_alone_and_hubs_in_threads_of_their_own_are_left_alone(library):
    pytest.importorskip(library, reason=f"runs the hub of {library}: pip install {library}")
    program = f"""
from syncless.patches import patch_all
patch_all()
import {library}, syncless
syncless.run_in_thread(lambda: {START[library]})
print("fine")
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "fine\n" and "the hub of" not in done.stderr, done.stderr


def ask(url):
    try:
        return urllib.request.urlopen(url, timeout=60).read()
    except OSError:
        return "no answer"


@pytest.mark.parametrize("program", PROGRAMS)
def test_hub_of_gevent_waits_in_our_loop(program):
    pytest.importorskip("gevent", reason="runs gevent's hub: pip install gevent")
    start = "print(gevent.spawn(lambda: gevent.sleep(0.001) or 'ended').get())"
    program = PROGRAMS[program].format(library="gevent", start=start)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "imported\nended\n" and not done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("library", "options"), [("gevent", ["--no-patch"]), ("eventlet", ["--no-patch"]), ("eventlet", [])]
)
def test_server_tells_of_a_hub_that_takes_its_thread(tmp_path, library, options):
    pytest.importorskip(library, reason=f"runs the hub of {library}: pip install {library}")
    (tmp_path / "site.py").write_text("")
    (tmp_path / "app.py").write_text(f"""
import {library}
def app(environ, start_response):
    if environ["PATH_INFO"] == "/hub":
        {START[library].replace("int", f"{library}.sleep, 60")}
    start_response("200 OK", [])
    return [b"answered"]
""")
    command = [
        sys.executable,
        "-W",
        "ignore::DeprecationWarning",
        "-m",
        "syncless",
        "app:app",
        "--bind",
        "127.0.0.1:0",
        *options,
    ]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ALONE
    )
    try:
        address = process.stdout.readline().split(" on ")[1].split()[0]
        assert (
            syncless.run_in_thread(lambda: urllib.request.urlopen(address, timeout=60).read()) == b"answered"
        )
        asking = syncless.spawn(syncless.run_in_thread, ask, address + "hub")
        told = syncless.run_in_thread(lambda: next(line for line in process.stderr if "the hub of" in line))
        assert f"the hub of {library} starts to run" in told and "async_mode='threading'" in told
    finally:
        process.kill()
        process.communicate()
    assert asking.result() == "no answer"


BESIDE_EVENTLET = """
from syncless.patches import patch_all
{before}
patch_all()
import eventlet, eventlet.wsgi, syncless, threading, urllib.request
turns = []
def takes_turns():
    while True:
        turns.append(1)
        syncless.sleep(0.001)
syncless.spawn(takes_turns)
def square(number):
    before = len(turns)
    while len(turns) < before + 2:
        eventlet.sleep(0.001)
    return number * number
assert list(eventlet.GreenPool(3).imap(square, range(4))) == [0, 1, 4, 9]
asking = [syncless.spawn(lambda each: eventlet.spawn(square, each).wait(), each) for each in range(4)]
assert [one.result() for one in asking] == [0, 1, 4, 9]

def app(environ, start_response):
    start_response("200 OK", [])
    return [b"%d" % square(5)]
listener = eventlet.listen(("127.0.0.1", 0))
serving = syncless.spawn(eventlet.wsgi.server, listener, app, log_output=False)
url = "http://127.0.0.1:%d/" % listener.getsockname()[1]
asking = [syncless.spawn(lambda: urllib.request.urlopen(url, timeout=60).read()) for _ in range(5)]
assert [one.result() for one in asking] == [b"25"] * 5
thread = threading.Thread(target=lambda: eventlet.spawn(square, 3).wait())
thread.start()
thread.join(60)
assert not thread.is_alive()
left = syncless.spawn(eventlet.sleep, 1000)
syncless.sleep(0.01)
left.kill()
assert left.done()
print("to the end")
"""


@pytest.mark.parametrize("before", ["", "import eventlet.hubs"])
def test_hubs_of_eventlet_wait_in_our_loop_each_in_its_tasklet(before):
    if importlib.util.find_spec("eventlet") is None:  # imported here, it warns of each fork of a later test
        pytest.skip("runs hubs of eventlet: pip install eventlet")
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        BESIDE_EVENTLET.format(before=before),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "to the end\n" and not done.stderr, done.stdout + done.stderr
