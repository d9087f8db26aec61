"""Host: a server's view of an application. wsgi/host.py and asgi/host.py implement it; server/mounts.py
combines several hosts by path. server/kinds.py creates the host of a user's application.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from syncless._core.wait.sync import Event
from syncless.http.exchange import Application
from syncless.http.limits import Limits

if TYPE_CHECKING:
    from syncless.http.content.compression import Compression
    from syncless.http.content.static.files import StaticFiles
    from syncless.http.log.serverlogs import Logs
    from syncless.http.trust import Forward

Hook = Callable[..., Any]
"""A function of the user's."""


class Slots(Protocol):
    """Values of `threading.local`; see server/slots.py."""

    def use(self) -> None: ...


class Serving(Protocol):
    """The part of a Server that a host uses."""

    limits: Limits
    logs: Logs
    static: StaticFiles | None
    compression: Compression | None
    forwarding: Forward | None
    multiprocess: bool
    told_to_stop: Event

    @property
    def request_slots(self) -> Slots: ...


class Sessions(Protocol):
    """Those of clients, in several processes; see server/affinity.py."""

    def fields(self, cookies: str, secure: bool, headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Called with the cookies of a request and the headers of its response. Return more headers."""


class Place(NamedTuple):
    """The address and paths at which a host serves."""

    server: Serving
    address: Any
    """Of the listening socket, as getsockname() gives it."""
    name: str
    port: str
    """The same as text; without a port it is ""."""
    heads: int
    """Request heads that may be remembered."""
    pages: Mapping[str, Any] = {}
    """WSGI callables by their path, which answer there in place of the application."""
    prefix: str = ""
    """Of the paths for which it answers, without a slash at its end."""

    def below(self, prefix: str) -> Place:
        """Return the place of one of several applications."""
        return self._replace(heads=0, pages={}, prefix=self.prefix + prefix)


class Host(ABC):
    """An application of some kind. A server calls begin(), then at() for each of its listeners, and end()."""

    def begin(self, server: Serving) -> None:  # noqa: B027  most have nothing to do
        """Start the application before the first request; this may wait. Raise ApplicationFailed if the
        application fails to start, ValueError for an option that this kind does not support."""

    def end(self, seconds: float) -> None:  # noqa: B027
        """End the application after the last response. It has this many seconds to finish its work."""

    @abstractmethod
    def at(self, place: Place) -> Application:
        """Return what serves the requests of a listener."""

    @abstractmethod
    def with_hooks(self, before: Hook | None, after: Hook | None) -> Host:
        """Return the same host, with functions that are called before and after each request."""

    @abstractmethod
    def with_sessions(self, sessions: Sessions) -> Host:
        """Return the same host, with responses that tell clients where their sessions are."""
