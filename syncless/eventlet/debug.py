"""Aids for finding faults: what the hub prints, and which lines run."""

from __future__ import annotations

import inspect
import linecache
import signal
import sys
import threading
from types import FrameType
from typing import Any

from syncless.debug import Watchdog
from syncless.eventlet import greenpool, hubs, tpool
from syncless.eventlet.hubs import hub

__all__ = [
    "format_hub_listeners",
    "format_hub_timers",
    "hub_blocking_detection",
    "hub_exceptions",
    "hub_listener_stacks",
    "hub_prevent_multiple_readers",
    "hub_timer_stacks",
    "spew",
    "tpool_exceptions",
    "unspew",
]


class Spew:
    """A trace function that prints each line of the modules in `trace_names`, or of all, and the values of
    its names."""

    def __init__(self, trace_names: Any = None, show_values: bool = True) -> None:
        self.trace_names = trace_names
        self.show_values = show_values

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Spew:
        if event == "line":
            self._tell(frame)
        return self

    def _tell(self, frame: FrameType) -> None:
        lineno = frame.f_lineno
        if "__file__" in frame.f_globals:
            name = frame.f_globals["__name__"]
            filename = frame.f_globals["__file__"]
            line = linecache.getline(
                filename.removesuffix("c") if filename.endswith(".pyc") else filename, lineno
            )
        else:
            name = "[unknown]"
            try:
                source, first = inspect.getsourcelines(frame)
                line = source[lineno - first]
            except (OSError, IndexError):
                line = f"Unknown code named [{frame.f_code.co_name}].  VM instruction #{frame.f_lasti}"
        if self.trace_names is not None and name not in self.trace_names:
            return
        print(f"{name}:{lineno}: {line.rstrip()}")
        if not self.show_values:
            return
        values = [
            f"{word}={(frame.f_locals if word in frame.f_locals else frame.f_globals)[word]!r}"
            for word in _words(line)
            if word in frame.f_locals or word in frame.f_globals
        ]
        if values:
            print("\t" + " ".join(values))


def _words(line: str) -> list[str]:
    letters = "".join(letter if letter.isidentifier() or letter.isdigit() else " " for letter in line)
    return list(dict.fromkeys(word for word in letters.split() if word.isidentifier()))


def spew(trace_names: Any = None, show_values: bool = False) -> None:
    """Print each line that runs from now on."""
    sys.settrace(Spew(trace_names, show_values))


def unspew() -> None:
    """Stop that."""
    sys.settrace(None)


def format_hub_listeners() -> str:
    """Return a text about what waits for descriptors in the hub."""
    here = hubs.get_hub()
    readers = "\n".join(map(repr, here.get_readers()))
    writers = "\n".join(map(repr, here.get_writers()))
    return f"READERS:\n{readers}\nWRITERS:\n{writers}"


def format_hub_timers() -> str:
    """Return a text about the timers of the hub."""
    return "\n".join(["TIMERS:", *map(repr, hubs.get_hub()._timers)])


def hub_listener_stacks(state: bool = False) -> None:
    """Keep where listeners were made: ours do anyway, in their tasklets."""
    hubs.get_hub().set_debug_listeners(state)


def hub_timer_stacks(state: bool = False) -> None:
    """The same for timers."""


def hub_prevent_multiple_readers(state: bool = True) -> None:
    """Say whether a second green thread that reads from a socket at the same time gets a RuntimeError."""
    hub.prevent_multiple_readers = state


def hub_exceptions(state: bool = True) -> None:
    """Say whether exceptions that end green threads and timers are printed."""
    hubs.get_hub().set_timer_exceptions(state)
    greenpool.DEBUG = state


def tpool_exceptions(state: bool = False) -> None:
    """Say whether exceptions in tpool's threads are printed."""
    tpool.QUIET = not state


_watchdog: Watchdog | None = None


def hub_blocking_detection(state: bool = False, resolution: float = 1) -> None:
    """Raise RuntimeError in a green thread that lets no others run for so many seconds. Uses SIGALRM."""
    global _watchdog
    if _watchdog is not None:
        _watchdog.stop()
        _watchdog = None
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if state:
        signal.signal(signal.SIGALRM, _blocks)
        _watchdog = Watchdog(resolution * 1000, _interrupt)
        _watchdog.start()


def _interrupt(seconds: float, stack: str) -> None:
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGALRM)


def _blocks(number: int, frame: FrameType | None) -> None:
    raise RuntimeError("Blocking detector tripped")
