"""A Python prompt in a process whose tasklets keep running, in its own terminal or from another one.

``python -m syncless console`` opens a prompt in a new process, ``python -m syncless console PID`` in a
process that has called listen() or was started with ``SYNCLESS_CONSOLE=1``. Prompt and process communicate
over a UNIX socket that only the same user can open.
"""

from syncless.console.client import attach
from syncless.console.server import Console, ConsoleExists, listen, listen_if_asked, socket_path

__all__ = ["Console", "ConsoleExists", "attach", "listen", "listen_if_asked", "socket_path"]
