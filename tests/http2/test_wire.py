"""The cases of HTTP/1.1 (cases.json) as streams: HTTP/2 accepts what HTTP/1.1 accepts, and refuses what it
refuses. Left out are those of what HTTP/2 has not: chunks, request lines, absolute targets, folded lines,
fields of the connection, an empty Host and CONNECT."""

import json
import pathlib
import re

import pytest

from tests import needs
from tests.http2_client import connector

pytestmark = needs.HTTP2
CASES = json.loads((pathlib.Path(__file__).parent.parent / "http" / "cases.json").read_text())
OF_CONNECTIONS = {"connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"}


def translated(case):
    """Fields and body, or None if HTTP/2 has no such thing."""
    head, _, body = case["request"].partition("\r\n\r\n")
    line, *lines = head.split("\r\n")
    first = re.fullmatch(r"([^ ]+) ([^ ]+) HTTP/1\.1", line)
    if not first or first[1] == "CONNECT" or any(":" not in each or each[0] in " \t" for each in lines):
        return None
    fields = [
        (name.lower(), value.strip(" \t")) for name, _, value in (each.partition(":") for each in lines)
    ]
    names = [name for name, _ in fields]
    if OF_CONNECTIONS & set(names) or ("host", "") in fields or re.match("(?i)https?:", first[2]):
        return None
    if names.count("host") == 1:
        fields = [(":authority" if name == "host" else name, value) for name, value in fields]
        fields.sort(key=lambda field: field[0] != ":authority")
    return [(":method", first[1]), (":scheme", "http"), (":path", first[2]), *fields], body.encode("latin-1")


TRANSLATED = [(case, translated(case)) for case in CASES]
TRANSLATED = [(case, stream) for case, stream in TRANSLATED if stream]
connect = pytest.fixture(connector)


def echo(environ, start_response):
    start_response("200 OK", [])
    return [environ["wsgi.input"].read()]


def test_most_cases_have_a_translation():
    assert len(TRANSLATED) > len(CASES) // 3


@pytest.mark.parametrize(("case", "stream"), TRANSLATED, ids=[case["name"] for case, _ in TRANSLATED])
def test_verdict_is_that_of_http_1_1(connect, case, stream):
    _, client = connect(echo)
    client = client()
    fields, body = stream
    number = client.h2.get_next_available_stream_id()
    client.h2.send_headers(number, fields, end_stream=not body)
    if body:
        client.h2.send_data(number, body, end_stream=True)
    client.flush()
    status, _, found = client.answer(number)
    if case["outcome"] == 200:
        assert (status, found) == (200, body), case["reason"]
    else:
        assert status == case["outcome"] or found is None, case["reason"]
        assert client.get()[:1] == (200,)
