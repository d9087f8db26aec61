"""An echo server on sockets: a tasklet per client, in blocking style.

Run ``python -m examples.echo`` and talk to it: ``telnet 127.0.0.1 7000``.
"""

import sys

import syncless
from syncless.io import socket


def talk(client):
    with client:
        while data := client.recv(65536):
            client.sendall(data)


def main(port=7000):
    with socket.create_server(("127.0.0.1", port)) as server:
        print("echo server on port", server.getsockname()[1], flush=True)
        while True:
            client, _ = server.accept()
            syncless.spawn(talk, client)


if __name__ == "__main__":
    try:
        main(*map(int, sys.argv[1:]))
    except KeyboardInterrupt:  # Ctrl-C ends it
        pass
