"""``python -m benchmark.engine LIBRARY time|schedule|memory DIVISOR`` prints JSON: CPU ns per operation, or
bytes per tasklet."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

from benchmark.engine import asynchronous, blocking, go, raw
from benchmark.servers import Absent

LIBRARIES: dict[str, Callable[[str, int], dict[str, float]]] = {
    "syncless": lambda what, divisor: blocking.run(blocking.Syncless(), what, divisor),
    "gevent": lambda what, divisor: blocking.run(blocking.Gevent(), what, divisor),
    "eventlet": lambda what, divisor: blocking.run(blocking.Eventlet(), what, divisor),
    "syncless.eventlet": lambda what, divisor: blocking.run(blocking.OurEventlet(), what, divisor),
    "gevent, our loop": lambda what, divisor: blocking.run(blocking.GeventOnOurLoop(), what, divisor),
    "threads": lambda what, divisor: blocking.run(blocking.Threads(), what, divisor),
    "asyncio": lambda what, divisor: asynchronous.run("asyncio", what, divisor),
    "uvloop": lambda what, divisor: asynchronous.run("uvloop", what, divisor),
    "greenlet": raw.run,
    "go": go.run,
}

if __name__ == "__main__":
    try:
        found = LIBRARIES[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    except (Absent, ImportError) as error:
        sys.exit(str(error))
    print(json.dumps(found), flush=True)
    os._exit(0)  # ending 100,000 tasklets one by one is not what is measured
