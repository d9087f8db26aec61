"""``python -m syncless run program.py ...``: an unchanged program, patched."""

from __future__ import annotations

import atexit
import os
import runpy
import sys
from typing import Any

from syncless.patches import OFF, describe, patch_all
from syncless.tools.blockers import Blockers

USAGE = """usage: python -m syncless run [option ...] program.py [argument ...]
       python -m syncless run [option ...] -m module [argument ...]

Runs an unchanged Python program with the standard library patched: threads are tasklets, and a call that
would block parks its tasklet.

--blockers      print to stderr at the end what held up all tasklets for 50 ms or longer: how often, for how
                long, where, and what would cure it
--describe      first print to stderr what is patched
--patch-cpu     run long computations (compression, hashing) in threads
--patch-native  make C libraries that are known to be safe wait cooperatively
"""
ON_REQUEST = {f"--patch-{area}": area for area in OFF}


def _report_blockers() -> None:
    blockers = Blockers()

    def report() -> None:
        blockers.stop()  # which counts a stall that lasts until the end
        print(blockers.report(), end="", file=sys.stderr)

    blockers.start()
    atexit.register(report)


def run(arguments: list[str]) -> int:
    """Runs the program with its own arguments, and raises what it raises, SystemExit included. Returns 2 if
    no program is named."""
    options = set()
    while arguments and arguments[0] in ("--describe", "--blockers", *ON_REQUEST):
        options.add(arguments[0])
        arguments = arguments[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    module = arguments[:1] == ["-m"]
    if len(arguments) < (2 if module else 1) or (arguments[0].startswith("-") and not module):
        print(USAGE, end="", file=sys.stderr)
        return 2
    areas: dict[str, Any] = {area: True for option, area in ON_REQUEST.items() if option in options}
    patch_all(**areas)
    if "--describe" in options:
        print(describe(), file=sys.stderr)
    if "--blockers" in options:  # patching is none
        _report_blockers()
    if module:
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    if not os.path.exists(arguments[0]):
        print(f"syncless: no such program: {arguments[0]}", file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    runpy.run_path(arguments[0], run_name="__main__")
    return 0
