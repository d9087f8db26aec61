"""The phases of a connection, and which may follow which: the table that connection.pyx goes by.

Debug builds refuse a transition that is not in the table, and count those that are.
"""

from libc.stdint cimport uint8_t

NAMES = ("greeting", "reading", "queued", "running", "lingering", "closed")

FOLLOWS = {
    "greeting": ("reading", "closed"),
    "reading": ("queued", "running", "lingering", "closed"),
    "queued": ("running", "reading"),   # its turn has come; or it is refused, or closed
    "running": ("reading", "closed"),
    "lingering": ("closed",),
    "closed": (),
}

cdef uint8_t allowed[PHASES][PHASES]
cdef long long taken[PHASES][PHASES]

for _old, _following in FOLLOWS.items():
    for _new in _following:
        allowed[<int> NAMES.index(_old)][<int> NAMES.index(_new)] = True


cdef int check_move(uint8_t old, uint8_t new) except -1:
    if old >= PHASES or new >= PHASES or not allowed[old][new]:
        raise AssertionError(f"a connection cannot go from phase {old} to phase {new}: see http/phases.pyx")
    taken[old][new] += 1
    return 0


def is_checked() -> bool:
    """Whether this build refuses impossible transitions."""
    return CHECKED


def move(str old, str new) -> None:
    """A move of no connection, checked in every build. AssertionError."""
    check_move(NAMES.index(old), NAMES.index(new))


def times_taken(str old, str new) -> int:
    """How often connections of this process have gone that way, in a debug build."""
    return taken[<int> NAMES.index(old)][<int> NAMES.index(new)]
