"""h11 and httptools accept every request that we accept, and see the same message: nothing can be smuggled
past one of them through us.

We may be stricter than they; where they refuse what we accept, the case says why in LAXER.
"""

import json
import pathlib
import random

import pytest

import syncless

h11 = pytest.importorskip(
    "h11", reason="h11 is one of the parsers that ours is compared with: pip install h11"
)
httptools = pytest.importorskip(
    "httptools", reason="httptools is one of the parsers that ours is compared with: pip install httptools"
)

CASES = json.loads((pathlib.Path(__file__).parent / "cases.json").read_text())

LAXER = {
    "HTTP/1.2": {"httptools": "llhttp knows no later minor versions"},
    "unknown method": {"httptools": "llhttp has a list of methods"},
    "lower-case method": {"httptools": "llhttp has a list of methods"},
    "all characters of a token in a method": {"httptools": "llhttp has a list of methods"},
    "empty lines before": {
        "h11": "h11 skips one empty line, we any number of them (RFC 9112, 2.2: at least one)"
    },
    "raw UTF-8 in the target": {
        "h11": "curl sends it; h11 wants ASCII",
        "httptools": "curl sends it; llhttp wants ASCII",
    },
}


def seen_by_h11(data):
    """(method, target, body) or None where h11 refuses."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    head, body = None, b""
    try:
        while True:
            event = connection.next_event()
            if type(event) is h11.Request:
                head = event
            elif type(event) is h11.Data:
                body += bytes(event.data)
            elif type(event) is h11.EndOfMessage:
                return head.method, head.target, body
            else:
                return None
    except h11.RemoteProtocolError:
        return None


def seen_by_httptools(data):
    class Seen:
        method, target, body, done = b"", b"", b"", False

        def on_url(self, url):
            if not self.done:
                self.target += url

        def on_body(self, body):
            if not self.done:
                self.body += body

        def on_message_complete(self):
            if not self.done:
                self.method = parser.get_method()  # later it is that of the next request
            self.done = True

    seen = Seen()
    parser = httptools.HttpRequestParser(seen)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError:
        if not seen.done:
            return None
    return (seen.method, seen.target, seen.body) if seen.done else None


def seen_by_us(start, server, data):
    """(method, target as path and query, body) of the first message, or None where we refuse."""
    client = start.client(server)
    try:
        client.send(data)
        client.sock.shutdown(1)
        status, _, body = client.response() or (None, None, None)
    except OSError:
        status = None
    client.close()
    return json.loads(body) if status == 200 else None


def tell(environ, start_response):
    body = environ["wsgi.input"].read()
    start_response("200 OK", [])
    query = environ["QUERY_STRING"]
    told = [
        environ["REQUEST_METHOD"],
        environ["PATH_INFO"] + ("?" + query if query else ""),
        body.decode("latin-1"),
    ]
    return [json.dumps(told).encode()]


def compare(name, ours, data):
    for other, see in (("h11", seen_by_h11), ("httptools", seen_by_httptools)):
        theirs = see(data)
        if theirs is None:
            assert other in LAXER.get(name, {}), f"{other} refuses what we accept: {data!r}"
            continue
        assert other not in LAXER.get(name, {}), "it accepts this by now"
        assert theirs[0].decode("latin-1") == ours[0], other
        assert theirs[2].decode("latin-1") == ours[2], f"{other} sees another body in {data!r}"


@pytest.mark.parametrize(
    "case", [case for case in CASES if case["outcome"] == 200], ids=lambda case: case["name"]
)
def test_accepted_requests_are_read_alike_by_other_parsers(start, case):
    data = case["request"].encode("latin-1")
    ours = seen_by_us(start, start(tell), data)
    compare(case["name"], ours, data)


PIECES = [bytes([byte]) for byte in b"\r\n \t:013af;,\0\x0b\x7f\xff+-_"]
PIECES += [
    b"\r\n",
    b"chunked",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Host: b\r\n",
    b"Connection: close\r\n",
]
PIECES += [b"0\r\n\r\n", b"3\r\nabc\r\n", b"HTTP/1.1", b"HTTP/1.0", b"POST ", b"GET "]


def mutate(data, choose):
    for _ in range(choose.randint(1, 3)):
        at = choose.randrange(len(data) + 1)
        kind = choose.randrange(4)
        if kind == 0:
            data = data[:at] + choose.choice(PIECES) + data[at:]
        elif kind == 1:
            data = data[:at] + data[at + choose.randint(1, 4) :]
        elif kind == 2:
            data = data[:at] + choose.choice(PIECES) + data[at + 1 :]
        else:
            other = choose.randrange(len(data) + 1)
            data = data[: min(at, other)] + data[min(at, other) : max(at, other)] * 2 + data[max(at, other) :]
    return data


@pytest.mark.parametrize("seed", range(8))
def test_random_changes(start, seed):
    """Seeded mutations of the cases: the same one-sided comparison, with known differences of taste left
    out."""
    choose = random.Random(seed)
    server = start(tell, body_bytes=100_000, defer_accept=False)
    compared = 0
    for _ in range(400):
        data = mutate(choose.choice(CASES)["request"].encode("latin-1"), choose)
        ours = seen_by_us(start, server, data)
        if ours is None:
            continue
        line = data.lstrip(b"\r\n").partition(b"\r\n")[0]
        for other, see in (("h11", seen_by_h11), ("httptools", seen_by_httptools)):
            theirs = see(data)
            if theirs is None:
                # a matter of taste (methods, characters of targets) or of a message that goes on; framing is
                # what counts
                continue
            compared += 1
            assert theirs[0].decode("latin-1") == ours[0], (other, line)
            assert theirs[2].decode("latin-1") == ours[2], f"{other} sees another body in {data!r}"
        syncless.sleep(0)
    assert compared > 30
