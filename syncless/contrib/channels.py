"""A channel layer of Django Channels over syncless.shared: for all workers, or all machines with `--shared`.

CHANNEL_LAYERS = {"default": {"BACKEND": "syncless.contrib.channels.SharedChannelLayer"}}. As with the pub/sub
layer of channels_redis, a message goes to those who receive at that moment, and only the process of a channel
knows its groups.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import uuid
from typing import Any
from weakref import WeakKeyDictionary

from channels.layers import BaseChannelLayer

from syncless._core.wait.sync import Lock
from syncless.shared import Lagged, Subscription, publish, subscribe

_logger = logging.getLogger("syncless.channels")
_BYTES = "\0bytes"
"""Key of a dict that stands for bytes, which JSON cannot carry."""


class SharedChannelLayer(BaseChannelLayer):  # type: ignore[misc]
    """``prefix``: layers with another one hear nothing of this one. ``capacity``: messages that a channel
    keeps until they are received; the oldest are dropped."""

    extensions = ["groups", "flush"]

    def __init__(
        self,
        prefix: str = "channels",
        expiry: int = 60,
        capacity: int = 100,
        channel_capacity: dict[Any, int] | None = None,
    ):
        super().__init__(expiry, capacity, self.compile_capacities(channel_capacity or {}))
        self._prefix = prefix
        self._halves: WeakKeyDictionary[asyncio.AbstractEventLoop, _Half] = WeakKeyDictionary()
        self._making = Lock()

    async def send(self, channel: str, message: dict[str, Any]) -> None:
        self.require_valid_channel_name(channel)
        publish(f"{self._prefix} channel {channel}", _encode(message))

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        self.require_valid_group_name(group)
        publish(f"{self._prefix} group {group}", _encode(message))

    async def new_channel(self, prefix: str = "specific") -> str:
        channel = f"{prefix}.{uuid.uuid4().hex}!{uuid.uuid4().hex}"
        self._queue(channel)
        return channel

    async def receive(self, channel: str) -> Any:
        self.require_valid_channel_name(channel)
        queue = self._queue(channel)
        try:
            return _decode(await queue.get())
        except asyncio.CancelledError:  # the consumer has ended
            self._half().forget(channel)
            raise

    async def group_add(self, group: str, channel: str) -> None:
        self.require_valid_group_name(group)
        self.require_valid_channel_name(channel)
        self._queue(channel)
        self._half().groups.setdefault(group, set()).add(channel)

    async def group_discard(self, group: str, channel: str) -> None:
        self.require_valid_group_name(group)
        self.require_valid_channel_name(channel)
        self._half().discard(group, channel)

    async def flush(self) -> None:
        half = self._half()
        half.queues.clear()
        half.groups.clear()

    def _half(self) -> _Half:
        with self._making:  # subscribe() may wait
            loop = asyncio.get_running_loop()
            half = self._halves.get(loop)
            if half is None or half.subscription.ended:
                half = self._halves[loop] = _Half(self._prefix)
            return half

    def _queue(self, channel: str) -> asyncio.Queue[str]:
        queues = self._half().queues
        if channel not in queues:
            queues[channel] = asyncio.Queue(self.get_capacity(channel))
        return queues[channel]


class _Half:
    """What one event loop has of a layer: queues of channels, members of groups, and the task that fills
    them."""

    def __init__(self, prefix: str):
        self.queues: dict[str, asyncio.Queue[str]] = {}
        self.groups: dict[str, set[str]] = {}
        self.subscription = subscribe(f"{prefix} channel *", f"{prefix} group *")
        self._task = asyncio.ensure_future(self._read(self.subscription, len(prefix) + 1))

    def discard(self, group: str, channel: str) -> None:
        members = self.groups.get(group, set())
        members.discard(channel)
        if not members:
            self.groups.pop(group, None)

    def forget(self, channel: str) -> None:
        self.queues.pop(channel, None)
        for group in [group for group, members in self.groups.items() if channel in members]:
            self.discard(group, channel)

    async def _read(self, subscription: Subscription, begin: int) -> None:
        while not subscription.ended:
            try:
                async for message in subscription:
                    kind, _, name = message.topic[begin:].partition(" ")
                    for channel in list(self.groups.get(name, ())) if kind == "group" else [name]:
                        self._put(channel, message.data)
            except Lagged as lagged:
                _logger.warning("%s", lagged)

    def _put(self, channel: str, data: str) -> None:
        queue = self.queues.get(channel)
        if queue is not None:
            if queue.full():
                queue.get_nowait()
                _logger.warning("channel %s is full: its oldest message is dropped", channel)
            queue.put_nowait(data)


def _encode(message: dict[str, Any]) -> str:
    assert isinstance(message, dict), "message is not a dict"
    return json.dumps(message, default=_without_bytes)


def _without_bytes(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {_BYTES: base64.b64encode(value).decode()}
    raise TypeError(f"JSON cannot carry {type(value).__name__} in a message")


def _decode(text: str) -> Any:
    return json.loads(text, object_hook=_with_bytes)


def _with_bytes(found: dict[str, Any]) -> Any:
    return base64.b64decode(found[_BYTES]) if _BYTES in found else found
