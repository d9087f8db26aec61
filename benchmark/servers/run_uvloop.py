"""A protocol on uvloop that answers hello, with X processes on one port: run_uvloop.py PORT APPLICATION
[WORKERS]"""

import asyncio
import os
import socket
import sys

import uvloop
from apps import ROUNDS, fibonacci

computes = sys.argv[2] == "fib"


class Hello(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""

    def data_received(self, data):
        self.data += data
        while b"\r\n\r\n" in self.data:
            self.data = self.data.partition(b"\r\n\r\n")[2]
            body = str(fibonacci(ROUNDS)).encode() if computes else b"Hello, World!"
            self.transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b"
                % (len(body), body)
            )


async def main():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    server = await asyncio.get_running_loop().create_server(Hello, sock=listener, backlog=1024)
    await server.serve_forever()


for _ in range(int((sys.argv[3:] or ["1"])[0]) - 1):
    if os.fork() == 0:
        break
uvloop.run(main())
