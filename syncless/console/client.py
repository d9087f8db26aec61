"""The terminal's side of a console: lines are edited and completed here, and run in the process."""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Callable
from typing import Any, TextIO

from syncless.console.protocol import LINE_BYTES, ProtocolError, decode, encode
from syncless.console.server import VARIABLE, socket_path

HELD_SECONDS = 1.0
"""When the process has been silent for this long, it is asked whether its loop runs. After the same time
without a response, the user gets a notice."""
GREETING = (
    "A prompt in process {}; its tasklets keep running. debug.print_tasklets() shows them. Ctrl-D leaves."
)


class _Connection:
    def __init__(self, path: str, notice: Callable[[str], object]):
        self.notice = notice
        self._received = bytearray()
        self._asked = self._told = False  # asked whether the loop runs; told the user that it does not
        self.sock = socket.socket(socket.AF_UNIX)
        try:
            self.sock.connect(path)
        except OSError:
            self.sock.close()
            raise

    def ask(self, message: dict[str, Any]) -> None:
        self.sock.sendall(encode(message))

    def answer(self) -> dict[str, Any]:
        while True:
            line, end, rest = self._received.partition(b"\n")
            if not end:
                self._receive()
                continue
            self._received = rest
            message = decode(bytes(line))
            if self._told:
                self._told = False
                self.notice("the process responds again")
            if "pong" not in message:
                return message
            self._asked = False

    def _receive(self) -> None:
        if select.select([self.sock], [], [], HELD_SECONDS)[0]:
            data = self.sock.recv(LINE_BYTES)
            if not data:
                raise EOFError("the process has ended, or has closed its console")
            self._received += data
        elif not self._asked:
            self._asked = True
            self.ask({"ping": True})
        elif not self._told:
            self._told = True
            self.notice("the process does not respond: some code blocks its loop; waiting for it")

    def close(self) -> None:
        self.sock.close()

    def run(self, source: str, output: TextIO) -> bool:
        """Run the source and show its output. Return whether the source is incomplete. Ctrl-C interrupts the
        run."""
        self.ask({"source": source})
        while True:
            try:
                message = self.answer()
            except KeyboardInterrupt:
                self.ask({"interrupt": True})
                continue
            if "output" in message:
                output.write(message["output"])
                output.flush()
            elif "more" in message:
                return bool(message["more"])

    def completions(self, text: str) -> list[str]:
        self.ask({"complete": text})
        while True:
            message = self.answer()
            if "completions" in message:
                return [str(word) for word in message["completions"]]


class _Completer:
    def __init__(self, connection: _Connection):
        self.connection = connection
        self.found: list[str] = []

    def __call__(self, text: str, state: int) -> str | None:
        if state == 0:
            if not text.strip():
                return "\t"
            try:
                self.found = self.connection.completions(text)
            except (OSError, EOFError, ProtocolError):
                self.found = []
        return self.found[state] if state < len(self.found) else None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def connected(target: str) -> _Connection | None:
    """Return a connection to the process with that ID, or to the process that listens at that path. If there
    is none, print the reason to stderr and return None."""
    pid = int(target) if target.isdigit() else None
    try:
        path = target if pid is None else socket_path(pid)
        return _Connection(path, lambda text: print(f"syncless: {text}", file=sys.stderr))
    except (OSError, RuntimeError) as error:
        if pid is not None and not _alive(pid):
            reason = f"no such process: {pid}"
        elif isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
            reason = (
                f"{target} has no console that you can open: start the process with {VARIABLE}=1 in its "
                "environment, or let it call syncless.console.listen()"
            )
        else:
            reason = f"{target}: {error}"
        print(f"syncless: {reason}", file=sys.stderr)
        return None


def attach(target: str, output: TextIO | None = None) -> int:
    """Run a prompt in the process with that ID, or in the process that listens at that path. Return an exit
    status."""
    output = output or sys.stdout
    connection = connected(target)
    if connection is None:
        return 1
    interactive = sys.stdin.isatty()
    if interactive:
        try:
            import readline  # not before, because it may write to the terminal

            readline.set_completer(_Completer(connection))
            readline.parse_and_bind("tab: complete")
        except ImportError:
            pass
    if interactive:
        print(GREETING.format(target), file=output)
    source = ""
    try:
        while True:
            try:
                prompt = ("... " if source else ">>> ") if interactive else ""
                line = input(prompt)
            except KeyboardInterrupt:
                print("\nKeyboardInterrupt", file=output)
                source = ""
                continue
            except EOFError:
                if source:
                    connection.run(source + "\n", output)
                break
            source = f"{source}\n{line}" if source else line
            if not connection.run(source, output):
                source = ""
    except (EOFError, OSError, ProtocolError) as error:
        print(f"syncless: {error or 'the connection is lost'}", file=sys.stderr)
        return 1
    finally:
        connection.close()
    return 0
