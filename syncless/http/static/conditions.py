"""Conditional requests (RFC 9110, 13): the copy of the client is compared with the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timezone
from email.utils import parsedate_to_datetime

_TAG = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')


def precondition(variables: Mapping[str, str], etag: str, modified: int) -> int:
    """304 or 412 if the client's conditions (RFC 9110, 13.2.2) demand that, else 0. `etag`: a strong one;
    `modified`: the second that Last-Modified says."""
    match = variables.get("HTTP_IF_MATCH")
    if match is not None:
        if not _listed(match, etag, weak=False):
            return 412
    elif "HTTP_IF_UNMODIFIED_SINCE" in variables:
        since = seconds(variables["HTTP_IF_UNMODIFIED_SINCE"])
        if since is not None and modified > since:
            return 412
    none_match = variables.get("HTTP_IF_NONE_MATCH")
    if none_match is not None:
        return 304 if none_match == etag or _listed(none_match, etag, weak=True) else 0
    if "HTTP_IF_MODIFIED_SINCE" in variables:
        since = seconds(variables["HTTP_IF_MODIFIED_SINCE"])
        if since is not None and modified <= since:
            return 304
    return 0


def range_holds(variables: Mapping[str, str], etag: str, last_modified: str) -> bool:
    """Whether If-Range, if there is one, names what there is: the ETag or the very date (RFC 9110,
    13.1.5)."""
    field = variables.get("HTTP_IF_RANGE")
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
