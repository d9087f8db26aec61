"""Python's own prompt under the patch: threads run while it waits for a line, and Ctrl-C is its own."""

import signal
import sys

import pytest

from tests.cli.terminal import Terminal
from tests.cli.test_loading import environment

AFTER_CTRL_C = (0, -signal.SIGINT)
"""How the interpreter ends after one: newer ones by the signal, without the patch, too."""
START = (
    "import sys, threading, time; from syncless.patches import patch_all, unpatch; patched = patch_all()\n"
    "count = 0\n"
)
COUNT = """
def tick():
    global count
    while True:
        time.sleep(0.01); count += 1
        if count == 5: sys.stdout.write("fi" + "ve\\n")

"""


def prompt(**variables):
    return Terminal(
        [sys.executable, "-q"], {**environment(), "TERM": "dumb", "PYTHON_BASIC_REPL": "1", **variables}
    )


def test_threads_run_while_the_prompt_waits():
    with prompt() as terminal:
        terminal.read(">>> ")
        for line in (START, COUNT):
            terminal.press(line)
        terminal.press("threading.Thread(target=tick, daemon=True).start()\n")
        terminal.read("five\n")  # though no key comes
        terminal.press("print('still ' + 'here')\n")
        terminal.read("\nstill here")
        terminal.press("exit()\n")
        assert terminal.process.wait(60) == 0


@pytest.mark.skipif(sys.version_info < (3, 13), reason="Python 3.13 has this prompt first")
def test_pasted_lines_and_threads_go_on_at_the_prompt_that_edits_by_itself():
    with prompt(PYTHON_BASIC_REPL="", TERM="xterm") as terminal:
        terminal.read(">>> ")
        terminal.press(
            "from syncless.patches import patch_all; patched = patch_all(); print('pat' + 'ched')\r"
        )
        terminal.read("patched")
        terminal.press("import threading, time  # all of a line is there before its first key is looked at\r")
        terminal.press("threading.Thread(target=lambda: print(time.sleep(0.1) or 'o' + 'ver')).start()\r")
        terminal.read("over")  # though no key comes
        terminal.press("exit()\r")
        assert terminal.process.wait(60) == 0


@pytest.mark.parametrize("begun", ["", "x = (1,\n"])
def test_control_c_clears_the_line_and_the_prompt_goes_on(begun):
    with prompt() as terminal:
        terminal.read(">>> ")
        terminal.press(START + "print('pat' + 'ched')\n")
        terminal.read("\npatched")
        terminal.press(begun)
        if begun:
            terminal.read("... ")  # else Ctrl-C may be faster, and takes the line away
        for number in range(3):
            terminal._came = b""
            terminal.press("\x03")
            terminal.read("KeyboardInterrupt\n>>> ")
            terminal.press(f"print('again ' + '{number}')\n")
            terminal.read(f"\nagain {number}\n>>> ")
        terminal.press("exit()\n")
        assert terminal.process.wait(60) in AFTER_CTRL_C and "ignored" not in terminal.text


def test_unpatch_takes_the_hook_away():
    with prompt() as terminal:
        terminal.read(">>> ")
        terminal.press(
            START + "from ctypes import c_void_p, pythonapi\n"
            "hook = lambda: bool(c_void_p.in_dll(pythonapi, 'PyOS_InputHook'))\n"
        )
        terminal.press("before = hook(); unpatch(); print('hook', before, hook())\n")
        terminal.read("\nhook True False")
        terminal.press("exit()\n")
        assert terminal.process.wait(60) == 0


SERVE = """
import urllib.request
from syncless.wsgi import Server

def app(environ, start_response):
    start_response("200 OK", [])
    return [b"hello"]

server = Server(app, port=0).start()
"""


def test_request_to_a_server_at_the_prompt_that_is_not_patched_is_told():
    with prompt() as terminal:
        terminal.read(">>> ")
        terminal.press(SERVE + "print('serves' + '.')\n")
        terminal.read("\nserves.")
        terminal.press("urllib.request.urlopen(server.url).read()\n")
        terminal.read("a client waits for this server, but the code at the prompt blocks its thread")
        terminal.read("call syncless.patches.patch_all() first")
        terminal.press("\x03")
        terminal.read("KeyboardInterrupt")
        terminal.press("from syncless.patches import patch_all; patched = patch_all()\n")
        terminal.press("urllib.request.urlopen(server.url).read()\n")
        terminal.read("b'hello'")
        terminal.press("exit()\n")
        assert terminal.process.wait(60) in AFTER_CTRL_C
