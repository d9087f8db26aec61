"""Whose fault it is decides the type of an error; each type knows the status it is answered with."""

from __future__ import annotations

from http import HTTPStatus


class ClientError(Exception):
    """The client broke the protocol or a limit. If the application does not catch it, the client gets
    `status`."""

    status = 400
    headers: tuple[tuple[str, str], ...] = ()
    """That the answer has besides."""


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
    """The client asks for a version of the WebSocket protocol that is not spoken here: 426 (RFC 6455,
    4.4)."""

    status = 426
    headers = (("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"))


class ClientGone(ClientError):
    """The client closed the connection or stopped reading: no response can reach it. No OSError where a wait
    for something else is ended: a driver would take it for one of its own connection, and try again."""


class ConnectionLost(ClientGone, ConnectionError):
    """ClientGone where the client's own bytes are read or written."""


ON_HANGUP = ("continue", "stop", "stop-all")
"""A request whose client leaves goes on, or ClientGone is raised in it: if it is a GET or a HEAD, or in any
case."""


class QueuedTooLong(ClientError):
    """The client has waited for longer than Limits.queue_seconds before its request could begin: 503."""

    status = 503


class RequestTimeout(BaseException):
    """The request is not answered after Limits.request_seconds: 503. A BaseException, so that ``except
    Exception`` does not swallow it."""


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

REASONS: dict[int, str] = {
    400: "Bad Request",
    408: "Request Timeout",
    413: "Content Too Large",
    414: "URI Too Long",
    417: "Expectation Failed",
    426: "Upgrade Required",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
"""The statuses that the server itself answers with."""

PHRASES = {status.value: status.phrase for status in HTTPStatus} | REASONS
"""The usual reason of each status."""

EXPLANATIONS: dict[int, str] = {
    400: "The request does not follow HTTP/1.1.",
    408: "The request took too long to arrive.",
    413: "The request body is larger than this server accepts.",
    414: "The request line is longer than this server accepts.",
    417: "This server supports only the expectation 100-continue.",
    426: "This server does not support the requested version of the WebSocket protocol.",
    431: "The request has more header or trailer fields, or larger ones, than this server accepts.",
    500: "The application failed. The reason is in the server's log.",
    501: "This server does not support the method or the transfer coding of the request.",
    503: "The server cannot answer this request now.",
    505: "This server supports only HTTP/1.0 and HTTP/1.1.",
}
"""The text of the answer, in a sentence."""


def refusal(status: int, explanation: str = "") -> str:
    """The body of an answer of the server's own."""
    return f"{status} {REASONS[status]}\n{explanation or EXPLANATIONS[status]}\n"


def status_line(status: int) -> str:
    """Of a response, with the usual reason."""
    return f"HTTP/1.1 {status} {PHRASES.get(status, 'Unknown')}\r\n"
