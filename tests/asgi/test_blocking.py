"""Handlers that block by accident hold up their own request only."""

import pytest

from tests.programs import check

pytestmark = pytest.mark.slow


def test_thousand_handlers_that_block_beside_some_that_await():
    check(
        """
        import asyncio, socket, threading, time
        from syncless.wsgi import Server
        MANY = 1000
        inside = most = 0
        released = threading.Event()
        async def app(scope, receive, send):
            global inside, most
            if scope["type"] == "lifespan":
                raise NotImplementedError
            if scope["path"] == "/blocks":
                inside += 1
                most = max(most, inside)
                me = asyncio.current_task()
                time.sleep(0.2)
                while not released.is_set():  # until all are here and others have been answered
                    time.sleep(0.2)
                inside -= 1
                assert asyncio.current_task() is me
            else:
                await asyncio.sleep(0.001)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": scope["path"].encode()})
        def connect(path):
            connection = socket.create_connection(server.address)
            head = f"GET {path} HTTP/1.1\\r\\nHost: h\\r\\nConnection: close\\r\\n\\r\\n"
            connection.sendall(head.encode())
            return connection
        def answer(connection):
            with connection, connection.makefile("rb") as file:
                return file.read().rpartition(b"\\r\\n\\r\\n")[2]
        asyncio.get_event_loop().slow_callback_duration = 60  # it would tell of each that waits
        with Server(app, "127.0.0.1", 0) as server:
            blocked = [connect("/blocks") for _ in range(MANY)]
            while inside < MANY:
                time.sleep(0.01)
            for _ in range(20):
                assert answer(connect("/awaits")) == b"/awaits"
                assert inside == MANY
            released.set()
            assert [answer(connection) for connection in blocked] == [b"/blocks"] * MANY
            assert most == MANY and inside == 0
        """,
        timeout=120,
    )
