"""The command line: serve (the default), run, console, status and trace.

``syncless APP`` serves an application, ``run`` runs a patched program, ``console`` opens a prompt, ``status``
shows what a server does, ``trace`` records what its tasklets do. ``syncless`` and ``python -m syncless`` are
the same. Each command has its own file. arguments.py has the options of the serving command.
"""

from __future__ import annotations

import contextlib
import sys

from syncless.cli.console import console
from syncless.cli.serving import serve_command
from syncless.cli.status import status
from syncless.cli.tracing import trace
from syncless.console import listen_if_asked
from syncless.http.log.notices import open_missing
from syncless.patches.program import run
from syncless.server.program.firstprocess import begin_in_child


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    open_missing()
    arguments = sys.argv[1:] if arguments is None else arguments
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command not in ("console", "status", "trace"):
        begin_in_child()
    if command == "run":
        with listen_if_asked() or contextlib.nullcontext():
            return run(rest)
    if command == "console":
        return console(rest)
    if command == "status":
        return status(rest)
    if command == "trace":
        return trace(rest)
    return serve_command(rest if command == "serve" else arguments)


__all__ = ["main"]
