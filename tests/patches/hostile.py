"""Database servers that are silent, slow, or reset the connection, and drivers that meet them.

``python -m tests.patches.hostile DRIVER patched|plain`` prints as JSON what became of each call: its result,
or the class of its error. A server speaks as much of its protocol as one row needs. It does so in a process
of its own, because a driver may hold the whole of this one."""

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

SECONDS = 2
"""Least connect_timeout of libpq before version 17."""
LONG = 60
"""For servers that answer, on a machine that is busy."""
WAYS = ("silent", "reset", "slow", "well")


# -- servers -------------------------------------------------------------------------------------------------


class Peer:
    """A client, as the server sees it."""

    def __init__(self, sock, way):
        self.sock, self.way, self.file = sock, "well", sock.makefile("rb")
        self.later = way

    def read(self, size):
        data = self.file.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def send(self, data):
        if self.way == "silent":
            self.file.read()
        elif self.way == "reset":
            self.sock.sendall(data[: len(data) // 2])
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.file.close()
            self.sock.close()
            raise EOFError
        elif self.way == "slow":
            for octet in data:
                self.sock.sendall(bytes([octet]))
                time.sleep(0.002)
        else:
            self.sock.sendall(data)


def postgresql(peer):
    def message(kind, body):
        return kind + struct.pack("!i", len(body) + 4) + body

    peer.read(struct.unpack("!i", peer.read(4))[0] - 4)
    ready = message(b"Z", b"I")
    settings = {"client_encoding": "UTF8", "DateStyle": "ISO, MDY", "server_version": "15.1"}
    settings["standard_conforming_strings"] = "on"
    told = b"".join(message(b"S", f"{name}\0{value}\0".encode()) for name, value in settings.items())
    peer.send(message(b"R", struct.pack("!i", 0)) + told + message(b"K", struct.pack("!ii", 1, 2)) + ready)
    peer.way = peer.later
    while True:
        kind = peer.read(1)
        body = peer.read(struct.unpack("!i", peer.read(4))[0] - 4)
        if kind == b"Q" and b"select" in body:
            row = message(b"T", b"\0\1x\0" + struct.pack("!ihihih", 0, 0, 23, 4, -1, 0))
            row += message(b"D", b"\0\1" + struct.pack("!i", 1) + b"7") + message(b"C", b"SELECT 1\0")
            peer.send(row + ready)
        elif kind == b"Q":
            peer.send(message(b"C", b"SET\0") + ready)
        elif kind == b"X":
            return


def mysql(peer):
    def packet(number, body):
        return struct.pack("<I", len(body))[:3] + bytes([number]) + body

    okay, end = b"\0\0\0\2\0\0\0", b"\xfe\0\0\2\0"
    greeting = b"\x0a5.7.0\0" + struct.pack("<I", 1) + b"12345678\0" + struct.pack("<H", 0xA20F | 0x0200)
    greeting += b"\x21" + struct.pack("<HH", 2, 0x0008) + b"\x15" + bytes(10) + b"123456789012\0"
    peer.send(packet(0, greeting + b"mysql_native_password\0"))
    first = True
    while True:
        head = peer.read(4)
        body = peer.read(int.from_bytes(head[:3], "little"))
        if first:
            first = False
            peer.send(packet(head[3] + 1, okay))
        elif b"select 7" in body:
            peer.way = peer.later
            column = b"\3def\0\0\0\1x\0\x0c" + struct.pack("<HIBHB", 33, 11, 3, 0, 0) + b"\0\0"
            peer.send(
                packet(1, b"\1")
                + packet(2, column)
                + packet(3, end)
                + packet(4, bytes([1]) + b"7")
                + packet(5, end)
            )
        elif body[:1] == b"\1":
            return
        else:
            peer.send(packet(1, okay))


def redis(peer):
    while True:
        words = []
        for _ in range(int(peer.file.readline()[1:] or b"0")):
            words.append(peer.read(int(peer.file.readline()[1:]) + 2)[:-2])
        if not words:
            return
        if words[0].upper() == b"GET":
            peer.way = peer.later
            peer.send(b"$1\r\n7\r\n")
        else:
            peer.send(b"+OK\r\n")


def serve(speak, way, at_once):
    def talk(sock):
        peer = Peer(sock, way)
        if at_once:
            peer.way = way
        with contextlib.suppress(EOFError, OSError, ValueError):
            speak(peer)

    with socket.create_server(("127.0.0.1", 0), backlog=50) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            threading.Thread(target=talk, args=[listener.accept()[0]], daemon=True).start()


@contextlib.contextmanager
def server(speak, way, at_once):
    command = [sys.executable, "-m", "tests.patches.hostile", "serve", speak.__name__, way, str(int(at_once))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


# -- drivers: a protocol, and functions that connect, ask and close ------------------------------------------


def rows(connection):
    cursor = connection.cursor()
    cursor.execute("select 7")
    return cursor.fetchall()[0][0]


def with_psycopg2(port, seconds, hosts="127.0.0.1"):
    import psycopg2

    connection = psycopg2.connect(
        host=hosts, port=port, user="u", dbname="d", sslmode="disable", connect_timeout=seconds
    )
    connection.autocommit = True
    return connection


def with_psycopg(port, seconds):
    import psycopg

    return psycopg.connect(
        f"host=127.0.0.1 port={port} user=u dbname=d sslmode=disable connect_timeout={seconds}",
        autocommit=True,
    )


def with_pymysql(port, seconds):
    import pymysql

    return pymysql.connect(
        host="127.0.0.1", port=port, user="u", connect_timeout=seconds, read_timeout=seconds
    )


def with_mysqlclient(port, seconds):
    import MySQLdb

    return MySQLdb.connect(
        host="127.0.0.1", port=port, user="u", connect_timeout=seconds, read_timeout=seconds
    )


def with_redis(port, seconds):
    import redis

    client = redis.Redis(
        port=port, socket_timeout=seconds, socket_connect_timeout=seconds, retry=None, protocol=2
    )
    client.ping()
    return client


DRIVERS = {
    "psycopg2": (postgresql, with_psycopg2, rows),
    "psycopg": (postgresql, with_psycopg, rows),
    "pymysql": (mysql, with_pymysql, rows),
    "MySQLdb": (mysql, with_mysqlclient, rows),
    "redis": (redis, with_redis, lambda client: int(client.get("x"))),
}
ENDLESS = ("psycopg2", "psycopg")
"""They wait for an answer without a limit of their own."""


def limit(way):
    return SECONDS if way == "silent" else LONG


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return f"{type(error).__module__}.{type(error).__name__}"


def meet(driver):
    speak, connect, ask = DRIVERS[driver]
    became = {}

    def connecting(way):
        with server(speak, way, True) as port:
            began = time.monotonic()
            became[f"connect, {way}"] = outcome(lambda: connect(port, limit(way)) and "connected")
            if way == "silent":
                waited = time.monotonic() - began
                became["connect, silent, as long as it was told"] = waited > SECONDS - 0.5
            if driver == "psycopg2" and way == "silent":
                with server(speak, "well", True) as good:
                    both = f"{port},{good}"
                    found = outcome(lambda: ask(with_psycopg2(both, SECONDS, "127.0.0.1,127.0.0.1")))
                    became["connect, the second of two hosts"] = found

    def asking(way):
        with server(speak, way, False) as port:
            connection = connect(port, LONG if driver in ENDLESS else limit(way))
            if way != "silent" or driver not in ENDLESS:
                became[f"ask, {way}"] = outcome(ask, connection)
            became[f"close, {way}"] = outcome(connection.close)

    threads = [threading.Thread(target=each, args=[way]) for each in (connecting, asking) for way in WAYS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return became


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(globals()[sys.argv[2]], sys.argv[3], sys.argv[4] == "1")
    if sys.argv[2] == "patched":
        from syncless.patches import patch_all

        patch_all()
    print(json.dumps(meet(sys.argv[1])), flush=True)
    os._exit(0)
