"""The choice of a loop's poll backend: the best one of this system, or the one that the environment names."""

from __future__ import annotations

import os
from importlib import import_module

from syncless._core.poll.poller import Poller, PollPoller, SelectPoller

NATIVE = {"epoll": "EpollPoller", "kqueue": "KqueuePoller"}
"""Module -> class of those that setup.py builds where the system has them. The best first."""

BACKENDS: dict[str, type[Poller]] = {}
"""The best first."""
for _name, _class in NATIVE.items():
    try:
        BACKENDS[_name] = getattr(import_module(f"syncless._core.poll.{_name}"), _class)
    except ModuleNotFoundError:
        pass
BACKENDS |= {"poll": PollPoller, "select": SelectPoller}


def new_poller() -> Poller:
    """Return a poller that is not open yet."""
    choice = os.environ.get("SYNCLESS_LOOP", "")
    if choice and choice not in BACKENDS:
        raise ValueError(f"unknown SYNCLESS_LOOP={choice!r}; this system has {', '.join(BACKENDS)}")
    return BACKENDS[choice or next(iter(BACKENDS))]()
