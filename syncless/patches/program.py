"""Implements ``python -m syncless run program.py ...``: runs an unchanged program under the patch."""

from __future__ import annotations

import atexit
import builtins
import os
import pkgutil
import runpy
import sys
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from types import ModuleType
from typing import Any

from syncless.patches import AREAS, OFF, CannotPatch, describe, patch_all
from syncless.tools import aliases, former
from syncless.tools.blockers import Blockers

USAGE = """usage: python -m syncless run [option ...] program.py [argument ...]
       python -m syncless run [option ...] -m module [argument ...]

Runs an unchanged Python program with the standard library patched: threads are tasklets, and a call that
would block parks its tasklet.

--blockers      print to stderr at the end what blocked all tasklets for 50 ms or longer: how often, for how
                long, where, and what would fix it
--describe      first print to stderr what is patched
--no-patch-AREA leave one area of the standard library alone
--patch-cpu     run long computations (compression, hashing) in OS threads
--patch-native  make C libraries that are known to be safe wait cooperatively
--real eventlet keep the real eventlet, with a hub that waits in our loop; without this option
                "import eventlet" gives syncless.eventlet, whether eventlet is installed or not
"""
CHOICES = {f"--patch-{area}": (area, True) for area in OFF} | {
    f"--no-patch-{area}": (area, False) for area in AREAS if area not in OFF
}


DIALECTS = {"eventlet": "syncless.eventlet"}
"""A package that a program imports -> its stand-in, unless the program asks for the real one."""


def _report_blockers() -> None:
    blockers = Blockers()

    def report() -> None:
        blockers.stop()  # which counts a stall that lasts until the end
        print(blockers.report(), end="", file=sys.stderr)

    blockers.start()
    atexit.register(report)


def _run_main(program: str, is_module: bool) -> None:
    """Run a program as sys.modules["__main__"], and leave it there for atexit functions, running threads and
    pickle. runpy.run_path() would remove it after the last line of the program."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    if is_module:
        sys.path.insert(0, os.getcwd())
        runpy._run_module_as_main(program)  # type: ignore[attr-defined]
    elif pkgutil.get_importer(program) is not None:  # a folder or an archive
        sys.path.insert(0, os.path.abspath(program))
        runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]
    else:
        path = os.path.abspath(program)  # as in the interpreter
        sys.path.insert(0, os.path.dirname(path))
        kind = SourcelessFileLoader if path.endswith(".pyc") else SourceFileLoader
        loader = kind("__main__", path)
        main.__dict__.update(__file__=path, __loader__=loader, __cached__=None)
        if isinstance(loader, SourceFileLoader):  # whose get_code() would keep what it has compiled
            code: Any = loader.source_to_code(loader.get_data(path), path)
        else:
            code = loader.get_code("__main__")
        exec(code, main.__dict__)


def run(arguments: list[str]) -> int:
    """Run the program with its own arguments, and raise what it raises, including SystemExit. Return 2 if no
    program is named or the patch is not possible."""
    arguments, options, dialects = list(arguments), set(), dict(DIALECTS)
    while arguments and arguments[0] in ("--describe", "--blockers", "--real", *CHOICES):
        options.add(option := arguments.pop(0))
        if option == "--real" and dialects.pop(arguments.pop(0) if arguments else "", None) is None:
            print(f"syncless: --real needs the name of a library: {', '.join(DIALECTS)}", file=sys.stderr)
            return 2
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    module = arguments[:1] == ["-m"]
    if len(arguments) < (2 if module else 1) or (arguments[0].startswith("-") and not module):
        print(USAGE, end="", file=sys.stderr)
        return 2
    areas: dict[str, Any] = dict(choice for option, choice in CHOICES.items() if option in options)
    try:
        patch_all(strict=True, **areas)
    except CannotPatch as error:
        print(f"syncless: {error}", file=sys.stderr)
        return 2
    for library, ours in dialects.items():
        aliases.install(library, ours)
    former.tell_of_concurrence()
    if "--describe" in options:
        print(describe(), file=sys.stderr)
    if "--blockers" in options:  # patching is none
        _report_blockers()
    if module:
        arguments = arguments[1:]
    elif not os.path.exists(arguments[0]):
        print(f"syncless: no such program: {arguments[0]}", file=sys.stderr)
        return 2
    sys.argv = arguments
    _run_main(arguments[0], module)
    return 0
