"""docs/moving/stackless.md: the replacements of the original Syncless's calls run."""

import pathlib
import re

from tests.programs import run_unchecked

PAGE = pathlib.Path(__file__).parent.parent.parent / "docs" / "moving" / "stackless.md"
PROGRAM = """
import faulthandler, os, select, signal, socket, ssl, sys, time, http.server
import syncless, syncless.console, syncless.patches, syncless.wsgi
import syncless.stackless as stackless

syncless.patches.patch_all()
channel, listener = stackless.channel(), socket.create_server(("127.0.0.1", 0))
sock, peer = socket.socketpair()
Handler = http.server.BaseHTTPRequestHandler
def app(environ, start_response):
    return []
def f(*arguments):
    return arguments
faulthandler.dump_traceback_later(60, exit=True)
for line in {lines!r}:
    print(line, file=sys.stderr, flush=True)
    eval(line)
print("to the end", flush=True)
os._exit(0)
"""


def test_each_replacement_of_the_original_syncless_runs():
    table = PAGE.read_text().partition("Call for call")[2].partition("\nNot needed any more")[0]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| `")]
    there, here = zip(*([re.findall("`([^`]*)`", cell) for cell in row] for row in rows), strict=True)
    assert len(rows) > 25 and all(there) and all(len(cell) == 1 for cell in here)
    program = PROGRAM.format(lines=[line for (line,) in here])
    done = run_unchecked(program, timeout=120)
    assert done.stdout == "to the end\n", done.stderr
