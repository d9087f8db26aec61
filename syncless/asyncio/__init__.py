"""asyncio on the engine: an event loop that waits in the same loop as tasklets.

    import syncless.asyncio

    syncless.asyncio.install()
    asyncio.run(main())

Callbacks run beside tasklets in one thread. A callback that blocks in a cooperative call blocks only its own
task.
"""

import asyncio  # noqa: F401  # before our modules: the patch imports them as soon as it has been executed

from syncless.asyncio.backgroundloop import EventLoopPolicy, await_, install
from syncless.asyncio.eventloop import EventLoop, new_event_loop
from syncless.asyncio.tasklets import in_tasklet

__all__ = ["EventLoop", "EventLoopPolicy", "await_", "in_tasklet", "install", "new_event_loop"]
