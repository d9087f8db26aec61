"""pyzmq, whose sockets let other green threads run."""

from __future__ import annotations

from time import monotonic as _monotonic
from typing import Any

import zmq as _standard

from syncless._core.current import sleep as _sleep
from syncless._core.wait.select import readable as _readable
from syncless._core.wait.select import select as _select
from syncless._core.wait.sync import Event as _Event

__patched__ = ["Context", "Socket", "Poller"]

globals().update({name: value for name, value in vars(_standard).items() if not name.startswith("__")})


class Socket(_standard.Socket):  # type: ignore[type-arg]
    """zmq.Socket whose send() and recv() wait for its descriptor.

    Fact: the descriptor tells only of changes. Decision: a call that has changed something wakes the others
    that wait, which look again.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.__dict__["_changed"] = None

    def _tell(self) -> None:
        changed = self.__dict__.get("_changed")
        if changed is not None:
            self.__dict__["_changed"] = None
            changed.set()

    def _wait(self, option: int, call: Any, *args: Any, flags: int = 0, **kwargs: Any) -> Any:
        if flags & _standard.NOBLOCK:
            return call(*args, flags=flags, **kwargs)
        limit: Any = self.getsockopt(option)
        until = None if limit < 0 else _monotonic() + limit / 1000
        while True:
            try:
                value = call(*args, flags=flags | _standard.NOBLOCK, **kwargs)
            except _standard.Again as error:
                if until is not None and _monotonic() >= until:
                    error.is_timeout = True  # type: ignore[attr-defined]
                    raise
            else:
                self._tell()
                return value
            if self.__dict__.get("_changed") is None:
                self.__dict__["_changed"] = _Event()
            changed = self.__dict__["_changed"]
            _select(
                [_readable(self.getsockopt(_standard.FD)), changed],
                None if until is None else max(0, until - _monotonic()),
            )

    def send(  # type: ignore[override]
        self, data: Any, flags: int = 0, copy: bool = True, track: bool = False, **kwargs: Any
    ) -> Any:
        if flags & _standard.SNDMORE:
            return super().send(data, flags, copy, track, **kwargs)
        return self._wait(
            _standard.SNDTIMEO, super().send, data, flags=flags, copy=copy, track=track, **kwargs
        )

    def recv(self, flags: int = 0, copy: bool = True, track: bool = False) -> Any:
        return self._wait(_standard.RCVTIMEO, super().recv, flags=flags, copy=copy, track=track)

    def send_multipart(
        self, msg_parts: Any, flags: int = 0, copy: bool = True, track: bool = False, **kw: Any
    ) -> Any:
        parts = list(msg_parts)
        for part in parts[:-1]:
            self._wait(
                _standard.SNDTIMEO,
                super().send,
                part,
                flags=flags | _standard.SNDMORE,
                copy=copy,
                track=track,
            )
        return self.send(parts[-1], flags, copy, track)

    def recv_multipart(self, flags: int = 0, copy: bool = True, track: bool = False) -> Any:
        parts = [self.recv(flags, copy, track)]
        while self.getsockopt(_standard.RCVMORE):
            parts.append(super().recv(flags, copy, track))
        return parts

    def close(self, linger: Any = None) -> None:
        super().close(linger)
        self._tell()


class Context(_standard.Context):  # type: ignore[type-arg]
    """zmq.Context that makes such sockets."""

    _socket_class = Socket  # type: ignore[assignment]


class Poller(_standard.Poller):
    """zmq.Poller that lets others run between its looks."""

    def poll(self, timeout: Any = None) -> Any:
        left = None if timeout is None or timeout < 0 else timeout / 1000
        while True:
            found = super().poll(0)
            if found or (left is not None and left <= 0):
                return found
            _sleep(0.005)
            if left is not None:
                left -= 0.005
