"""Which poll backend a loop has: the best of this system, or the one that the environment names."""

from __future__ import annotations

import os

from syncless._core.poll.poller import Poller, PollPoller, SelectPoller

BACKENDS: dict[str, type[Poller]] = {"poll": PollPoller, "select": SelectPoller}
"""The best first."""
try:
    from syncless._core.poll.kqueue import KqueuePoller
except ModuleNotFoundError:  # setup.py builds each where the system has it
    pass
else:
    BACKENDS = {"kqueue": KqueuePoller, **BACKENDS}
try:
    from syncless._core.poll.epoll import EpollPoller
except ModuleNotFoundError:
    pass
else:
    BACKENDS = {"epoll": EpollPoller, **BACKENDS}


def new_poller() -> Poller:
    """One that is not open yet."""
    choice = os.environ.get("SYNCLESS_LOOP", "")
    if choice and choice not in BACKENDS:
        raise ValueError(f"SYNCLESS_LOOP={choice!r}: this system has {', '.join(BACKENDS)}")
    return BACKENDS[choice or next(iter(BACKENDS))]()
