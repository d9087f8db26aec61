"""``python -m syncless run program.py ...``: an unchanged program, patched."""

from __future__ import annotations

import os
import runpy
import sys

from syncless.patches import describe, patch_all

USAGE = """usage: python -m syncless run [--describe] program.py [argument ...]
       python -m syncless run [--describe] -m module [argument ...]

Runs an unchanged Python program with the standard library patched: what would block parks a tasklet, threads are tasklets.
--describe prints what is patched first, to stderr.
"""


def run(arguments: list[str]) -> int:
    """Runs the program with its own arguments; what it raises, SystemExit among it, is raised here. 2 if none
    is named."""
    if arguments[:1] == ["--describe"]:
        patch_all()
        print(describe(), file=sys.stderr)
        arguments = arguments[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    if (
        not arguments
        or (arguments[0] == "-m" and len(arguments) < 2)
        or (arguments[0].startswith("-") and arguments[0] != "-m")
    ):
        print(USAGE, end="", file=sys.stderr)
        return 2
    patch_all()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    if not os.path.exists(arguments[0]):
        print(f"syncless: there is no program {arguments[0]!r}", file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    runpy.run_path(arguments[0], run_name="__main__")
    return 0
