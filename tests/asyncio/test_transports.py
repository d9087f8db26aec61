"""The transports of stream sockets: calls of the protocol, sending, and the end of a connection."""

import array
import asyncio
import gc
import socket
import warnings

import pytest

import syncless
from syncless import sleep, spawn
from tests.asyncio.loops import event_loop, run

pytestmark = pytest.mark.virtual_time


class Recorder(asyncio.Protocol):
    """Notes what it is told."""

    keeps_open = False
    error = None

    def __init__(self):
        self.told = []
        self.data = b""
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data

    def eof_received(self):
        self.told.append("eof")
        return self.keeps_open

    def pause_writing(self):
        self.told.append("pause")

    def resume_writing(self):
        self.told.append("resume")

    def connection_lost(self, error):
        self.error = error
        self.told.append("lost")
        self.ended.set_result(None)


class Buffered(Recorder, asyncio.BufferedProtocol):
    def get_buffer(self, sizehint):
        self.buffer = bytearray(1000)
        return self.buffer

    def buffer_updated(self, nbytes):
        self.data_received(bytes(self.buffer[:nbytes]))


def pair(family):
    if family == socket.AF_UNIX:
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = socket.create_connection(listener.getsockname())
        return listener.accept()[0], there


async def connected(protocol, family=socket.AF_INET):
    """A protocol on a transport, and the socket of its peer."""
    here, there = pair(family)
    _, protocol = await asyncio.get_running_loop().create_connection(protocol, sock=here)
    there.setblocking(False)
    return protocol, there


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


both_families = pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])


@both_families
@pytest.mark.parametrize("protocol", [Recorder, Buffered])
def test_protocol_gets_all_that_comes_and_the_end(in_backend, family, protocol):
    async def main():
        loop = asyncio.get_running_loop()
        told, there = await connected(protocol, family)
        with there:
            for size in (1, 1000, 65536, 300_000):
                told.data = b""
                await loop.sock_sendall(there, bytes(size))
                await until(lambda size=size: len(told.data) >= size)
            await loop.sock_sendall(there, b"last")
            there.shutdown(socket.SHUT_WR)
            await told.ended
        return len(told.data), told.data[-4:], told.told, told.error

    assert in_backend(lambda: run(main())) == (300_004, b"last", ["eof", "lost"], None)


@both_families
def test_data_that_comes_while_the_protocol_waits_is_read_afterwards(in_backend, family):
    class Waits(Recorder):
        calls = 0

        def data_received(self, data):
            self.calls += 1
            assert self.calls == 1, "it is still in the last call"
            sleep(0.01)
            self.calls -= 1
            super().data_received(data)

    async def main():
        told, there = await connected(Waits, family)
        with there:
            there.send(b"a")
            await asyncio.sleep(0.005)
            there.send(b"b")  # reported in the middle of the call for the first
            await until(lambda: told.data == b"ab")
            there.send(b"c")
            await asyncio.sleep(0.005)
            there.close()
            await told.ended
        return told.data

    assert in_backend(lambda: run(main())) == b"abc"


def test_unix_socket_that_gives_less_than_it_has_is_read_to_its_end():
    """Bytes that come with a descriptor are not joined to the next ones."""

    async def main():
        told, there = await connected(Recorder, socket.AF_UNIX)
        with there:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [there.fileno()]))]
            for letter in (b"a", b"b", b"c"):
                there.sendmsg([letter], rights)
            await until(lambda: told.data == b"abc")

    run(main())


def test_paused_transport_reads_nothing_until_it_is_resumed(in_backend):
    async def main():
        told, there = await connected(Recorder)
        transport = told.transport
        with there:
            transport.pause_reading()
            transport.pause_reading()
            assert not transport.is_reading() and "read=idle" in repr(transport)
            there.send(b"early")
            there.shutdown(socket.SHUT_WR)
            await asyncio.sleep(1)
            assert told.data == b"" and told.told == []
            transport.resume_reading()
            transport.resume_reading()
            assert transport.is_reading() and "read=polling" in repr(transport)
            await told.ended
        return told.data

    assert in_backend(lambda: run(main())) == b"early"


