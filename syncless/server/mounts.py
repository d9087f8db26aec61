"""Several applications in one server, each for the paths below a prefix."""

from __future__ import annotations

from collections.abc import Mapping

from syncless.apps.host import Hook, Host, Place, Serving, Sessions
from syncless.apps.wsgi.host import WSGIHost, pages_at
from syncless.apps.wsgi.middleware import nothing_here
from syncless.http.exchange import MountedApplications


class Mounts(Host):
    """Applications by prefix, one of which is "". Mounts may contain Mounts, whose prefixes are joined."""

    def __init__(self, hosts: Mapping[str, Host]):
        for prefix in hosts:
            if not prefix.startswith("/") or "//" in prefix:
                raise ValueError(
                    f"an application must be mounted at a path such as /api or /, not at {prefix!r}"
                )
        self.hosts: dict[str, Host] = {}
        for prefix, host in hosts.items():
            for rest, one in host.hosts.items() if isinstance(host, Mounts) else [("", host)]:
                path = prefix.rstrip("/") + rest
                if path in self.hosts:
                    raise ValueError(f"a path has two applications: {', '.join(hosts)}")
                self.hosts[path] = one
        self.hosts.setdefault("", WSGIHost(nothing_here))

    def begin(self, server: Serving) -> None:
        begun: list[Host] = []
        try:
            for host in self.hosts.values():
                host.begin(server)
                begun.append(host)
        except BaseException:
            for host in begun:
                host.end(0.0)
            raise

    def end(self, seconds: float) -> None:
        for host in self.hosts.values():
            host.end(seconds)

    def at(self, place: Place) -> MountedApplications:
        each = {prefix: host.at(place.below(prefix)) for prefix, host in self.hosts.items()}
        return MountedApplications(each, pages_at(place), each.pop(""))

    def with_hooks(self, before: Hook | None, after: Hook | None) -> Mounts:
        return Mounts({prefix or "/": host.with_hooks(before, after) for prefix, host in self.hosts.items()})

    def with_sessions(self, sessions: Sessions) -> Mounts:
        return Mounts({prefix or "/": host.with_sessions(sessions) for prefix, host in self.hosts.items()})
