"""Hooks: user functions that a server calls when it starts, forks, stops and answers requests.

A hook is a function or its name ("module:function"), which is imported in the process that calls it. If
on_start or post_fork fails, the process ends; errors of other hooks are logged. The application calls the
hooks of requests, see Host.with_hooks().
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syncless.apps.host import Hook
from syncless.apps.loading import ApplicationFailed, load, own_traceback
from syncless.http.log.errorlog import process_log, running_request

NAMES = ("on_start", "post_fork", "pre_request", "post_request", "pre_stop", "worker_exit")


class HookFailed(Exception):
    """A hook that the process needs has failed; the message has its name and its traceback."""


class Hooks:
    """Hooks({"on_start": function, "post_fork": "module:function"}). Raise ValueError for an unknown hook."""

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
        """Return the hook's function, or None. Raise HookFailed or ApplicationNotFound if it cannot be
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
        """Import all hooks, to check that this is possible."""
        for name in self._given:
            self.load(name)

    def call(self, name: str) -> None:
        """Call the hook, if there is one. Raise HookFailed if it fails."""
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
        """Call the hook, if there is one, and log its errors."""
        try:
            hook = self.load(name)
            if hook is not None:
                hook()
        except Exception as error:
            process_log().error(f"the hook {self._labels[name]} raised an error:", error)

    def for_request(self, name: str) -> Hook | None:
        """Return a function that calls the hook and logs its errors, or None if there is no such hook."""
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
