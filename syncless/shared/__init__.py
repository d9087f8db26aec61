"""Messages, counters, values, locks and rate limits that all workers of a server share.

They are in memory that the master makes before it starts its workers, so nothing has to be installed. They
survive a reload and the end of any worker, and end with the master. Without workers, they belong to the first
process that uses them, and to the children that it forks later.
"""

from syncless.shared.area import figures
from syncless.shared.errors import (
    InvalidName,
    Lagged,
    SharedError,
    StoreFull,
    TooLarge,
    Unavailable,
    UnfitValue,
)
from syncless.shared.locks import Lock
from syncless.shared.messages import Message, Subscription, publish, subscribe
from syncless.shared.values import Counter, Mapping, RateLimit

__all__ = [
    "Counter",
    "InvalidName",
    "Lagged",
    "Lock",
    "Mapping",
    "Message",
    "RateLimit",
    "SharedError",
    "StoreFull",
    "Subscription",
    "TooLarge",
    "Unavailable",
    "UnfitValue",
    "figures",
    "publish",
    "subscribe",
]
