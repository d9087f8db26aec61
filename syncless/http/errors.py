"""The errors of requests. The type of an error says whose fault it is, and has the status of the response."""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from typing import NamedTuple

from syncless.http.wire.wire import refusals


class Refusal(NamedTuple):
    """A reason for which the server itself answers a request: a row of wire/refusals.h."""

    status: int
    words: str


REFUSALS = {number: Refusal(status, words) for _, number, status, words in refusals()}
_FIRST = {refusal.status: number for number, refusal in reversed(REFUSALS.items())}
"""Status -> the first of its rows, which is the usual one."""


class ClientError(Exception):
    """The client broke the protocol or a limit. If the application does not catch it, the client gets
    `status`."""

    status = 400
    headers: tuple[tuple[str, str], ...] = ()
    """That the response has besides."""
    refusal = 0
    """The number of its row in REFUSALS; 0: the first one with its status."""


class BadRequest(ClientError, ValueError):
    """The body's framing is malformed (RFC 9112, 7.1): 400."""


class TrailersTooLarge(BadRequest):
    """The trailer section of the body is larger than Limits.trailer_bytes: 431."""

    status = 431


class BodyTooLarge(ClientError, ValueError):
    """The body is larger than Limits.body_bytes: 413."""

    status = 413


class BodyTimeout(ClientError, TimeoutError):
    """The client sent no more of the body for Limits.body_seconds: 408."""

    status = 408


class UpgradeRequired(ClientError):
    """The client asks for an unsupported version of the WebSocket protocol: 426 (RFC 6455, 4.4)."""

    status = 426
    headers = (("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"))


class ClientGone(ClientError):
    """The client closed the connection or stopped reading: no response can reach it. This is not an OSError,
    because a driver would mistake it for a failure of its own connection, and retry."""


class ConnectionLost(ClientGone, ConnectionError):
    """A ClientGone that is raised where the client's own bytes are read or written."""


ON_HANGUP = ("continue", "stop", "stop-all")
"""A request whose client leaves goes on, or ClientGone is raised in it: if it is a GET or a HEAD, or in any
case."""


def require_one_of(option: str, value: object, choices: Collection[str]) -> None:
    """Raise ValueError, which names the option, if the value is none of the choices."""
    if value not in choices:
        raise ValueError(f"{option} must be one of {', '.join(choices)}, not {value!r}")


class QueuedTooLong(ClientError):
    """The request has been queued for longer than Limits.queue_seconds: 503."""

    status = 503


class RequestTimeout(BaseException):
    """The request was not answered within Limits.request_seconds: 503. This is a BaseException, so that
    ``except Exception`` does not swallow it."""


HTTP2_ERRORS = (
    "no_error",
    "protocol_error",
    "internal_error",
    "flow_control_error",
    "settings_timeout",
    "stream_closed",
    "frame_size_error",
    "refused_stream",
    "cancel",
    "compression_error",
    "connect_error",
    "enhance_your_calm",
    "inadequate_security",
    "http_1_1_required",
    "unknown",
)
"""By their codes (RFC 9113, 7)."""

_NEW = {413: "Content Too Large", 414: "URI Too Long"}
PHRASES = {status.value: status.phrase for status in HTTPStatus} | _NEW
"""The reason phrase of each status (RFC 9110, 15). Older Pythons have older ones of some."""


def reason_of(error: ClientError) -> int:
    """Return the row of the error's response, even if the application defined the error."""
    return error.refusal or _FIRST.get(error.status, _FIRST[ClientError.status])


def refusal_page(reason: int) -> str:
    """Return the body of a response that the server itself makes."""
    why = REFUSALS[reason]
    return f"{why.status} {PHRASES[why.status]}\n{why.words}\n"


def status_line(status: int) -> str:
    """Return the status line of a response, with the usual reason phrase."""
    return f"HTTP/1.1 {status} {PHRASES.get(status, 'Unknown')}\r\n"
