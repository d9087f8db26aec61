"""Conditional requests (RFC 9110, 13): the copy of the client is compared with the file."""

from __future__ import annotations

import re
from datetime import timezone
from email.utils import parsedate_to_datetime

from syncless.http.request import Request

_TAG = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')


def precondition(request: Request, etag: str, modified: int) -> int:
    """304 or 412 if the client's conditions (RFC 9110, 13.2.2) demand that, else 0. `etag`: a strong one;
    `modified`: the second that Last-Modified says."""
    match = request.field("if-match")
    unmodified_since = request.field("if-unmodified-since")
    if match is not None:
        if not _listed(match, etag, weak=False):
            return 412
    elif unmodified_since is not None:
        since = seconds(unmodified_since)
        if since is not None and modified > since:
            return 412
    none_match = request.field("if-none-match")
    if none_match is not None:
        return 304 if none_match == etag or _listed(none_match, etag, weak=True) else 0
    modified_since = request.field("if-modified-since")
    if modified_since is not None:
        since = seconds(modified_since)
        if since is not None and modified <= since:
            return 304
    return 0


def range_holds(request: Request, etag: str, last_modified: str) -> bool:
    """Whether If-Range, if there is one, names what there is: the ETag or the very date (RFC 9110,
    13.1.5)."""
    field = request.field("if-range")
    return field is None or field.strip(" \t") in (etag, last_modified)


def _listed(field: str, etag: str, *, weak: bool) -> bool:
    if field.strip(" \t") == "*":
        return True
    return any(tag == etag and (weak or not prefix) for prefix, tag in _TAG.findall(field))


def seconds(date: str) -> int | None:
    """An HTTP date in seconds since 1970; None if it is none."""
    try:
        when = parsedate_to_datetime(date)
        return int((when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp())
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
