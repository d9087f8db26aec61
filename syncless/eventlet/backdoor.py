"""An interactive prompt in a running program, for each client of a socket."""

from __future__ import annotations

import errno
import sys
import traceback
from code import InteractiveConsole
from typing import Any

from syncless.eventlet import greenthread
from syncless.eventlet.support import greenlets

__all__ = ["SocketConsole", "backdoor", "backdoor_server"]

_CLOSED = {errno.EPIPE, errno.ECONNRESET, errno.EBADF}


class SocketConsole:
    """The prompt of a client. Its code prints to the client."""

    def __init__(self, desc: Any, hostport: Any, locals: dict[str, Any] | None) -> None:
        self.hostport, self.locals, self.desc = hostport, locals, desc
        self._out = _Written(desc)

    def run(self) -> None:
        """Read statements and run them until the client leaves."""
        try:
            console = InteractiveConsole(self.locals)
            console.raw_input = self._ask  # type: ignore[method-assign]
            console.write = self._out.write  # type: ignore[method-assign,assignment]
            console.runcode = self._run(console)  # type: ignore[method-assign,assignment]
            console.interact()
        except (SystemExit, greenlets.GreenletExit):
            pass
        except OSError as error:
            if error.errno not in _CLOSED:
                raise
        except ValueError:  # the file is closed
            pass
        finally:
            self.finalize()

    def _ask(self, prompt: str = "") -> str:
        self._out.write(prompt)
        line: str = self.desc.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")

    def _run(self, console: InteractiveConsole) -> Any:
        def run(code: Any) -> None:
            before, hook = sys.stdout, sys.displayhook
            sys.stdout = self._out  # type: ignore[assignment]
            try:
                exec(code, console.locals)
            except SystemExit:
                raise
            except BaseException:
                self._out.write(traceback.format_exc())
            finally:
                sys.stdout, sys.displayhook = before, hook

        return run

    def finalize(self) -> None:
        self.desc = None
        if self.hostport is not None:
            print(f"backdoor closed to {_named(self.hostport)}")


class _Written:
    """Text that goes to a client at once."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def write(self, text: str) -> int:
        self.file.write(text)
        self.file.flush()
        return len(text)

    def flush(self) -> None:
        self.file.flush()


def _named(address: Any) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
    return "unix"


def backdoor_server(sock: Any, locals: dict[str, Any] | None = None) -> None:
    """Accept clients until the green thread is killed; each gets a prompt, with these names."""
    listening = sock.getsockname()
    print(f"backdoor server listening on {_named(listening) if listening else 'unix'}")
    try:
        while True:
            connection = None
            try:
                connection = sock.accept()
                backdoor(connection, locals)
            except OSError as error:
                if error.errno not in _CLOSED:
                    raise
            finally:
                if connection:
                    connection[0].close()
    finally:
        sock.close()


def backdoor(conn_info: tuple[Any, Any], locals: dict[str, Any] | None = None) -> None:
    """Give a connected client a prompt."""
    connection, address = conn_info
    file = connection.makefile("rw")
    print(f"backdoor to {_named(address)}")
    greenthread.spawn(SocketConsole(file, address, locals).run)
