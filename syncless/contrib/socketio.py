"""Client managers of python-socketio over syncless.shared: one server of all workers, or of all machines with
`--shared`.

Flask-SocketIO: SocketIO(app, client_manager=SharedManager()). An ASGI server: socketio.AsyncServer(
client_manager=AsyncSharedManager()).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from socketio import PubSubManager
from socketio.async_pubsub_manager import AsyncPubSubManager

from syncless._core.current import sleep
from syncless.shared import Lagged, Subscription, Unavailable, publish, subscribe

PAUSE_SECONDS = 1.0
"""Until the next attempt to subscribe while Redis is away."""


def _topic(channel: str) -> str:
    return f"socketio {channel}"


class SharedManager(PubSubManager):  # type: ignore[misc]
    name = "syncless"

    def _publish(self, data: Any) -> None:
        publish(_topic(self.channel), self.json.dumps(data))

    def _listen(self) -> Iterator[str]:
        with _subscribed(self.channel) as subscription:
            while not subscription.ended:
                try:
                    for message in subscription:
                        yield message.data
                except Lagged as lagged:
                    self._get_logger().warning("%s", lagged)


class AsyncSharedManager(AsyncPubSubManager):  # type: ignore[misc]
    name = "asyncsyncless"

    async def _publish(self, data: Any) -> None:
        publish(_topic(self.channel), self.json.dumps(data))

    async def _listen(self) -> AsyncIterator[str]:
        with _subscribed(self.channel) as subscription:
            while not subscription.ended:
                try:
                    async for message in subscription:
                        yield message.data
                except Lagged as lagged:
                    self._get_logger().warning("%s", lagged)


def _subscribed(channel: str) -> Subscription:
    while True:
        try:
            return subscribe(_topic(channel))
        except Unavailable:
            sleep(PAUSE_SECONDS)
