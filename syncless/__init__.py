"""syncless: ordinary blocking Python code at event-loop speed.

Tasklets take turns in one thread; whatever would block parks its tasklet and lets the others run. The public names are all here;
``syncless.io.socket`` is the cooperative socket module, ``syncless.wsgi.serve`` the web server.
"""

from queue import Empty, Full

from syncless._core.loop import current_loop, wait_readable, wait_writable
from syncless._core.queues import Channel, Queue
from syncless._core.scheduler import set_error_handler
from syncless._core.sync import Event, Lock, Semaphore
from syncless._core.tasklet import Tasklet, TaskletExit, TaskletKilled, current, park, sleep, spawn, tasklets, wake
from syncless._core.threads import run_in_thread
from syncless._core.timeout import Timeout
from syncless._core.waiting import join_all, wait

__version__ = "0.1.0"

__all__ = [
    "Channel",
    "Empty",
    "Event",
    "Full",
    "Lock",
    "Queue",
    "Semaphore",
    "Tasklet",
    "TaskletExit",
    "TaskletKilled",
    "Timeout",
    "current",
    "current_loop",
    "join_all",
    "park",
    "run_in_thread",
    "set_error_handler",
    "sleep",
    "spawn",
    "tasklets",
    "wait",
    "wait_readable",
    "wait_writable",
    "wake",
]
