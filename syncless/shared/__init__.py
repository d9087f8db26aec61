"""Messages, counters, values, locks and rate limits that all workers of a server share.

They are in memory that the master makes before it starts its workers, so nothing has to be installed. They
outlive a worker that ends or is killed, and a reload; they end with the master. Without workers, they belong
to the first process that uses them, and to the children that it forks later. With `--shared redis://...` they
are in Redis, for the servers of several machines.
"""

from syncless.shared.area import connect, figures
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
    "connect",
    "figures",
    "publish",
    "subscribe",
]
