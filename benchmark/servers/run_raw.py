"""As in 2009: a tasklet for each connection, which skips the request's head and answers: run_raw.py PORT
APPLICATION [BACKLOG]"""

import sys

import syncless
from syncless.io import socket

ANSWER = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!"


def answer(client):
    with client:
        head = b""
        while b"\r\n\r\n" not in head:
            data = client.recv(4096)
            if not data:
                return
            head += data
        client.sendall(ANSWER)


listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=int((sys.argv[3:] or ["1024"])[0]))
while True:
    client, _ = listener.accept()
    syncless.spawn(answer, client)
