"""Parts of files as response bodies."""

import pytest

from tests.asgi.test_http import START, http

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def letters(tmp_path):
    """An open file."""
    path = tmp_path / "letters"
    path.write_bytes(b"abcdefghij" * 20000)
    with open(path, "rb") as file:
        yield file


def giving(*parts, start=START):
    async def answer(scope, receive, send):
        assert "http.response.zerocopysend" in scope["extensions"]
        await send(start)
        for part in parts:
            await send({"type": "http.response.zerocopysend", **part})

    return http(answer)


def test_whole_file_from_its_position(start, letters):
    letters.seek(5)
    client = start.client(start(giving({"file": letters})))
    for _ in range(2):
        _, headers, body = client.get()
        assert headers["content-length"] == "199995" and body == b"fghij" + b"abcdefghij" * 19999


@pytest.mark.parametrize("given", [{}, {"offset": 3}])
def test_position_is_that_of_the_file_not_of_its_descriptor(start, tmp_path, given):
    """A buffered file reads ahead, and writes later."""
    path = tmp_path / "short"
    path.write_bytes(b"abcdef")
    with open(path, "r+b") as file:
        file.write(b"A")
        file.seek(2)
        file.read(1)
        file.write(b"D")
        file.seek(-1, 1)
        client = start.client(start(giving({"file": file, **given})))
        assert client.get()[2] == b"Def" and path.read_bytes() == b"AbcDef"


def test_part_of_a_file(start, letters):
    client = start.client(start(giving({"file": letters, "offset": 3, "count": 4})))
    assert client.get()[2] == b"defg"
    client.send(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert client.response(head_only=True)[1]["content-length"] == "4"
    assert client.get()[2] == b"defg"


@pytest.mark.parametrize("known", [False, True])
def test_several_parts_are_chunked_unless_their_length_is_known(start, letters, known):
    first = {"file": letters, "offset": 0, "count": 150000, "more_body": True}
    parts = first, {"file": letters, "offset": 150000, "count": 50000}
    fields = [(b"content-length", b"200000")] if known else []
    client = start.client(start(giving(*parts, start={**START, "headers": fields})))
    for _ in range(2):
        _, headers, body = client.get()
        assert body == b"abcdefghij" * 20000 and ("transfer-encoding" in headers) is not known


def test_parts_for_a_client_of_http_1_0_end_with_the_connection(start, letters):
    parts = [
        {"file": letters, "offset": 0, "count": 9, "more_body": True},
        {"file": letters, "offset": 0, "count": 1},
    ]
    client = start.client(start(giving(*parts)))
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    received = b""
    while data := client.sock.recv(4096):
        received += data
    assert received.endswith(b"\r\n\r\nabcdefghia")


def test_static_file_beside_an_application_is_sent_by_sendfile(start, tmp_path, monkeypatch):
    from syncless.http.content import filepart

    (tmp_path / "big").write_bytes(bytes(1000000))
    monkeypatch.setattr(filepart, "pread", None)  # it would read blocks
    client = start.client(start(giving(), static={"/files": tmp_path}))
    assert client.get("/files/big")[2] == bytes(1000000)
    assert client.get("/files/big", "Range: bytes=5-\r\n")[2] == bytes(999995)
