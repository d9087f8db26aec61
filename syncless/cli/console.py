"""``syncless console``: a prompt in this process, or in another one."""

from __future__ import annotations

import sys
from typing import Any

import syncless
from syncless import debug
from syncless.console import attach
from syncless.patches import CannotPatch, patch_all

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
    try:
        patch_all(strict=True)
    except CannotPatch as error:
        print(f"syncless: {error}", file=sys.stderr)
        return 2
    interact()
    return 0


BANNER = (
    "syncless {version}: tasklets run while the prompt waits. "
    "spawn(f, ...) starts one, tasklets() lists them. Ctrl-D leaves."
)


def interact(namespace: dict[str, Any] | None = None) -> None:
    """Read and run statements until the end of the input. Tasklets keep running if input() is patched
    (patch_all())."""
    import code  # not before, because code.py in the working directory is an application, mostly

    names: dict[str, Any] = {"__name__": "__console__", "syncless": syncless, "debug": debug}
    names.update({name: getattr(syncless, name) for name in ("sleep", "spawn", "tasklets")})
    names.update(namespace or {})
    try:
        import readline  # not before, because it may write to the terminal
        import rlcompleter

        readline.set_completer(rlcompleter.Completer(names).complete)
        readline.parse_and_bind("tab: complete")
    except ImportError:
        pass
    code.InteractiveConsole(names).interact(BANNER.format(version=syncless.__version__), exitmsg="")
