"""A Redis of a test, which is killed and started again at the same addresses."""

import contextlib
import signal

import pytest

from tests.patches.servers import free_port, program, running

pytest.importorskip("redis", reason="redis is not installed: pip install redis")


class Daemon:
    def __init__(self, *options):
        self._command = [program("redis-server"), "--save", "", "--bind", "127.0.0.1", *options]
        self.port = free_port()
        self._life = contextlib.ExitStack()
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/3"

    def start(self):
        command = [*self._command, "--port", str(self.port)]
        self._process = self._life.enter_context(running(command, self.port, cwd="/"))

    def kill(self):
        self._process.kill()
        self.end()

    def end(self):
        self._life.close()

    @contextlib.contextmanager
    def halted(self):
        """It takes connections, and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)
