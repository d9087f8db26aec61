"""What can be wrong with a message, a name or a value that is shared, or with the memory itself."""

from __future__ import annotations


class SharedError(Exception):
    """The base of all of them."""


class InvalidName(SharedError, ValueError):
    """A topic, a name or a key is empty, is too long, or cannot be encoded as UTF-8; or a rate cannot be
    read."""


class UnfitValue(SharedError, TypeError):
    """The value is neither bytes nor str, and JSON cannot carry it."""


class TooLarge(SharedError, ValueError):
    """A message is larger than Limits.shared_message_bytes, or a value needs more than a quarter of
    Limits.shared_value_bytes."""


class StoreFull(SharedError):
    """The counters and locks need all of Limits.shared_value_bytes: nothing is left that could be dropped."""


class Unavailable(SharedError):
    """The shared memory cannot be used: a process that changes it has been stopped in the midst of that."""


class Lagged(SharedError):
    """A subscriber has not read for so long that messages were overwritten; the next ones can be read."""

    def __init__(self, missed: int):
        super().__init__(
            f"the subscriber has read too slowly: {missed} message{'' if missed == 1 else 's'} overwritten"
        )
        self.missed = missed
        """Messages: of its topics, or of all topics if the loop of its thread has been blocked meanwhile."""
