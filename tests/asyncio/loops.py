"""For the tests of asyncio loops."""

import contextlib

from syncless.asyncio import EventLoop


@contextlib.contextmanager
def event_loop(**settings):
    loop = EventLoop()
    for name, value in settings.items():
        setattr(loop, name, value)
    try:
        yield loop
    finally:
        if not loop.is_closed():
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()


def run(main, **settings):
    """The result of the coroutine, in a loop of its own."""
    with event_loop(**settings) as loop:
        return loop.run_until_complete(main)
