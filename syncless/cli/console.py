"""``syncless console``: a prompt in this process, or in another one."""

from __future__ import annotations

import sys

from syncless.console import attach
from syncless.console.here import interact
from syncless.patches import patch_all

USAGE = """usage: syncless console [PID | PATH]

A Python prompt; tasklets run while it waits. With a process ID or the path of a UNIX socket it is a prompt in
that process, which must have been started with SYNCLESS_CONSOLE=1 in its environment (a server, or a program
by python -m syncless run), or have called syncless.console.listen().
"""


def console(arguments: list[str]) -> int:
    if arguments in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        print(USAGE, end="", file=sys.stderr)
        return 2
    if arguments:
        return attach(arguments[0])
    patch_all()
    interact()
    return 0
