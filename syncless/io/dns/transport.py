"""Questions to name servers over UDP and TCP, by our own sockets: whoever waits for an answer parks."""

from __future__ import annotations

import _socket
import errno
import itertools
import socket
import struct
import time
from typing import Any

from syncless._core import msgcalls, sockcalls
from syncless.io.dns import wire
from syncless.io.dns.system import ResolvConf

LARGEST = 65535
NOERROR, NXDOMAIN = 0, 3
_turn = itertools.count()


class NoAnswer(Exception):
    """No name server has answered in time, or with anything but a refusal."""


class _Socket:
    """A socket that belongs to one exchange."""

    def __init__(self, server: tuple[str, int], kind: int, timeout: float):
        family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
        self.sock = _socket.socket(family, kind | socket.SOCK_CLOEXEC)
        sockcalls.forget(self.sock.fileno())
        try:
            self.sock.settimeout(timeout)
            if kind == socket.SOCK_STREAM:
                msgcalls.connect(self.sock, server)  # type: ignore[arg-type]
            else:
                self.sock.connect(server)  # answers of others do not get here
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        sockcalls.forget(self.sock.fileno())
        self.sock.close()

    def __enter__(self) -> Any:
        return self.sock

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def exchange(questions: list[wire.Question], conf: ResolvConf, port: int) -> list[wire.Answer]:
    """The answers to the questions, which are asked together. NoAnswer if one of them is not answered by any server."""
    servers = conf.nameservers
    if conf.rotate:
        first = next(_turn) % len(servers)
        servers = [*servers[first:], *servers[:first]]
    found: dict[int, wire.Answer] = {}
    for attempt in range(conf.attempts):
        for server in servers:
            timeout = conf.timeout if attempt == 0 else max(1.0, conf.timeout * 2**attempt / len(servers))
            missing = [number for number in range(len(questions)) if number not in found]
            try:
                _ask_server(questions, missing, found, (server, port), timeout)
            except OSError:  # refused, unreachable, too late: the next one
                pass
            if len(found) == len(questions):
                return [found[number] for number in range(len(questions))]
    raise NoAnswer


def _ask_server(
    questions: list[wire.Question], missing: list[int], found: dict[int, wire.Answer], server: tuple[str, int], timeout: float
) -> None:
    """Asks one server; what it answers usefully goes to `found`."""
    until = time.monotonic() + timeout
    waiting = {questions[number].number: number for number in missing}
    with _Socket(server, socket.SOCK_DGRAM, timeout) as sock:
        for number in missing:
            sockcalls.send(sock, questions[number].wire)
        while waiting:
            if time.monotonic() >= until:  # noise must not keep us here
                raise TimeoutError(errno.ETIMEDOUT, "no answer")
            data = sockcalls.recv(sock, LARGEST)
            number = waiting.get(int.from_bytes(data[:2], "big"), -1)
            answer = wire.parse(data, questions[number]) if number >= 0 else None
            if answer is None:
                continue  # forged, or an answer to somebody else
            del waiting[questions[number].number]
            if answer.truncated:
                answer = _ask_by_tcp(questions[number], server, timeout)
            if answer.rcode in (NOERROR, NXDOMAIN):
                found[number] = answer
            # else it cannot or will not say: the next server may


def _ask_by_tcp(question: wire.Question, server: tuple[str, int], timeout: float) -> wire.Answer:
    """The whole answer where a datagram was too small for it (RFC 7766)."""
    with _Socket(server, socket.SOCK_STREAM, timeout) as sock:
        sockcalls.sendall(sock, struct.pack("!H", len(question.wire)) + question.wire)
        (size,) = struct.unpack("!H", _receive(sock, 2))
        answer = wire.parse(_receive(sock, size), question)
    if answer is None:
        raise OSError(errno.EBADMSG, "the name server's answer makes no sense")
    return answer


def _receive(sock: Any, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sockcalls.recv(sock, size - len(data))
        if not more:
            raise OSError(errno.ECONNRESET, "the name server hung up")
        data += more
    return data