@both_families
def test_bytes_that_the_socket_does_not_take_are_sent_later_and_the_protocol_is_told(in_backend, family):
    sent = bytes(range(256)) * 20_000

    async def main():
        loop = asyncio.get_running_loop()
        told, there = await connected(Recorder, family)
        transport = told.transport
        with there:
            transport.set_write_buffer_limits(high=1000)
            assert transport.get_write_buffer_limits() == (250, 1000)
            piece = bytearray(sent[:1_000_000])
            transport.write(piece)
            piece[:] = bytes(len(piece))  # belongs to the program again
            transport.write(memoryview(sent)[1_000_000:2_000_000])
            transport.writelines([sent[2_000_000:2_000_001], b"", sent[2_000_001:]])
            assert transport.get_write_buffer_size() > 1000 and told.told == ["pause"]
            transport.close()
            transport.close()
            received = b""
            while data := await loop.sock_recv(there, 100_000):
                received += data
            await told.ended
        assert repr(transport) == f"<SocketTransport closed fd={transport._sock_fd}>"
        return received == sent, told.told

    assert in_backend(lambda: run(main())) == (True, ["pause", "resume", "lost"])


def test_many_small_pieces_are_sent_in_order():
    async def main():
        loop = asyncio.get_running_loop()
        told, there = await connected(Recorder)
        with there:
            pieces = [b"%d\n" % number for number in range(100_000)]
            told.transport.write(bytes(10_000_000))  # more than the socket takes
            for piece in pieces[:50_000]:
                told.transport.write(piece)
            told.transport.writelines(pieces[50_000:])
            told.transport.write_eof()
            received = []
            while data := await loop.sock_recv(there, 1_000_000):
                received.append(data)
            assert b"".join(received) == bytes(10_000_000) + b"".join(pieces)
            told.transport.abort()
            await told.ended

    run(main())


def test_half_closed_connection_can_be_written_to():
    async def main():
        loop = asyncio.get_running_loop()
        Keeps = type("Keeps", (Recorder,), {"keeps_open": True})
        told, there = await connected(Keeps)
        with there:
            there.send(b"question")
            there.shutdown(socket.SHUT_WR)
            await until(lambda: told.told == ["eof"])
            told.transport.write(b"answer")
            told.transport.write_eof()
            told.transport.write_eof()
            assert await loop.sock_recv(there, 100) == b"answer"
            assert await loop.sock_recv(there, 100) == b""
            with pytest.raises(RuntimeError, match=r"write\(\) after write_eof"):
                told.transport.write(b"more")
            with pytest.raises(RuntimeError, match=r"writelines\(\) after write_eof"):
                told.transport.writelines([b"more"])
            told.transport.close()
            await told.ended
        return told.data, told.told

    assert run(main()) == (b"question", ["eof", "lost"])


def test_abort_drops_what_is_unsent():
    async def main():
        told, there = await connected(Recorder)
        with there:
            told.transport.write(bytes(50_000_000))
            assert told.transport.get_write_buffer_size()
            told.transport.abort()
            assert told.transport.is_closing() and not told.transport.get_write_buffer_size()
            await told.ended
        assert told.transport.get_protocol() is None

    run(main())


def test_reset_connection_is_told_with_its_error(caplog):
    async def main():
        told, there = await connected(Recorder)
        there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        there.close()
        await told.ended
        for _ in range(10):
            told.transport.write(b"nobody reads it")
        return type(told.error)

    assert run(main()) is ConnectionResetError
    assert [record.getMessage() for record in caplog.records] == ["socket.send() raised exception."] * 6


def failing(method, base=Recorder):
    def fails(self, *args):
        raise ZeroDivisionError(method)

    return type("Fails", (base,), {method: fails})


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (failing("data_received"), "protocol.data_received() call failed"),
        (failing("eof_received"), "protocol.eof_received() call failed"),
        (failing("get_buffer", Buffered), "protocol.get_buffer() call failed"),
        (failing("buffer_updated", Buffered), "protocol.buffer_updated() call failed"),
    ],
)
def test_failing_protocol_ends_its_connection(protocol, message):
    async def main():
        contexts = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: contexts.append(context))
        told, there = await connected(protocol)
        with there:
            there.send(b"x")
            there.shutdown(socket.SHUT_WR)
            await told.ended
        assert type(told.error) is type(contexts[0]["exception"]) is ZeroDivisionError
        assert len(contexts) == 1 and contexts[0]["transport"] is told.transport
        return contexts[0]["message"]

    assert message in run(main())


