"""Queries name servers over UDP and TCP, one after the other, until the replies are sufficient. Every wait
parks the tasklet."""

from __future__ import annotations

import _socket
import errno
import itertools
import socket
import struct
import time
from collections.abc import Iterator
from queue import Empty
from typing import Any, NamedTuple

from syncless._core.calls import messages, sockets
from syncless._core.cpython.forkhooks import at_fork
from syncless._core.current import ThrownHere, uninterrupted
from syncless._core.tasklet import Tasklet, spawn
from syncless._core.wait.queues import Queue
from syncless._core.wait.sync import Semaphore
from syncless.io.dns import wire
from syncless.io.dns.ports import OUT_OF_DESCRIPTORS, Address, Conversation
from syncless.io.dns.system import ResolvConf

NOERROR, FORMERR, SERVFAIL, NXDOMAIN = 0, 1, 2, 3
MOST_CONNECTIONS = 16
"""TCP connections to name servers open at a time."""

_turn = itertools.count()
_connections = Semaphore(MOST_CONNECTIONS)


class NoAnswer(Exception):
    """No name server has answered in time, or all have refused."""

    def __init__(self, server_failed: bool = False):
        super().__init__("no name server responded")
        self.server_failed = server_failed
        """A server has answered SERVFAIL, which may be true of this name only."""


