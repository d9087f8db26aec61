"""The errors of shared messages, names and values, and of their memory."""

from __future__ import annotations


class SharedError(Exception):
    """The base class of this package's errors."""


class InvalidName(SharedError, ValueError):
    """A topic, a name or a key is empty, too long, or cannot be encoded as UTF-8; or a rate is malformed."""


class UnfitValue(SharedError, TypeError):
    """The value is neither bytes nor str, and JSON cannot represent it."""


class TooLarge(SharedError, ValueError):
    """A message is larger than Limits.shared_message_bytes, or a value needs more than a quarter of
    Limits.shared_value_bytes."""


class StoreFull(SharedError):
    """The counters, metrics and locks need all of Limits.shared_value_bytes: nothing else is left to drop."""


class Unavailable(SharedError):
    """The shared memory cannot be used, because a process was stopped while it changed the memory; or Redis
    has refused, or not answered within Limits.shared_seconds."""


class Lagged(SharedError):
    """Messages are missing: a subscriber has read so slowly that they were overwritten, or Redis was away. It
    can read the next ones."""

    def __init__(self, missed: int, interrupted: bool = False):
        told = f"{missed} message{'' if missed == 1 else 's'} "
        if interrupted:
            text = f"the connection to Redis was lost for a while: {told}or more may be missing"
        else:
            text = f"the subscriber has read too slowly: {told}overwritten"
        super().__init__(text)
        self.missed = missed
        """Messages: of its topics, or of all topics if they were overwritten before it subscribed, or the
        loop of its thread was blocked meanwhile, or Redis was away. 0 if nobody knows."""
        self.interrupted = interrupted
        """Whether Redis was away."""
