"""A connection that fails for want of memory or of descriptors leaves nothing behind."""

import asyncio
import gc
import os
import resource
import socket
import sys

import pytest

from tests.asyncio.loops import run
from tests.waiting import eventually


class Told(asyncio.Protocol):
    calls = ()

    def connection_made(self, transport):
        self.calls += ("made",)

    def connection_lost(self, error):
        self.calls += ("lost",)


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_connection_without_memory_for_its_transport_is_closed():
    testcapi = pytest.importorskip("_testcapi")

    async def main():
        loop = asyncio.get_running_loop()
        after = 0
        while True:
            mine, other = socket.socketpair()
            mine.setblocking(False)
            told, waiter = Told(), loop.create_future()
            testcapi.set_nomemory(after, after + 1)
            try:
                transport = loop._make_socket_transport(mine, told, waiter)
            except MemoryError:
                transport = None
            finally:
                testcapi.remove_mem_hooks()
            with other:
                if transport is not None:
                    transport.abort()
                    return after
                assert mine.fileno() == -1 or after < 3  # nothing was there yet to close it
                mine.close()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert told.calls == () and not waiter.done()
            after += 1

    assert run(main()) > 10


async def connects(port):
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()


async def listens(port):
    async with await asyncio.start_server(print, "127.0.0.1", 0):
        pass


async def starts_child(port):
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1, stderr=-1)
    assert await process.communicate(b"hi") == (b"hi", b"")


async def sends_datagrams(port):
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
    )
    transport.close()


async def looks_up(port):
    await asyncio.get_running_loop().getaddrinfo("localhost", port)


async def uses_thread(port):
    await asyncio.to_thread(os.getpid)


leaves_pipes = pytest.mark.skipif(sys.version_info < (3, 11), reason="Popen of 3.10 leaves its pipes open")


@pytest.mark.parametrize(
    "call",
    [
        connects,
        listens,
        pytest.param(starts_child, marks=leaves_pipes),
        sends_datagrams,
        looks_up,
        uses_thread,
    ],
)
def test_call_without_descriptors_leaves_none_behind(call):
    async def main(port):
        await call(port)
        before = descriptors()
        for spare in range(12):
            limit_descriptors(spare)
            try:
                await call(port)
            except OSError:
                pass
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            assert eventually(lambda: descriptors() == before), spare
            await call(port)
            assert eventually(lambda: descriptors() == before), spare

    def limit_descriptors(spare):
        taken = {int(each) for each in os.listdir("/proc/self/fd")}
        free = [number for number in range(len(taken) + 20) if number not in taken]
        resource.setrlimit(resource.RLIMIT_NOFILE, (free[spare], limits[1]))

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        run(main(server.getsockname()[1]))
