from typing import Any

def asks_by_head(data: bytes) -> bool:
    """Return whether received bytes, which may not be a request, begin with the method HEAD."""

def http_date(when: float) -> str:
    """Return the time (seconds since 1970) in the format of RFC 9110, 5.6.7."""

def is_field(name: bytes, value: bytes) -> bool:
    """Return whether a message can have this header field (RFC 9110, 5.1 and 5.5)."""

def is_host(text: str) -> bool:
    """Return whether a Host field can have this value."""

def refusals() -> list[tuple[str, int, int, str]]:
    """Return (name, number, status, words) for each reason to refuse a request."""

def parse(
    data: bytes, request_line: int = 8190, header_count: int = 100, head_bytes: int = 32768
) -> tuple[int, dict[str, Any]] | int | None: ...
