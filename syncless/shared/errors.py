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
    """The counters and locks need all of Limits.shared_value_bytes, and nothing else is left to drop."""


class Unavailable(SharedError):
    """The shared memory cannot be used, because a process was stopped while it changed the memory."""


class Lagged(SharedError):
    """A subscriber has read so slowly that messages were overwritten. It can read the next ones."""

    def __init__(self, missed: int):
        super().__init__(
            f"the subscriber has read too slowly: {missed} message{'' if missed == 1 else 's'} overwritten"
        )
        self.missed = missed
        """Messages: of its topics, or of all topics if the loop of its thread has been blocked meanwhile."""
