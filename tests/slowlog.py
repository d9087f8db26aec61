"""The error log of a server that is under attack: a pipe that is read slowly, so that it is full at times.

A line that is written must never wait for its reader, nor let other code run. What comes between a look and
its use shows only where the log is neither a file nor read at once.
"""

import contextlib
import fcntl
import os

import syncless
from syncless._core import nonblockingtext

F_SETPIPE_SZ = 1031  # fcntl has it since Python 3.10, where the system does
_read, _close = os.read, os.close  # not those of the patch


class SlowLog:
    """`stream` is for the server; a tasklet reads it, as `chance`, a random.Random, has it."""

    def __init__(self, chance):
        self.chance = chance
        self.read = []
        self.hurries = False
        self.reader, writer = os.pipe()
        fcntl.fcntl(writer, F_SETPIPE_SZ, chance.choice([4096, 4096, 1 << 20]))
        os.set_blocking(self.reader, False)
        self.stream = open(writer, "w")  # noqa: SIM115  # closed by close()
        self.tasklet = syncless.spawn(self.drink)

    def drink(self):
        while True:
            if not self.hurries:
                syncless.sleep(self.chance.choice([0, 0.001, 0.01, 0.1]))
            try:
                data = _read(self.reader, 100000 if self.hurries else self.chance.choice([10, 1000, 100000]))
            except BlockingIOError:
                syncless.wait_readable(self.reader)
                continue
            if not data:
                return
            self.read.append(data)

    def take(self):
        """All of it since the last time."""
        self.hurries = True
        with contextlib.suppress(ValueError):  # it is closed
            self.stream.flush()
        while any(text.pending for text in list(nonblockingtext._open_texts)):
            syncless.sleep(0.001)
        with contextlib.suppress(BlockingIOError):
            while data := _read(self.reader, 100000):
                self.read.append(data)
        self.hurries = False
        text, self.read = b"".join(self.read), []
        return text.decode(errors="replace")

    def close(self):
        """The server has stopped. The rest of its text."""
        text = self.take()
        self.stream.close()
        self.tasklet.kill()
        _close(self.reader)
        return text
