"""Detects whether the calling code cleans up: if so, interrupts of its waits for locks are delayed, see
wait/sync/graces.pxi.

Takes the frames of the running tasklet. Returns True if one of them is in a `finally` block, in `__exit__` or
`__del__`, or if the tasklet handles a BaseException such as a Timeout or a kill.

Fact: a `finally` block that is entered without an exception is ordinary code in a frame; no state marks it.
Decision: the compiler emits such a block at least twice, once for the case of an exception, and both copies
have the same position in the source. So an instruction is in such a block if it has a twin, and one of the
two is in an exception handler. The code is analysed when a tasklet is interrupted at a lock, once per code
object. Price: code that is not written in Python has no frames.

Guarded by tests/core/test_cleanup.py.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any

from syncless._core.cpython.features import HAS_EXCEPTION_TABLES

METHODS = frozenset({"__exit__", "__aexit__", "__del__"})
SETUP_FINALLY = 122
"""Of Python 3.10."""
EXITS = frozenset({"WITH_EXCEPT_START"})
AWAITS = frozenset({"SEND", "YIELD_FROM", "YIELD_VALUE"})


def in_clean_up() -> bool:
    error = sys.exc_info()[1]
    if error is not None and not isinstance(error, Exception):
        return True
    frame = sys._getframe().f_back  # None where the tasklet's function is one in C
    while frame is not None:
        if frame.f_code.co_name in METHODS or frame.f_lasti in final_instructions(frame.f_code):
            return True
        frame = frame.f_back
    return False


@lru_cache(4096)
def final_instructions(code: CodeType) -> frozenset[int]:
    """Return the offsets of the instructions in `finally` blocks."""
    table: bytes = getattr(code, "co_exceptiontable", b"")
    if not (table if HAS_EXCEPTION_TABLES else SETUP_FINALLY in code.co_code[::2]):
        return frozenset()
    import dis

    instructions = list(dis.get_instructions(code))
    offsets = [each.offset for each in instructions] + [len(code.co_code)]
    places: list[Any] = []
    for each in instructions:  # lines and columns, before 3.11 the line
        line = each.starts_line or (places[-1] if places else None)
        places.append(getattr(each, "positions", line))
    exits = {place for each, place in zip(instructions, places, strict=True) if each.opname in EXITS}
    same: dict[Any, list[int]] = {}
    for at, (each, place) in enumerate(zip(instructions, places, strict=True)):
        # `await` at the beginning and at the end of `async with` has one place
        if each.opname not in AWAITS or place not in exits:
            same.setdefault((each.opcode, each.arg, place), []).append(at)
    found: set[int] = set()
    for handler in (_handlers if HAS_EXCEPTION_TABLES else _handlers_without_table)(code, instructions):
        for twins in same.values():
            if len({offsets[at] in handler for at in twins}) == 2:
                for at in twins:  # the interpreter is anywhere between this one and the next
                    found.update(range(offsets[at], offsets[at + 1], 2))
    return frozenset(found)


def _handlers(code: CodeType, instructions: list[Any]) -> Iterator[Container[int]]:
    """Yield the offsets of each exception handler: the instructions whose exceptions lead to the handler's
    end, directly or through inner handlers."""
    import dis

    leads: dict[int, int] = {}
    for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]
        leads.update(dict.fromkeys(range(entry.start, entry.end, 2), entry.target))
    for begin in instructions:
        if begin.opname == "PUSH_EXC_INFO":
            handler: set[int] = {leads.get(begin.offset, -1)}
            while more := {at for at, to in leads.items() if at >= begin.offset and to in handler} - handler:
                handler |= more
            yield handler


def _handlers_without_table(code: CodeType, instructions: list[Any]) -> Iterator[Container[int]]:
    raising = [each.offset for each in instructions if each.opname == "RERAISE"]
    for each in instructions:
        if each.opname == "SETUP_FINALLY":
            end = next((offset for offset in raising if offset >= each.argval), len(code.co_code))
            yield range(each.argval, end)
