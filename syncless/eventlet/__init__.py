"""eventlet's API on our engine, for programs that were written for it.

``import syncless.eventlet as eventlet`` serves such a program without eventlet. A green thread is a tasklet,
so the standard library waits cooperatively in it under our patch. docs/moving/eventlet.md says what differs.
"""

from __future__ import annotations

from syncless.eventlet import (
    convenience,
    debug,
    event,
    greenpool,
    greenthread,
    hubs,
    patcher,
    queue,
    semaphore,
    support,
    timeout,
)
from syncless.eventlet.support.greenlets import getcurrent
from syncless.tools import aliases

__all__ = [
    "BoundedSemaphore",
    "CappedSemaphore",
    "Event",
    "GreenPile",
    "GreenPool",
    "Queue",
    "Semaphore",
    "StopServe",
    "Timeout",
    "connect",
    "convenience",
    "debug",
    "event",
    "getcurrent",
    "greenpool",
    "greenthread",
    "hubs",
    "install",
    "import_patched",
    "is_timeout",
    "kill",
    "listen",
    "monkey_patch",
    "patcher",
    "queue",
    "semaphore",
    "serve",
    "sleep",
    "spawn",
    "spawn_after",
    "spawn_after_local",
    "spawn_n",
    "support",
    "timeout",
    "with_timeout",
    "wrap_is_timeout",
    "wrap_ssl",
]

version_info = (0, 41, 0)
__version__ = "0.41.0"

Timeout = timeout.Timeout
with_timeout = timeout.with_timeout
wrap_is_timeout = timeout.wrap_is_timeout
is_timeout = timeout.is_timeout

connect = convenience.connect
listen = convenience.listen
serve = convenience.serve
StopServe = convenience.StopServe
wrap_ssl = convenience.wrap_ssl

greenlet = support.greenlets  # for greenlet.GreenletExit
TimeoutError = TimeoutError
exc_after = greenthread.exc_after
call_after_global = greenthread.call_after_global


class EventletDeprecationWarning(DeprecationWarning):
    """Never given; programs filter it out by its name."""


def install() -> None:
    """From now on, ``import eventlet`` gives this package, whether eventlet is installed or not. Raise
    RuntimeError if the real eventlet has been imported."""
    aliases.install("eventlet", __name__)


import_patched = patcher.import_patched
monkey_patch = patcher.monkey_patch

sleep = greenthread.sleep
spawn = greenthread.spawn
spawn_n = greenthread.spawn_n
spawn_after = greenthread.spawn_after
spawn_after_local = greenthread.spawn_after_local
kill = greenthread.kill

GreenPool = greenpool.GreenPool
GreenPile = greenpool.GreenPile

Queue = queue.Queue
Event = event.Event
Semaphore = semaphore.Semaphore
CappedSemaphore = semaphore.CappedSemaphore
BoundedSemaphore = semaphore.BoundedSemaphore
