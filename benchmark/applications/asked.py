"""What applications are asked: each request has a number, which chooses rows, a user or a key."""

from __future__ import annotations

import http.client
from dataclasses import dataclass

ROWS = 10_000
"""Rows that are read only; as many more are updated, so that what is read stays the same."""
BATCH = 20
CHECKED = 7
"""The number of the request whose answer is compared."""
USERS = 100
ITERATIONS = 1000
"""Of PBKDF2, where Django has a million: else a login would measure that alone."""
PASSWORD = "correct horse"
FILE = bytes(range(256)) * 1024
_BOUNDARY = "--------------------------f5b0"


@dataclass(frozen=True)
class Asked:
    title: str
    path: str
    numbers: int
    """How many there are."""
    content_type: str = ""
    body: bytes = b""

    @property
    def method(self) -> str:
        return "POST" if self.body else "GET"

    def target(self, number: int) -> str:
        return self.path.replace("%d", str(number % self.numbers))

    def sent(self, number: int) -> bytes:
        return self.body.replace(b"%d", b"%d" % (number % self.numbers)) if self.numbers > 1 else self.body


def _uploaded() -> bytes:
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="blob"\r\n'
    kind = "Content-Type: application/octet-stream\r\n\r\n"
    return f"{head}{kind}".encode() + FILE + f"\r\n--{_BOUNDARY}--\r\n".encode()


LOADS = {
    "single": Asked("a row", "/single?n=%d", ROWS),
    "queries": Asked(f"{BATCH} rows, by a query for each", "/queries?n=%d", ROWS),
    "updates": Asked(f"{BATCH} rows read and updated in a transaction", "/updates?n=%d", 1_000_000_000),
    "fortunes": Asked("rows sorted, in a template", "/fortunes", 1),
    "cached": Asked("a value from the cache in Redis", "/cached?n=%d", 100),
    "login": Asked(
        f"a login: PBKDF2 with {ITERATIONS:,} iterations, and a session in Redis",
        "/login",
        USERS,
        "application/x-www-form-urlencoded",
        f"user=user%d&password={PASSWORD.replace(' ', '+')}".encode(),
    ),
    "upload": Asked(
        f"a file of {len(FILE) >> 10} kB, multipart, and its SHA-256",
        "/upload",
        1,
        f"multipart/form-data; boundary={_BOUNDARY}",
        _uploaded(),
    ),
}


def chosen(number: int) -> list[int]:
    """The rows that are read."""
    return [(number * BATCH + index) % ROWS + 1 for index in range(BATCH)]


def changed(number: int) -> list[int]:
    """The rows that are updated, always in the same order: no transaction waits for another in a circle."""
    return [row + ROWS for row in chosen(number)]


def answer_of(port: int, asked: Asked, number: int) -> str:
    """The body of the answer. AssertionError if its status is another than 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        fields = {"Content-Type": asked.content_type} if asked.body else {}
        connection.request(asked.method, asked.target(number), asked.sent(number) or None, fields)
        response = connection.getresponse()
        body = response.read().decode()
        assert response.status == 200, f"{asked.path}: status {response.status}: {body[:200]}"
        return body
    finally:
        connection.close()
