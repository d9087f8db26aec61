"""docs/moving/gevent.md and eventlet.md: each line of their tables runs, in the order in which they stand
there."""

import importlib.util
import pathlib
import re

import pytest

from tests.programs import run_unchecked

PAGE = pathlib.Path(__file__).parent.parent.parent / "docs" / "moving" / "gevent.md"


def rows_of(page):
    """The code in each cell of the page's tables."""
    return [
        [re.findall("`([^`]*)`", cell) for cell in line.split("|")[1:-1]]
        for line in page.read_text().splitlines()
        if line.startswith("| `")
    ]


ROWS = rows_of(PAGE)
PROGRAM = """
import concurrent.futures, faulthandler, signal, socket, socketserver, subprocess, sys, threading, time
{imports}
Handler = socketserver.BaseRequestHandler
handle = lambda *arguments: None
listener = socket.create_server(("127.0.0.1", 0))
sock, peer = socket.socketpair()
names = dict(globals(), address=listener.getsockname(), f=lambda number: number + 1,
             slow=lambda: time.sleep(3600), done=lambda tasklet: None, app=lambda environ, start_response: [])
faulthandler.dump_traceback_later(60, exit=True)
for line in {lines!r}:
    names.setdefault("event", {event} if {event_needs!r} in sys.modules else None)
    print(line, file=sys.stderr, flush=True)
    exec(line, names)
print("ran", len({lines!r}))
sys.stdout.flush()
__import__("os")._exit(0)
"""


def run(lines, imports, event, event_needs):
    program = PROGRAM.format(lines=lines, imports=imports, event=event, event_needs=event_needs)
    done = run_unchecked(program, "-W", "ignore", timeout=120)
    assert done.stdout == f"ran {len(lines)}\n", done.stderr


def test_the_table_is_whole():
    assert len(ROWS) > 25 and all(len(row) == 3 and len(row[0]) == len(row[2]) == 1 for row in ROWS)


def test_our_column():
    imports = "import syncless, syncless.console, syncless.io.socket, syncless.patches, syncless.wsgi"
    run([row[2][0] for row in ROWS], imports, "syncless.Event()", "syncless")


def test_the_column_of_gevent():
    if importlib.util.find_spec("gevent") is None:
        pytest.skip("gevent is not installed: pip install gevent")
    modules = (
        "backdoor",
        "event",
        "local",
        "lock",
        "monkey",
        "pool",
        "pywsgi",
        "queue",
        "server",
        "socket",
        "subprocess",
    )
    imports = "import gevent, " + ", ".join(f"gevent.{name}" for name in modules)
    run([row[0][0] for row in ROWS], imports, "gevent.event.Event()", "gevent")


def test_the_column_of_eventlet():
    if importlib.util.find_spec("eventlet") is None:
        pytest.skip("eventlet is not installed: pip install eventlet")
    modules = ("corolocal", "event", "green.subprocess", "hubs", "patcher", "queue", "semaphore", "tpool")
    imports = "import eventlet, " + ", ".join(f"eventlet.{name}" for name in modules)
    lines = [row[1][0] for row in ROWS if row[1] and "wsgi.server" not in row[1][0]]  # which serves for ever
    lines += [
        "g = eventlet.spawn(f, 1)",
        "assert not g.dead",
        "g.wait()",
        "assert g.dead",
    ]  # bool(g) is not its opposite
    run(lines, imports, "None", "eventlet")


# -- eventlet.md: the results are the same in both columns ---------------------------------------------------

PAIRS = rows_of(PAGE.parent / "eventlet.md")
RESULTS = """
import faulthandler, signal, socket, socketserver, sys, threading, time
{imports}
done = lambda thread: None
handle = lambda *arguments: None
Handler = socketserver.BaseRequestHandler
sock, peer = socket.socketpair()
app = lambda environ, start_response: start_response("200 OK", []) and []
f = lambda number: number + 1
slow = lambda: time.sleep(3600)
names, results = globals(), []
faulthandler.dump_traceback_later(60, exit=True)
for line in {lines!r}:
    names["result"] = None
    print(line, file=sys.stderr, flush=True)
    exec(line, names)
    results.append(names["result"])
print(results)
sys.stdout.flush()
__import__("os")._exit(0)
"""


def results_of(column, imports):
    lines = [row[column][0] for row in PAIRS]
    program = RESULTS.format(imports=imports, lines=lines)
    done = run_unchecked(program, "-W", "ignore", timeout=120)
    assert done.returncode == 0 and done.stdout, done.stderr
    return done.stdout


def our_results():
    return results_of(1, "import syncless, syncless.console, syncless.debug, syncless.patches, syncless.wsgi")


def test_the_page_of_eventlet_is_whole():
    assert len(PAIRS) > 30 and all(len(row) == 2 and len(row[0]) == len(row[1]) == 1 for row in PAIRS)


def test_our_column_of_the_page_of_eventlet():
    assert our_results().count("None") < len(PAIRS)


def test_results_are_those_of_eventlet():
    if importlib.util.find_spec("eventlet") is None:
        pytest.skip("eventlet is not installed: pip install eventlet")
    modules = (
        "backdoor",
        "corolocal",
        "debug",
        "event",
        "hubs",
        "patcher",
        "queue",
        "semaphore",
        "tpool",
        "wsgi",
    )
    imports = "import eventlet, " + ", ".join(f"eventlet.{name}" for name in modules)
    assert results_of(0, imports) == our_results()
