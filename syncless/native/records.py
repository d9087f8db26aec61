"""A request as CGI meta-variables (RFC 3875, 4.1), from the bytes of its head: for lines of the access
log."""

from __future__ import annotations

from typing import Any, NamedTuple

from syncless.http.wire import decoded

PLAIN = ("CONTENT_TYPE", "CONTENT_LENGTH")


class Ended(NamedTuple):
    """The attributes of a request that the access log asks for."""

    ending: str
    id: str | None = None


def request_of(data: bytes, address: str, port: int) -> dict[str, Any]:
    """``data`` has been read as a head before, but may be cut off."""
    first, *lines = data.partition(b"\r\n\r\n")[0].lstrip(b"\r\n").decode("latin-1").split("\r\n")
    method, target, protocol = first.split(" ", 2) if first.count(" ") >= 2 else (first, "", "")
    path, _, query = target.partition("?")
    authority = ""
    if "://" in path:
        authority, _, path = path.split("://", 1)[1].partition("/")
        path = f"/{path}"
    variables: dict[str, Any] = {
        "REMOTE_ADDR": address,
        "REMOTE_PORT": str(port),
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": decoded(path.encode("latin-1")).decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_PROTOCOL": protocol,
        "wsgi.url_scheme": "http",
    }
    for line in lines:
        name, colon, value = line.partition(":")
        key = name.upper().replace("-", "_")
        if colon and "_" not in name and key != "PROXY":
            key = key if key in PLAIN else f"HTTP_{key}"
            value = value.strip(" \t")
            joint = "; " if key == "HTTP_COOKIE" else ","
            variables[key] = f"{variables[key]}{joint}{value}" if key in variables else value
    if authority:
        variables["HTTP_HOST"] = authority
    return variables
