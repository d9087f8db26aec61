"""Prepares a process for its first request: privileges, hooks, and the application."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from syncless.apps.loading import admit, enter
from syncless.http.log.errorlog import warn
from syncless.http.log.serverlogs import Logs
from syncless.server.kinds import as_host
from syncless.server.program.hooks import Hooks
from syncless.server.program.privileges import Privileges
from syncless.server.server import Server
from syncless.tools.records import record


@record(frozen=True)
class Preparation:
    """The ``hooks``, ``privileges`` and ``chdir`` of `serve`, and its ``native`` if that must be imported
    after the privileges are dropped."""

    hooks: Hooks
    privileges: Privileges | None = None
    folder: str | None = None
    native: Mapping[str, Any] | None = None
    native_threads: int = 0

    def make_server(self, host: str = "", port: int = 0, **options: Any) -> Server:
        """Return a Server that gets its application from take(), because user code must run neither as root
        nor before the hook."""
        server = Server(nothing_yet, host, port, **options)
        self.own_files(server.logs)
        return server

    def take(self, server: Server, application: Any, hook: str) -> None:
        """Drop the privileges, call the hook, import the application if it is a name, and make its requests
        call their hooks. Raise HookFailed, ValueError, or the errors of `load`."""
        if self.privileges is not None:
            server.logs.make_files()
            self.privileges.drop()
            admit()
            self.enter_for_good()
            if self.native:
                server.handle_natively(self.native, self.native_threads)
        self.hooks.call(hook)
        try:
            host = as_host(application)
        except TypeError as error:
            raise ValueError(str(error)) from None
        before, after = self.hooks.for_request("pre_request"), self.hooks.for_request("post_request")
        if before is not None or after is not None:
            host = host.with_hooks(before, after)
        server.application = host

    def enter_again(self) -> None:
        """Resolve the name of the folder again, because a deployment may have changed a symbolic link."""
        try:
            if self.folder is not None:
                enter(self.folder)
        except OSError as error:
            warn(f"cannot change to {self.folder} again: {error.strerror}; new workers use the old directory")

    def enter_for_good(self) -> None:
        """Enter the folder as the user, who may lack access to the place to which root has followed a
        symbolic link. Raise OSError on failure."""
        if self.folder is not None:
            try:
                enter(self.folder)
            except OSError as error:
                raise OSError(
                    error.errno, f"the user cannot change to it: {error.strerror}", self.folder
                ) from None

    def own_files(self, logs: Logs) -> None:
        """Give the log files to the user that the process switches to."""
        if self.privileges is not None:
            logs.owner = self.privileges.ids


def nothing_yet(*args: Any) -> Any:
    """A placeholder for an application that is imported later."""
    raise RuntimeError("the application has not been imported")


def share(url: str | None) -> None:
    """Let syncless.shared use the Redis at this URL. Raise ValueError if it is none, or a package is
    missing."""
    if url is not None:
        try:
            import_module("syncless.shared.area").connect(url)
        except RuntimeError as error:
            raise ValueError(f"shared: {error}") from None
