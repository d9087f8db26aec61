"""The process's side of a console: a UNIX socket that only its user can open, and a tasklet for each attached
terminal."""

from __future__ import annotations

import codeop
import contextvars
import errno
import os
import stat
import struct
import sys
import traceback
from types import CodeType
from typing import Any

from syncless import debug
from syncless._core.exits import TaskletExit
from syncless._core.tasklet import Tasklet, spawn
from syncless._core.wait.queues import Queue
from syncless.console.protocol import LINE_BYTES, ProtocolError, decode, encode
from syncless.io import socket
from syncless.io.guardedfiles import Place
from syncless.io.socketfiles import SocketFile, bind_file, remove_stale, why_taken

VARIABLE = "SYNCLESS_CONSOLE"
"""Environment variable: 1 to listen at the default path, or a path for the socket. A worker adds its process
ID to the path, because its siblings and its predecessor listen, too."""

_attached: contextvars.ContextVar[_Session | None] = contextvars.ContextVar("syncless console", default=None)


class ConsoleExists(RuntimeError):
    """This process already listens."""


def _directory() -> str:
    """Return the folder of the sockets, which only its user can enter. Raise RuntimeError if others can enter
    it."""
    import tempfile  # takes long to load

    runtime = os.environ.get("XDG_RUNTIME_DIR")
    path = f"{runtime}/syncless" if runtime else f"{tempfile.gettempdir()}/syncless-{os.getuid()}"
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.stat(path, follow_symlinks=False)
    with Place(f"{path}/console") as place:
        swapped = place.guarded  # by whoever may write the directory above, and this process is root's
    closed = not stat.S_IMODE(found.st_mode) & 0o077 and not swapped
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or not closed:
        raise RuntimeError(
            f"{path} must be a directory that only you can enter: remove it, or name a socket in {VARIABLE}"
        )
    return path


def socket_path(pid: int) -> str:
    """Return the default path at which the process with that ID listens."""
    return os.path.join(_directory(), f"console-{pid}")


class _Output:
    """Replaces sys.stdout or sys.stderr, and sends the output of a session's tasklets to its terminal."""

    def __init__(self, original: Any):
        self._original = original

    def write(self, text: str) -> int:
        session = _attached.get()
        if session is None or session.gone:
            return self._original.write(text)  # type: ignore[no-any-return]
        session.send({"output": text})
        return len(text)

    def flush(self) -> None:
        if _attached.get() is None:
            self._original.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def _take_streams() -> None:
    """Redirect the standard streams, again before each statement, because the program may have replaced
    them."""
    for name in ("stdout", "stderr"):
        if not isinstance(getattr(sys, name), _Output):
            setattr(sys, name, _Output(getattr(sys, name)))


def _give_back_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, _Output):
            setattr(sys, name, stream._original)


class _Session:
    """An attached terminal."""

    def __init__(self, sock: socket.socket, console: Console):
        self.sock = sock
        self.console = console
        self.gone = False
        self.running: Tasklet[Any] | None = None
        self._compile = codeop.CommandCompiler()
        self._outbox: Queue[Any] = Queue(1000)

    def send(self, message: dict[str, Any]) -> None:
        if not self.gone:
            self._outbox.put(encode(message))

    def _deliver(self) -> None:
        try:
            while (data := self._outbox.get()) is not None:
                self.sock.sendall(data)
        except OSError:
            pass
        finally:
            self.gone = True
            while not self._outbox.empty():
                self._outbox.get()  # a tasklet that waits for room goes on

    def serve(self) -> None:
        delivery = spawn(self._deliver)
        delivery.name = "console's output"
        try:
            with self.sock.makefile("rb") as lines:
                while line := lines.readline(LINE_BYTES):
                    self._handle(decode(line))
        except (OSError, ProtocolError):
            pass
        finally:
            if self.running is not None:
                self.running.kill(block=False)
            if not self.gone:
                self._outbox.put(None)
            delivery.join(1)
            delivery.kill()

    def _handle(self, message: dict[str, Any]) -> None:
        if "ping" in message:
            self.send({"pong": True})
        elif "interrupt" in message:
            if self.running is not None:
                self.running.kill(KeyboardInterrupt, block=False)
        elif "complete" in message:
            self.send({"completions": self._completions(str(message["complete"]))})
        elif self.running is not None:
            self.send({"output": "the previous statement is still running\n"})
            self.send({"more": False})
        else:
            self._source(str(message.get("source", "")))

    def _completions(self, text: str) -> list[str]:
        import rlcompleter  # here, because it imports readline, which may write to the terminal

        completer = rlcompleter.Completer(self.console.namespace)
        found: list[str] = []
        try:
            while len(found) < 200 and (word := completer.complete(text, len(found))) is not None:
                found.append(word)
        except Exception:
            pass  # a property of the completed object failed
        return found

    def _source(self, source: str) -> None:
        token = _attached.set(self)
        try:
            code = self._compile(source, "<console>", "single")
            if code is None:
                self.send({"more": True})
                return
            _take_streams()
            self.running = spawn(self._run, code)
            self.running.name = "console"
        except (SyntaxError, ValueError, OverflowError) as error:
            self.send({"output": "".join(traceback.format_exception_only(error))})
            self.send({"more": False})
        finally:
            _attached.reset(token)

    def _run(self, code: CodeType) -> None:
        try:
            exec(code, self.console.namespace)
        except TaskletExit:
            raise
        except BaseException as error:
            trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
            self.send({"output": "".join(traceback.format_exception(type(error), error, trace))})
        finally:
            self.running = None
            self.send({"more": False})


