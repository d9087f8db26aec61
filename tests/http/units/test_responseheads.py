"""http/responseheads: response heads are kept, and used again for the same status and headers."""

import email.utils

import pytest

from syncless.http.wire.wire import http_date
from tests.virtualtime import set_system_time

TYPE = ("Content-Type", "text/plain")
SIZE = ("Content-Length", "5")


@pytest.fixture
def heads(units):
    return units.Heads()


def test_status_has_a_line_and_a_code(heads):
    assert heads.status("200 OK") == (200, b"HTTP/1.1 200 OK\r\n")
    assert heads.status("404 ") == (404, b"HTTP/1.1 404 \r\n")
    assert heads.status("200 OK") == (200, b"HTTP/1.1 200 OK\r\n")
    for number in range(300):
        assert heads.status(f"{100 + number} Reason {number}")[0] == 100 + number


@pytest.mark.parametrize(
    "status",
    ["", "200", "20 OK", "2000 OK", "099 Low", "200 O\r\nK", "200 O\x7fK", "\N{SUPERSCRIPT TWO}00 OK"],
)
def test_invalid_status_line_is_refused(heads, status):
    with pytest.raises(ValueError, match="three digits"):
        heads.status(status)
    assert heads.status("200 OK")[0] == 200


@pytest.mark.virtual_time
def test_date_is_made_anew_each_second(heads):
    first = heads.dates()
    assert first.startswith(b"Server: syncless\r\nDate: ") and first.endswith(b" GMT\r\n")
    assert heads.dates() is first
    for seconds in (1, -3600):
        set_system_time(seconds)
        assert heads.dates() != first
    set_system_time(3599)
    assert heads.dates() == first


def test_date_is_that_of_rfc_9110():
    for when in (0, 951_782_400, 1_700_000_000.9):
        assert http_date(when) == email.utils.formatdate(int(when), usegmt=True)


def test_same_objects_have_the_last_head(heads):
    heads.remember("200 OK", [TYPE, SIZE], b"head\r\n", 5, True)
    assert heads.last("200 OK", [TYPE, SIZE]) == (b"head\r\n\r\n", 5, True)


def test_other_status_or_headers_do_not_have_the_last_head(heads):
    status = "200 OK"
    assert heads.last(status, [TYPE]) is None
    heads.remember(status, [TYPE, SIZE], b"head\r\n")
    assert heads.last("201 Created", [TYPE, SIZE]) is None
    assert heads.last(status, [TYPE]) is None
    assert heads.last(status, [SIZE, TYPE]) is None
    name, value = SIZE
    assert heads.last(status, [TYPE, (name, value)]) is None  # an equal tuple may be of a str subclass


def test_list_that_changes_later_does_not_change_what_is_remembered(heads):
    headers = [TYPE]
    heads.remember("200 OK", headers, b"head\r\n")
    headers.append(SIZE)
    assert heads.last("200 OK", headers) is None
    assert heads.last("200 OK", [TYPE]) is not None


@pytest.mark.virtual_time
def test_last_head_is_of_no_use_when_its_date_is_too_old(heads):
    heads.remember("200 OK", [TYPE], b"head\r\n")
    set_system_time(1)
    assert heads.last("200 OK", [TYPE]) is None


def test_large_head_is_not_kept_and_neither_is_the_one_before_it(heads):
    heads.remember("200 OK", [TYPE], b"head\r\n")
    heads.remember("200 OK", [TYPE, SIZE], b"h" * 2049)
    assert heads.last("200 OK", [TYPE, SIZE]) is None
    assert heads.last("200 OK", [TYPE]) is None
    heads.remember("200 OK", [TYPE, SIZE], b"h" * 2048)
    assert heads.last("200 OK", [TYPE, SIZE])[0] == b"h" * 2048 + b"\r\n"
