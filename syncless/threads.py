"""Real OS threads beside tasklets: an executor for code that waits or computes in C.

    from syncless.threads import RealThreadPoolExecutor

    with RealThreadPoolExecutor(4) as executor:
        results = list(executor.map(compress, pieces))

`Offload` is a pool for the calls of some functions, used as a context manager; `syncless.offload` is a
decorator. `syncless.run_in_thread(function, ...)` makes a single call.
"""

from syncless.tools.offloading import Offload
from syncless.tools.realthreads import RealThreadPoolExecutor

__all__ = ["Offload", "RealThreadPoolExecutor"]