def _turns(conf: ResolvConf) -> Iterator[tuple[str, float]]:
    """Yield the servers in the C library's order, with the seconds for each."""
    servers = conf.nameservers
    if conf.rotate:
        first = next(_turn) % len(servers)
        servers = [*servers[first:], *servers[:first]]
    for _ in range(conf.attempts):
        for place, server in enumerate(servers):
            yield server, max(1.0, conf.timeout * 2**place // len(servers)) if place else conf.timeout


def exchange(questions: list[wire.Question], conf: ResolvConf, port: int) -> list[wire.Answer | None]:
    """Return the answers to the questions, which are asked together. Raise NoAnswer if no answer is
    sufficient, OSError if no descriptor is left.

    None means that a question got no answer although another one did: some servers and routers refuse or drop
    questions for one address family. A dropped question is repeated before it counts as unanswered. If no
    answer has data, NoAnswer is raised unless the first question was answered or refused. Late answers count,
    too: a server that needs longer than one turn answers every question late.
    """
    heard = _Heard({}, {}, {})
    found = heard.found
    missing = dict(enumerate(questions))
    dropped = False
    turns = list(_turns(conf))
    with _Tries(time.monotonic() + sum(seconds for _, seconds in turns), conf.use_vc) as tries:
        for server, seconds in turns:
            heard.told.update(heard.refused)
            heard.refused.clear()
            tries.ask(missing, (server, port), seconds, heard)
            if len(found) == len(questions):
                return [found[number] for number in range(len(questions))]
            missing = {number: question for number, question in enumerate(questions) if number not in found}
            if found and len(heard.refused) == len(missing):
                break
            if _has_data(questions, found):
                if dropped:
                    break
                dropped = True
    told = heard.told | heard.refused
    answers = [found.get(number) or _malformed(told.get(number)) for number in range(len(questions))]
    if _has_data(questions, found) or answers[0] is not None or (0 in heard.refused and any(answers)):
        return answers
    raise NoAnswer(any(answer.rcode == SERVFAIL for answer in told.values()))


class _Heard(NamedTuple):
    """Answers, by the numbers of their questions."""

    found: dict[int, wire.Answer]
    refused: dict[int, wire.Answer]
    """Refusals and failures of the server that was asked last."""
    told: dict[int, wire.Answer]
    """Those of servers that were asked earlier."""


def _has_data(questions: list[wire.Question], answers: dict[int, wire.Answer]) -> bool:
    return any(
        record.rdtype == questions[number].rdtype
        for number, answer in answers.items()
        for record in answer.answers
    )


def _malformed(answer: wire.Answer | None) -> wire.Answer | None:
    """Return the answer if it is a FORMERR, which without a better answer means that the name does not
    exist."""
    return answer if answer is not None and answer.rcode == FORMERR else None


class _Try:
    """Questions to one server, which may still answer after another server has been asked."""

    def __init__(self, questions: dict[int, wire.Question], server: Address):
        self.server = server
        self.conversation = Conversation(server)
        self.waiting: dict[int, tuple[int, wire.Question]] = {}
        """Number of a message -> that of its question, and the question as it was sent."""
        try:
            for number, question in questions.items():
                sent = self.conversation.ask(question)
                self.waiting[sent.number] = number, sent
        except BaseException:
            self.conversation.close()
            raise

    def receive(self, until: float) -> tuple[int, wire.Answer]:
        """Return the next answer, and the number of its question. Raise OSError on failure, TimeoutError at
        `until`."""
        while True:
            data = self.conversation.receive(until)
            expected = self.waiting.get(int.from_bytes(data[:2], "big"))
            answer = wire.parse(data, expected[1]) if expected is not None else None
            if expected is not None and answer is not None:  # else it is forged, or a duplicate
                number, sent = expected
                del self.waiting[sent.number]
                self.conversation.answered(sent.number)
                return number, answer


class _Tries:
    """All attempts of one lookup, until the lookup ends.

    The lookup itself reads the first attempt. Each further attempt has a tasklet that reads.
    """

    def __init__(self, until: float, by_tcp: bool):
        self.until = until
        self.by_tcp = by_tcp
        """Nothing is asked by datagrams."""
        self._open: list[_Try] = []
        self._listening: list[Tasklet[None]] = []
        self._heard: Queue[tuple[_Try, tuple[int, wire.Answer] | OSError]] = Queue()

    def __enter__(self) -> _Tries:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._close()

    def _close(self) -> None:
        listening, self._listening = self._listening, []
        for tasklet in listening:
            uninterrupted(tasklet.kill)  # it hands a shared port over
        for one in self._open:
            one.conversation.close()
        self._open.clear()

    def ask(
        self, questions: dict[int, wire.Question], server: Address, seconds: float, heard: _Heard
    ) -> None:
        """Ask one server, and add its answers, and late ones of others, to `heard`."""
        with ThrownHere() as thrown:
            truncated = [(number, server) for number in questions if self.by_tcp]
            try:
                if not self.by_tcp:
                    self._ask_by_datagrams(questions, server, seconds, heard, truncated)
            except OSError as error:  # too late, unreachable
                _raise_if_no_fault_of_the_server(error, thrown)
            for number, told_by in truncated:
                self._close()  # no lookup may hold one descriptor while it waits for another
                try:
                    answer = _ask_by_tcp(questions[number], told_by, time.monotonic() + seconds)
                except OSError as error:
                    _raise_if_no_fault_of_the_server(error, thrown)
                    continue  # the next server may do better
                (heard.found if answer.rcode in (NOERROR, NXDOMAIN) else heard.refused)[number] = answer

    def _ask_by_datagrams(
        self,
        questions: dict[int, wire.Question],
        server: Address,
        seconds: float,
        heard: _Heard,
        truncated: list[tuple[int, Address]],
    ) -> None:
        """Ask by datagrams. Complete answers are kept; questions with truncated answers go to `truncated`,
        with their servers."""
        left = set(questions)
        present = self._begin(questions, server)
        until = time.monotonic() + seconds
        while left:
            one, number, answer = self._next(present, until)
            if number not in left:
                continue  # two tries were answered
            if answer.truncated:
                truncated.append((number, one.server))
            elif answer.rcode in (NOERROR, NXDOMAIN):
                heard.found[number] = answer
            elif one is present:
                heard.refused[number] = answer
            else:
                heard.told.setdefault(number, answer)
                continue
            left.discard(number)

    def _begin(self, questions: dict[int, wire.Question], server: Address) -> _Try:
        try:
            present = _Try(questions, server)
        except OSError as error:
            if not self._open or error.errno not in OUT_OF_DESCRIPTORS:
                raise
            self._close()
            present = _Try(questions, server)
        self._open.append(present)
        return present

    def _next(self, present: _Try, until: float) -> tuple[_Try, int, wire.Answer]:
        """Return the next answer of any attempt. Raise OSError if the present one fails, TimeoutError at
        `until`."""
        if len(self._open) == 1:
            return present, *present.receive(until)
        for one in self._open[len(self._listening) :]:
            self._listening.append(spawn(self._listen, one))
        while True:
            try:
                one, heard = self._heard.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                raise TimeoutError(errno.ETIMEDOUT, "no answer") from None
            if not isinstance(heard, OSError):
                return one, *heard
            if one is present:
                raise heard

    def _listen(self, one: _Try) -> None:
        try:
            while True:
                self._heard.put((one, one.receive(self.until)))
        except OSError as error:
            self._heard.put((one, error))


def _raise_if_no_fault_of_the_server(error: OSError, thrown: list[BaseException]) -> None:
    """Raise the error again if descriptors have run out, or if it was thrown at the tasklet."""
    if thrown or error.errno in OUT_OF_DESCRIPTORS:
        raise error


def _ask_by_tcp(question: wire.Question, server: Address, until: float) -> wire.Answer:
    """Return the whole answer, which was too large for a datagram (RFC 7766). Raise OSError on failure,
    TimeoutError at `until`."""
    if not _connections.acquire(timeout=until - time.monotonic()):
        raise TimeoutError(errno.ETIMEDOUT, "no connection was free")
    try:
        family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
        sock = _socket.socket(family, socket.SOCK_STREAM)
        sockets.forget(sock.fileno())
        try:
            return _talk(sock, question, server, until)
        finally:
            sockets.forget(sock.fileno())
            sock.close()
    finally:
        _connections.release()


def _talk(sock: Any, question: wire.Question, server: Address, until: float) -> wire.Answer:
    _limit(sock, until)
    messages.connect(sock, server)
    _limit(sock, until)
    sockets.sendall(sock, struct.pack("!H", len(question.wire)) + question.wire)
    (size,) = struct.unpack("!H", _receive(sock, 2, until))
    answer = wire.parse(_receive(sock, size, until), question)
    if answer is None:
        raise OSError(errno.EBADMSG, "the response of the name server is malformed")
    return answer


def _receive(sock: Any, size: int, until: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        _limit(sock, until)
        more = sockets.recv(sock, size - len(data))
        if not more:
            raise OSError(errno.ECONNRESET, "the name server closed the connection")
        data += more
    return bytes(data)


def _limit(sock: Any, until: float) -> None:
    """Limit the next call to the time left for the whole exchange."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError(errno.ETIMEDOUT, "the name server is too slow")
    sock.settimeout(left)


def _after_fork_in_child() -> None:
    global _connections
    _connections = Semaphore(MOST_CONNECTIONS)  # the holders are the parent's tasklets


at_fork(at_first_use=_after_fork_in_child)