def test_buffer_without_room_is_an_error_of_the_protocol():
    class Empty(Buffered):
        def get_buffer(self, sizehint):
            return bytearray()

    async def main():
        contexts = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: contexts.append(context))
        told, there = await connected(Empty)
        with there:
            there.send(b"x")
            await told.ended
        return str(told.error)

    assert "empty buffer" in run(main())


def test_wrong_arguments_are_refused():
    async def main():
        told, there = await connected(Recorder)
        with there:
            with pytest.raises(TypeError, match="bytes-like object, not 'str'"):
                told.transport.write("text")
            with pytest.raises(ValueError, match="must be >= low"):
                told.transport.set_write_buffer_limits(high=1, low=2)
            told.transport.write(b"")
            told.transport.writelines([])
            told.transport.close()
            await told.ended

    run(main())


def test_transport_is_what_libraries_ask_for():
    async def main():
        told, there = await connected(Recorder)
        with there:
            assert isinstance(told.transport, asyncio.Transport)
            assert told.transport.get_extra_info("peername") == there.getsockname()
            assert told.transport.get_extra_info("socket").fileno() == told.transport._sock_fd
            assert told.transport.get_extra_info("color", "none") == "none"
            assert not told.transport._closing
            told.transport.close()
            assert told.transport._closing
            await told.ended

    run(main())


@pytest.mark.realtime("the virtual clock sets the option itself")
@pytest.mark.parametrize("proto", [0, socket.IPPROTO_TCP])
def test_connection_over_a_socket_of_the_program_does_not_hold_small_pieces_back(proto):
    async def main():
        loop = asyncio.get_running_loop()
        accepted = loop.create_future()

        class Accepted(asyncio.Protocol):
            def connection_made(self, transport):
                accepted.set_result(transport)

        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, proto)
        listener.bind(("127.0.0.1", 0))
        server = await loop.create_server(Accepted, sock=listener)
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, proto)
        sock.setblocking(False)
        await loop.sock_connect(sock, listener.getsockname())
        made, _ = await loop.create_connection(asyncio.Protocol, sock=sock)
        for transport in (made, await accepted):
            assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            transport.abort()
        server.close()
        await server.wait_closed()

    run(main())


def test_new_protocol_gets_what_comes_from_then_on():
    async def main():
        told, there = await connected(Recorder)
        with there:
            there.send(b"one")
            await until(lambda: told.data)
            other = Buffered()
            told.transport.set_protocol(other)
            assert told.transport.get_protocol() is other
            there.send(b"two")
            await until(lambda: other.data)
            told.transport.close()
            await other.ended
        return told.data, other.data

    assert run(main()) == (b"one", b"two")


def test_loop_that_runs_again_reads_what_came_meanwhile(in_backend):
    def body():
        with event_loop() as loop:
            told, there = loop.run_until_complete(connected_in())
            there.send(b"meanwhile")
            told.transport.write(bytes(20_000_000))
            loop.run_until_complete(until(lambda: told.data))
            told.transport.abort()
            loop.run_until_complete(until(lambda: told.told[-1] == "lost"))
            there.close()
        return told.data

    async def connected_in():
        return await connected(Recorder)

    assert in_backend(body) == b"meanwhile"


def test_loop_that_is_dropped_with_an_open_transport_closes_the_socket():
    def drop():
        with event_loop() as loop:
            told, there = loop.run_until_complete(connected_in())
        return there, told.ended.cancel()

    async def connected_in():
        return await connected(Recorder)

    there, _ = drop()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        gc.collect()
    assert any("unclosed transport <SocketTransport fd=" in str(warning.message) for warning in told)
    with there:
        there.setblocking(True)
        assert there.recv(1) == b""


def test_tasklet_that_runs_after_a_callback_sees_no_running_loop():
    seen = []
    with event_loop() as loop:
        ended = syncless.Event()

        def callback(left):
            seen.append(asyncio._get_running_loop() is loop)
            spawn(lambda: seen.append(asyncio._get_running_loop()))
            loop.call_later(0.001, callback if left else loop.stop, *([left - 1] if left else []))

        loop.call_soon(callback, 2)
        waiter = spawn(lambda: (ended.wait(), seen.append(asyncio._get_running_loop())))
        loop.call_later(0.0005, ended.set)
        loop.run_forever()
        waiter.join()
    assert seen == [True, None, None, True, None, True, None]
