"""The side of the terminal: lines are edited and completed here, and run there."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any, TextIO

from syncless.console.protocol import LINE_BYTES, ProtocolError, decode, encode
from syncless.console.server import VARIABLE, socket_path


class _Connection:
    def __init__(self, path: str):
        self.sock = socket.socket(socket.AF_UNIX)
        try:
            self.sock.connect(path)
        except OSError:
            self.sock.close()
            raise
        self.lines = self.sock.makefile("rb")

    def ask(self, message: dict[str, Any]) -> None:
        self.sock.sendall(encode(message))

    def answer(self) -> dict[str, Any]:
        line = self.lines.readline(LINE_BYTES)
        if not line:
            raise EOFError("the process has ended, or has closed its console")
        return decode(line)

    def close(self) -> None:
        self.lines.close()
        self.sock.close()

    def run(self, source: str, output: TextIO) -> bool:
        """Shows what it prints. Returns whether it is incomplete. Ctrl-C interrupts it there."""
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


def attach(target: str, output: TextIO | None = None) -> int:
    """A prompt in the process of that number, or in that which listens at the path. Returns an exit status."""
    output = output or sys.stdout
    pid = int(target) if target.isdigit() else None
    try:
        path = target if pid is None else socket_path(pid)
        connection = _Connection(path)
    except (OSError, RuntimeError) as error:
        if pid is not None and not _alive(pid):
            reason = f"there is no process {pid}"
        elif isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
            reason = (
                f"{target} has no console of this user's: start it with {VARIABLE}=1 in the environment, "
                "or have it call syncless.console.listen()"
            )
        else:
            reason = f"{target}: {error}"
        print(f"syncless: {reason}", file=sys.stderr)
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
        print(f"A prompt in process {target}; its tasklets go on. debug.print_tasklets() shows them. Ctrl-D leaves.", file=output)
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
