"""tests/http/cases.json against the threads of native handlers: they refuse what the Python server refuses,
in the same words."""

import re

import pytest

from tests.http.test_wire import BEYOND_LIMITS, CASES, REFUSED_HEADS, echo, raw

ROUTES = {"/": "echo", "/{path...}": "echo"}
DATE = re.compile(rb"Date: [^\r]*\r\n")


def is_for_python(case):
    """Of the requests that are answered: those that no route can be for."""
    return " * HTTP" in case["request"] or "websocket" in case["request"].lower()


def outcome_of(stepped, case, parts):
    """The whole answer to a request that is sent in these parts."""
    server = stepped(ROUTES)
    for part in parts:
        if not server.send(part):
            break
    data, ended = server.received()
    handed = server.threads.handed_over
    server.close()
    return data, ended, handed


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_whole_bytewise_and_split(stepped, case, every):
    """In two parts, it is split at each place, or at each 7th: another one in each case."""
    data = raw(case)
    pieces = [[data], [data[i : i + 1] for i in range(len(data))]]
    pieces += [[data[:i], data[i:]] for i in range(1 + CASES.index(case) % every, len(data), every)]
    for parts in pieces:
        answer, ended, handed = outcome_of(stepped, case, parts)
        if handed:
            assert case["outcome"] == 200 and is_for_python(case), case["reason"]
            continue
        answer = answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 %d " % case["outcome"]), (case["reason"], answer, parts)
        assert b"\r\nDate: " in answer and b"\r\nServer: syncless\r\n" in answer
        if case["outcome"] != 200:
            assert b"\r\nConnection: close\r\n" in answer and ended, (
                "after a framing error nothing more is read"
            )
        elif "body" in case:
            assert answer.partition(b"\r\n\r\n")[2].startswith(case["body"].encode("latin-1"))


def all_of(client):
    """The status line, the fields in any order, and the body, up to the end of the connection."""
    while client._more():
        pass
    head, _, body = DATE.sub(b"", client.buffer).partition(b"\r\n\r\n")
    status, *fields = head.split(b"\r\n")
    return status, sorted(fields), body


@pytest.mark.parametrize(
    "case", [case for case in CASES if case["outcome"] != 200], ids=lambda case: case["name"]
)
def test_refused_in_the_words_of_the_python_server(start, served, case):
    answers = []
    for server in (start(echo, defer_accept=False), served(ROUTES, echo)):
        client = start.client(server)
        client.send(raw(case))
        answers.append(all_of(client))
    assert answers[0] == answers[1]


@pytest.mark.parametrize(("request_", "limits", "status"), BEYOND_LIMITS)
@pytest.mark.parametrize("step", [10000, 1])
def test_limits(stepped, request_, limits, status, step):
    server = stepped(ROUTES, **limits)
    for i in range(0, len(request_), step):
        if not server.send(request_[i : i + step]):
            break
    answer, ended = server.received()
    assert answer.startswith(b"HTTP/1.1 %d " % status) and ended


@pytest.mark.parametrize(("request_", "limits", "status"), REFUSED_HEADS)
def test_refused_head_request_gets_no_body(stepped, request_, limits, status):
    server = stepped(ROUTES, **limits)
    server.send(request_)
    answer, ended = server.received()
    assert answer.startswith(b"HTTP/1.1 %d " % status) and answer.endswith(b"\r\n\r\n") and ended
    assert int(re.search(rb"Content-Length: (\d+)", answer)[1]) > 0


def test_pipelined_requests_are_answered_in_order_and_in_one_piece(stepped):
    data = b"".join(
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%d" % (len(str(number)), number)
        for number in range(300)
    )
    for step in (len(data), 7, 1000):
        server = stepped(ROUTES)
        answer = b""
        for i in range(0, len(data), step):
            server.send(data[i : i + step])
            answer += server.received()[0]
        for _ in range(20):
            server.turn()
            answer += server.received()[0]
        assert re.findall(rb"\r\n\r\n(\d+)", answer) == [b"%d" % number for number in range(300)]


def test_body_is_asked_for_once_and_only_if_it_has_not_come(stepped):
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    server = stepped(ROUTES)
    server.send(head)
    assert server.received() == (b"HTTP/1.1 100 Continue\r\n\r\n", False)
    server.send(b"a")
    assert server.received() == (b"", False)
    server.send(b"bc" + head + b"def")
    answer, _ = server.received()
    assert b"100 Continue" not in answer and answer.count(b"HTTP/1.1 200 OK") == 2
