"""Priorities: which requests are first where the limit `requests` lets others wait, by path or by a field.

Rules are "/prefix=rank", of which the longest that fits counts, and "header:name", whose value is a rank; the
field counts from trusted peers, and comes first. Tested by tests/http/test_priorities.py.
"""

from __future__ import annotations

from collections.abc import Iterable

ALWAYS, HIGH, NORMAL, LOW = range(4)
RANKS = {"always": ALWAYS, "high": HIGH, "normal": NORMAL, "low": LOW}


class Priorities:
    """Priorities(rules, pages): paths of `pages` are never made to wait. Raise ValueError for a malformed
    rule."""

    def __init__(self, rules: str | Iterable[str], pages: Iterable[str] = ()) -> None:
        self.header = ""
        """The name of the field, in lower case; "": there is none."""
        self._prefixes: list[tuple[str, int]] = []
        """The longest first."""
        self._pages = dict.fromkeys(pages, ALWAYS)
        for rule in [rules] if isinstance(rules, str) else rules:
            if rule.startswith("header:") and rule != "header:":
                self.header = rule.removeprefix("header:").lower()
                continue
            prefix, _, rank = rule.rpartition("=")
            if not prefix.startswith("/") or rank not in RANKS:
                raise ValueError(f"priority: write /PATH={'|'.join(RANKS)} or header:NAME, not {rule!r}")
            self._prefixes.append((prefix.rstrip("/"), RANKS[rank]))
        self._prefixes.sort(key=lambda each: -len(each[0]))

    def __bool__(self) -> bool:
        return bool(self.header or self._prefixes or self._pages)

    def rank(self, path: str, value: str | None) -> int:
        """Return the rank of a request; `value`: that of the field, if it counts."""
        if value is not None and value in RANKS:
            return RANKS[value]
        if path in self._pages:
            return ALWAYS
        for prefix, rank in self._prefixes:
            if path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", "/"):
                return rank
        return NORMAL