def _same_user(sock: socket.socket) -> bool:
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the mode of the directory keeps others out
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return uid in (os.getuid(), 0)


_console: Console | None = None


class Console:
    """Listens on a UNIX socket in tasklets of the thread that creates it, until close()."""

    def __init__(self, path: str, namespace: dict[str, Any] | None = None):
        self.path = path
        self.pid = os.getpid()
        self._namespace = None if namespace is None else {"debug": debug, **namespace}
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            remove_stale(path)
            try:
                bind_file(self._listener, path, 0o600)
            except OSError as error:
                why = why_taken(path) if error.errno == errno.EADDRINUSE else error.strerror
                raise OSError(error.errno, f"cannot listen on {path}: {why}") from None
            self._file = SocketFile(path)
            self._listener.listen(5)
        except BaseException:
            self._listener.close()
            raise
        self._sessions: dict[Tasklet[Any], socket.socket] = {}
        self._accepting = spawn(self._accept)
        self._accepting.name = "console"

    @property
    def namespace(self) -> dict[str, Any]:
        """The names that statements use: by default those of __main__, and `debug` if __main__ has no such
        name."""
        if self._namespace is not None:
            return self._namespace
        names = sys.modules["__main__"].__dict__
        names.setdefault("debug", debug)
        return names

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            if not _same_user(sock):
                sock.close()
                continue
            session = spawn(_Session(sock, self).serve)
            session.name = "console's session"
            self._sessions[session] = sock
            session.add_done_callback(self._ended)

    def _ended(self, session: Tasklet[Any]) -> None:
        self._sessions.pop(session).close()

    def close(self) -> None:
        """Stop listening and disconnect all terminals."""
        global _console
        self._accepting.kill()
        for session in list(self._sessions):
            session.kill()
        self._listener.close()
        _give_back_streams()
        if os.getpid() == self.pid:
            self._file.remove()
        if _console is self:
            _console = None

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def listen(path: str | None = None, namespace: dict[str, Any] | None = None) -> Console:
    """Let ``python -m syncless console PID`` attach to this process.

    `path` is the path of the UNIX socket; a client finds the default path by the process ID. `namespace` has
    the names that statements see and change, by default those of `__main__`. Output goes to the attached
    terminal. Raise ConsoleExists if this process already listens, OSError if it cannot listen.
    """
    global _console
    if _console is not None and _console.pid == os.getpid():
        raise ConsoleExists(f"this process already listens at {_console.path}")
    _console = Console(path or socket_path(os.getpid()), namespace)
    return _console


def listen_if_asked(worker: bool = False) -> Console | None:
    """Call listen() if the environment variable SYNCLESS_CONSOLE is 1 or the path of a socket, to which a
    ``worker`` adds its process ID.

    If listen() fails, print a message to stderr and return None. Return None as well if the variable is not
    set, or if this process already listens.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted in ("", "0") or (_console is not None and _console.pid == os.getpid()):
        return None
    try:
        return listen(None if wanted == "1" else f"{wanted}-{os.getpid()}" if worker else wanted)
    except (OSError, RuntimeError) as error:
        print(f"syncless: cannot open the console: {error}", file=sys.stderr)
        return None
