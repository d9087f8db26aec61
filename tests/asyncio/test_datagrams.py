"""The transport of datagrams."""

import asyncio
import socket

import pytest

from tests.asyncio.loops import run

pytestmark = pytest.mark.virtual_time


class Recorder(asyncio.DatagramProtocol):
    def __init__(self):
        self.got = asyncio.get_running_loop().create_future()
        self.ended = asyncio.get_running_loop().create_future()

    def datagram_received(self, data, addr):
        self.got.set_result((data, addr))

    def error_received(self, error):
        self.got.set_exception(error)

    def connection_lost(self, error):
        self.ended.set_result(error)


def test_peer_without_a_name_is_sent_to():
    async def main():
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with there:
            there.setblocking(False)
            transport, told = await loop.create_datagram_endpoint(Recorder, sock=here)
            assert transport.get_extra_info("peername") == ""
            transport.sendto(b"ping")
            assert await loop.sock_recv(there, 100) == b"ping"
            there.send(b"pong")
            assert (await told.got)[0] == b"pong"
            transport.close()
            assert await told.ended is None

    run(main())


@pytest.mark.parametrize("peer", [None, ("127.0.0.1", 9)])
def test_sending_after_the_end_is_ignored(peer):
    async def main():
        loop = asyncio.get_running_loop()
        transport, told = await loop.create_datagram_endpoint(
            Recorder, local_addr=("127.0.0.1", 0), remote_addr=peer
        )
        transport.close()
        assert await told.ended is None
        transport.sendto(b"late", peer or ("127.0.0.1", 9))

    run(main())
