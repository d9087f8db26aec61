"""A chat over channels: one tasklet owns the room, two belong to each client. No locks, no shared state.

Run ``python -m examples.chat``, connect twice with ``telnet 127.0.0.1 7001``, give a name on the first line,
and talk.
"""

import sys

import syncless
from syncless.io import socket


def room(events):
    """Own the list of members. Each event is (kind, member's queue, text)."""
    members = {}
    for kind, inbox, text in events:
        if kind == "join":
            members[inbox] = text
            line = f"* {text} is here, {len(members)} in the room\n"
        elif kind == "leave":
            line = f"* {members.pop(inbox)} has left\n"
            inbox.put(None)
        else:
            line = f"{members[inbox]}: {text}\n"
        for member in members:
            member.put(line)


def send_lines(client, inbox):
    try:
        while (line := inbox.get()) is not None:
            client.sendall(line.encode())
    except OSError:
        pass  # the reading side also notices, and leaves the room


def talk(client, events):
    with client, client.makefile("r", encoding="utf-8", errors="replace") as lines:
        name = lines.readline().strip()
        if not name:
            return
        inbox = syncless.Queue()
        sender = syncless.spawn(send_lines, client, inbox)
        events.send(("join", inbox, name))
        try:
            for line in lines:
                events.send(("say", inbox, line.rstrip("\r\n")))
        except OSError:
            pass
        finally:
            events.send(("leave", inbox, None))
            sender.join()


def main(port=7001):
    events = syncless.Channel()
    syncless.spawn(room, events)
    with socket.create_server(("127.0.0.1", port)) as server:
        print("chat server on port", server.getsockname()[1], flush=True)
        while True:
            client, _ = server.accept()
            syncless.spawn(talk, client, events)


if __name__ == "__main__":
    try:
        main(*map(int, sys.argv[1:]))
    except KeyboardInterrupt:  # Ctrl-C ends it
        pass
