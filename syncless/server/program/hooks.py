"""Hooks: functions of the user that a server calls when it starts, forks, stops and answers requests.

Takes functions, or their names ("module:function"), which are imported in the process that calls them. A hook
without which a process cannot serve (on_start, post_fork) ends it with an error; an error of any other is
logged. Those of requests are given to the application, see Host.with_hooks().
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syncless.apps.host import Hook
from syncless.apps.loading import ApplicationFailed, load, own_traceback
from syncless.http.log.errorlog import process_log, running_request

NAMES = ("on_start", "post_fork", "pre_request", "post_request", "pre_stop", "worker_exit")


class HookFailed(Exception):
    """A hook without which a process cannot serve; the text has its name and its traceback."""


class Hooks:
    """Hooks({"on_start": function, "post_fork": "module:function"}). Raise ValueError for one that there is
    not."""

    def __init__(self, given: Mapping[str, Hook | str] | None = None):
        self._given = dict(given or {})
        for name, hook in self._given.items():
            if name not in NAMES:
                import difflib

                found = difflib.get_close_matches(name, NAMES, 1)
                meant = f"did you mean {found[0]!r}?" if found else f"there are {', '.join(NAMES)}"
                raise ValueError(f"hooks: unknown hook {name!r}; {meant}")
            if not callable(hook) and not (isinstance(hook, str) and ":" in hook):
                raise ValueError(f"the hook {name} must be a function or 'module:function', not {hook!r}")
        self._labels = {name: f"{name} ({_place(hook)})" for name, hook in self._given.items()}

    def load(self, name: str) -> Hook | None:
        """Return the function of that name, or None. HookFailed, ApplicationNotFound if it cannot be
        imported."""
        hook = self._given.get(name)
        if isinstance(hook, str):
            try:
                hook = self._given[name] = load(hook)
            except ApplicationFailed as error:
                raise HookFailed(f"the hook {self._labels[name]} cannot be imported:\n{error}") from None
            if not callable(hook):
                raise HookFailed(f"the hook {self._labels[name]} is not a function")
        return hook

    def load_all(self) -> None:
        """Import all of them, to check that they can be."""
        for name in self._given:
            self.load(name)

    def call(self, name: str) -> None:
        """Call it, if there is one. HookFailed."""
        hook = self.load(name)
        if hook is None:
            return
        try:
            hook()
        except Exception as error:
            raise HookFailed(
                f"the hook {self._labels[name]} raised an error:\n{own_traceback(error)}"
            ) from None

    def call_at_end(self, name: str) -> None:
        """Call it, if there is one; its errors are logged."""
        try:
            hook = self.load(name)
            if hook is not None:
                hook()
        except Exception as error:
            process_log().error(f"the hook {self._labels[name]} raised an error:", error)

    def for_request(self, name: str) -> Hook | None:
        """Return a function that calls it and logs its errors; None if there is no such hook."""
        hook = self.load(name)
        if hook is None:
            return None

        def call(*arguments: Any) -> None:
            try:
                hook(*arguments)
            except Exception as error:
                process_log().error(
                    f"the hook {self._labels[name]} raised an error:", error, running_request()
                )

        return call


def _place(hook: Hook | str) -> str:
    if isinstance(hook, str):
        return hook
    return f"{getattr(hook, '__module__', None)}:{getattr(hook, '__qualname__', hook)}"
