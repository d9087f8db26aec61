"""Keeps connection pools from losing connections of interrupted tasklets.

The pools are those of psycopg_pool, redis-py and httpcore, which httpx uses. After a Timeout or a kill each
connection is in its pool, or closed.

Fact: these pools return their connections in `finally` blocks and handlers of Exception. They expect no
exceptions thrown from outside, because OS threads cannot be interrupted. Danger: a client of psycopg_pool
that was killed while it waited gets a connection, which nobody returns. Decision: the pool's own handler
catches every exception there, as it does for asyncio's cancellation. Danger: httpcore counts a connection
that was made for an interrupted request, and never opened, as in use. Decision: a connection that no request
holds is closed. Danger: some short steps wait here: for a lock in `queue.put` or at the end of a response,
and for a file when redis-py reads its own version. Decision: these steps are not interrupted.

Guarded by tests/patches/test_pools.py.
"""

from __future__ import annotations

from functools import partial, wraps
from typing import Any

from syncless._core.current import uninterrupted
from syncless.patches.registry import Patcher

WHY = "loses a connection when it is interrupted"


def psycopg_pool(patcher: Patcher, module: Any) -> None:
    patcher.member_of_module(module, "CLIENT_EXCEPTIONS", BaseException, WHY)
    patcher.done_whole(module.ConnectionPool, "run_task", WHY)
    clients = module.WaitingClient
    wait = clients.wait

    @wraps(wait)
    def wait_or_refuse(self: Any, timeout: float) -> Any:
        """Wait for a connection. If the tasklet is interrupted, even at the lock, refuse any connection."""
        try:
            return wait(self, timeout)
        except BaseException as error:
            self.error = self.error or error
            raise

    patcher.member(clients, "wait", wait_or_refuse, WHY)


def redis(patcher: Patcher, module: Any) -> None:
    for pool in (module.ConnectionPool, module.BlockingConnectionPool):
        for name in ("make_connection", "release"):
            patcher.done_whole(pool, name, WHY)
    for name in [name for name in vars(module) if name.startswith("record_connection_")]:
        count = getattr(module, name)
        patcher.member_of_module(module, name, partial(uninterrupted, count), WHY)


def httpcore(patcher: Patcher, module: Any) -> None:
    pools = module.ConnectionPool
    handle_request = pools.handle_request

    def give_up_lost(pool: Any) -> None:
        """Close connections that no request in the pool holds."""
        with pool._optional_thread_lock:
            held = {id(request.connection) for request in pool._requests}
            lost = [
                each
                for each in pool._connections
                if id(each) not in held and not each.is_idle() and not each.is_closed()
            ]
            for each in lost:
                pool._connections.remove(each)
            closing = pool._assign_requests_to_connections() if lost else []
        pool._close_connections(lost + closing)

    @wraps(handle_request)
    def handle(self: Any, request: Any) -> Any:
        try:
            return handle_request(self, request)
        except BaseException:
            give_up_lost(self)
            raise

    patcher.member(pools, "handle_request", handle, WHY)
    patcher.done_whole(module.PoolByteStream, "close", WHY)
