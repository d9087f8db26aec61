"""mysqlclient, whose connections are made and used in OS threads."""

from __future__ import annotations

from typing import Any

import MySQLdb as _standard  # type: ignore[import-untyped]
import MySQLdb.connections as _connections  # type: ignore[import-untyped]

from syncless.eventlet import tpool

_OWN = (
    "__name__",
    "__file__",
    "__spec__",
    "__loader__",
    "__package__",
    "__path__",
    "__builtins__",
    "__cached__",
    "__doc__",
)
globals().update({name: value for name, value in vars(_standard).items() if name not in _OWN})


def Connection(*args: Any, **kwargs: Any) -> Any:
    """Connect in an OS thread; the calls of the connection, and of its cursors, run there, too."""
    made = tpool.execute(_connections.Connection, *args, **kwargs)
    return tpool.Proxy(made, autowrap_names=("cursor",))


connect = Connect = Connection


class connections:
    """MySQLdb.connections, with that Connection."""

    Connection = staticmethod(Connection)


for _name, _value in vars(_connections).items():
    if not hasattr(connections, _name):
        setattr(connections, _name, _value)


def __getattr__(name: str) -> Any:
    """Submodules that are imported later."""
    return getattr(_standard, name)
