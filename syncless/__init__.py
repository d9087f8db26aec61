"""syncless: ordinary blocking Python code at event-loop speed.

Tasklets take turns in one thread: a call that would block parks its tasklet and lets the others run. All
public names are here. ``syncless.io.socket`` is the cooperative socket module, ``syncless.wsgi.serve`` the
web server.
"""

from queue import Empty, Full

from syncless._core.calls.threads import run_in_thread
from syncless._core.current import current, park, sleep, tasklets, wait_readable, wait_writable, wake
from syncless._core.exits import TaskletExit, TaskletKilled, set_error_handler
from syncless._core.tasklet import Tasklet, local, spawn, spawn_in
from syncless._core.threadloop import current_loop
from syncless._core.timeout import Timeout, deadline
from syncless._core.wait.queues import Channel, JoinableQueue, LifoQueue, PriorityQueue, Queue
from syncless._core.wait.select import after, putting, readable, select, sending, writable
from syncless._core.wait.sync import Event, Lock, Semaphore
from syncless.tools.conditions import Barrier, BoundedSemaphore, Condition, RLock
from syncless.tools.groups import TaskGroup
from syncless.tools.offloading import offload
from syncless.tools.pool import Pool
from syncless.tools.results import AsyncResult
from syncless.tools.waiting import iwait, join_all, wait

__version__ = "0.1.0"

__all__ = [
    "AsyncResult",
    "Barrier",
    "BoundedSemaphore",
    "Channel",
    "Condition",
    "Empty",
    "Event",
    "Full",
    "JoinableQueue",
    "LifoQueue",
    "Lock",
    "Pool",
    "PriorityQueue",
    "Queue",
    "RLock",
    "Semaphore",
    "TaskGroup",
    "Tasklet",
    "TaskletExit",
    "TaskletKilled",
    "Timeout",
    "after",
    "current",
    "current_loop",
    "deadline",
    "iwait",
    "join_all",
    "local",
    "offload",
    "park",
    "putting",
    "readable",
    "run_in_thread",
    "select",
    "sending",
    "set_error_handler",
    "sleep",
    "spawn",
    "spawn_in",
    "tasklets",
    "wait",
    "wait_readable",
    "wait_writable",
    "wake",
    "writable",
]
