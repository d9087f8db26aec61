"""Chat rooms by the core of the IRC protocol. One tasklet reads from each client, one writes to it.

``python -m examples.irc [PORT]`` serves (6667 by default); any IRC client can connect.
``python -m examples.irc join PORT NAME ROOM`` is a small client. It sends the lines that you type, and prints
what others say.
"""

import sys

import syncless
from syncless.io import socket
from syncless.patches import patch_all

ROOMS = {}  # name -> members, the oldest first
NAMES = {}  # name -> client


class Client:
    def __init__(self, connection):
        self.connection = connection
        self.name = None
        self.outgoing = syncless.Queue(1000)  # a reader that stands still is dropped, and blocks nobody

    def tell(self, line):
        try:
            self.outgoing.put_nowait(f"{line}\r\n")
        except syncless.Full:
            self.connection.shutdown(socket.SHUT_RDWR)

    def write(self):
        try:
            while (line := self.outgoing.get()) is not None:
                self.connection.sendall(line.encode())
        except OSError:
            pass  # the reading tasklet sees the end, too

    def read(self):
        with self.connection, self.connection.makefile("r", encoding="utf-8", errors="replace") as lines:
            writer = syncless.spawn(self.write)
            try:
                for line in lines:
                    command, _, rest = line.strip().partition(" ")
                    if command.upper() == "QUIT":
                        break
                    getattr(self, f"on_{command.lower()}", self.on_unknown)(rest)
            except OSError:
                pass
            finally:
                for room in [room for room, members in ROOMS.items() if self in members]:
                    self.on_part(room)
                NAMES.pop(self.name, None)
                self.outgoing.put(None)
                writer.join(5)

    def on_nick(self, name):
        if not name or NAMES.get(name, self) is not self:
            self.tell(f":server 433 * {name} :Nickname is already in use")
            return
        NAMES.pop(self.name, None)
        self.name, NAMES[name] = name, self
        self.tell(f":server 001 {name} :Welcome")

    def on_user(self, rest):
        """A client says more of its user than is needed here."""

    def on_ping(self, text):
        self.tell(f":server PONG server {text}")

    def on_join(self, room):
        if self.name is None:
            self.tell(":server 451 * :Say NICK first")
            return
        members = ROOMS.setdefault(room, [])
        if self not in members:
            members.append(self)
            self.tell_all(members, f"JOIN {room}")
            names = " ".join(member.name for member in members)
            self.tell(f":server 353 {self.name} = {room} :{names}")
            self.tell(f":server 366 {self.name} {room} :End of the list")

    def on_part(self, room):
        members = ROOMS.get(room, [])
        if self in members:
            self.tell_all(members, f"PART {room}")
            members.remove(self)
            if not members:
                del ROOMS[room]

    def on_privmsg(self, rest):
        target, _, text = rest.partition(" ")
        members = ROOMS.get(target, [])
        if target in NAMES:
            self.tell_all([NAMES[target]], f"PRIVMSG {target} {text}")
        elif self in members:
            self.tell_all([member for member in members if member is not self], f"PRIVMSG {target} {text}")
        else:
            self.tell(f":server 401 {self.name or '*'} {target} :No such nick or channel")

    def on_unknown(self, rest):
        self.tell(f":server 421 {self.name or '*'} :Unknown command")

    def tell_all(self, clients, line):
        for client in clients:
            client.tell(f":{self.name} {line}")


def serve(port=6667):
    with socket.create_server(("127.0.0.1", port)) as server:
        print("IRC server on port", server.getsockname()[1], flush=True)
        while True:
            syncless.spawn(Client(server.accept()[0]).read)


def print_all(lines):
    with lines:
        for line in lines:
            sender, command, *rest = line.strip().split(" ", 3)
            if command == "PRIVMSG":
                print(f"{sender[1:]}: {rest[1].removeprefix(':')}", flush=True)
            elif command in ("JOIN", "PART"):
                print(f"* {sender[1:]}: {command.lower()} {rest[0]}", flush=True)


def join(port, name, room):
    patch_all()  # so that waiting for a line that you type lets the other tasklet run
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("w") as server:
        reader = syncless.spawn(print_all, connection.makefile("r"))
        print(f"NICK {name}\nJOIN {room}", file=server, flush=True)
        for line in sys.stdin:
            print(f"PRIVMSG {room} :{line.strip()}", file=server, flush=True)
        print("QUIT", file=server, flush=True)
        reader.join(5)


def main(arguments):
    try:
        if arguments[:1] != ["join"]:
            serve(*map(int, arguments))
        elif len(arguments) == 4:
            join(int(arguments[1]), *arguments[2:])
        else:
            sys.exit(__doc__)
    except OSError as error:
        sys.exit(f"irc: {error}")
    except KeyboardInterrupt:  # Ctrl-C ends it
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
