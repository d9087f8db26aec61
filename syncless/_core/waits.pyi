from typing import Protocol

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

def wait_readable(fd: int | _HasFileno, timeout: float | None = None) -> bool:
    """Parks the tasklet until the descriptor (an int or an object with fileno()) can be read without
    blocking.

    `timeout` in seconds; None waits for ever. Returns False when it passed. The descriptor may belong to
    anybody.
    """

def wait_writable(fd: int | _HasFileno, timeout: float | None = None) -> bool:
    """Parks the tasklet until the descriptor can be written without blocking; see wait_readable()."""
