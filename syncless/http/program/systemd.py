"""Messages to a service manager: ready, reloading, stopping, alive (sd_notify(3), systemd.service(5)
Type=notify and notify-reload)."""

from __future__ import annotations

import _socket
import contextlib
import os
import time
from collections.abc import Mapping


class ServiceManager:
    """Tells the one that NOTIFY_SOCKET names; does nothing where it is not set. Never waits, and never fails:
    the service goes on."""

    def __init__(self, variables: Mapping[str, str] = os.environ):
        self._path = variables.get("NOTIFY_SOCKET", "")
        self.interval = 0.0
        """Seconds after which it wants to hear that the process is alive: half of WatchdogSec. 0: never."""
        if self._path and variables.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            with contextlib.suppress(ValueError):
                self.interval = int(variables.get("WATCHDOG_USEC", "0")) / 2e6
        self._told_alive = 0.0

    def tell(self, *lines: str) -> None:
        if not self._path:
            return
        path = "\0" + self._path[1:] if self._path.startswith("@") else self._path
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            sock.sendto("\n".join(lines).encode(), path)
        except OSError:
            pass  # it has gone, or does not read
        finally:
            sock.close()

    def ready(self, status: str) -> None:
        """The service has started, or has reloaded. `status` is shown by systemctl status."""
        self.tell("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        self.tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}", "STATUS=Reloading")

    def stopping(self) -> None:
        self.tell("STOPPING=1", "STATUS=Stopping")

    def alive(self) -> None:
        """To be called once in `interval` at least; tells it as often as that."""
        now = time.monotonic()
        if self.interval and now - self._told_alive >= self.interval / 2:
            self._told_alive = now
            self.tell("WATCHDOG=1")
