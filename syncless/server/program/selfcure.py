"""SelfCure: offloads C functions that have blocked the loop again and again, like patch_all(offload=[...]).

Only a function of which the stack says that an OS thread is the fix, and whose import path is known
(tools/callees.py). The watching thread counts; a tasklet of the serving thread replaces the function, when
the loop runs again.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from importlib import import_module
from typing import Any

from syncless._core.tasklet import Tasklet, spawn
from syncless._core.wait.sync import Event
from syncless.http.log.errorlog import warn
from syncless.tools.blockers import HELD, Stall, Watch, is_offloaded

SECONDS = 0.2
"""For which a call must block the loop to be counted, as a stall on the status page."""
STALLS = 3
"""After so many a function is offloaded."""


class SelfCure:
    """Watches the loop of the thread that starts it."""

    def __init__(self) -> None:
        self.cures: list[dict[str, Any]] = []
        """For each offloaded function: `function`, `at`, `stalls`, and the line of the `configuration`."""
        self._stalls: Counter[str] = Counter()
        self._due: deque[str] = deque()
        self._given_up: set[str] = set()
        self._woken = Event()
        self._watch: Watch | None = None
        self._tasklet: Tasklet[None] | None = None

    def start(self) -> None:
        self._tasklet = spawn(self._cure)
        self._tasklet.name = "offload what blocks the loop"
        self._watch = Watch(SECONDS, self.note)

    def stop(self) -> None:
        if self._watch is not None and self._tasklet is not None:
            self._watch.stop()
            self._tasklet.kill()
            self._watch = self._tasklet = None

    def note(self, stall: Stall, has_ended: bool) -> None:
        """Count a stall. This is called in the thread that watches."""
        if has_ended and stall.callee and (stall.offloadable or stall.is_held):
            self._stalls[stall.callee] += 1
            if self._stalls[stall.callee] >= STALLS and stall.callee not in self._given_up:
                self._due.append(stall.callee)
                self._woken.set()

    def _cure(self) -> None:
        while True:
            self._woken.wait()
            self._woken.clear()
            while self._due:
                self._offload(self._due.popleft())

    def _offload(self, path: str) -> None:
        blocked = f"{path}() has blocked all other requests {self._stalls[path]} times"
        if is_offloaded(path):
            self._give_up(path, f"{blocked}, though it is offloaded: {HELD.format(path)}")
            return
        try:
            import_module("syncless.patches").patch_offload(path)
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            self._give_up(path, f"{blocked}, and cannot be offloaded: {error}")
            return
        self.cures.append({"function": path, "at": time.time(), "stalls": STALLS, "configuration": ""})
        paths = ", ".join(f'"{cure["function"]}"' for cure in self.cures)
        for cure in self.cures:
            cure["configuration"] = f"[patch]\noffload = [{paths}]"
        warn(
            f"{blocked}: from now on it runs in OS threads. To keep that, write offload = [{paths}] into the "
            f"table [patch] of syncless.toml, or patch_all(offload=[{paths}]) into the program"
        )

    def _give_up(self, path: str, words: str) -> None:
        if path not in self._given_up:
            self._given_up.add(path)
            warn(words)
