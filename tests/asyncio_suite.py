"""CPython's own tests of asyncio on our event loop, in the place of asyncio's selector loop.

``python -m tests.asyncio_suite [MODULE ...]`` runs modules of the interpreter's test.test_asyncio and prints
the tests that fail. With ``--park`` one callback in ten waits at its end, chosen at random but the same
each time. For a failure that is not among the known ones the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys

from tests import watched

LOOP = """
import asyncio, asyncio.unix_events
from syncless.asyncio import EventLoop

class Loop(EventLoop):
    def __init__(self, selector=None):
        super().__init__()
"""
PARKS = """
import random
from syncless import sleep

chance = random.Random(5)

class Loop(Loop):
    def call_soon(self, callback, *args, context=None):
        if chance.random() < 0.1 and callable(callback):
            whole = callback
            def callback(*args):
                result = whole(*args)
                sleep(0.0001)
                return result
        return super().call_soon(callback, *args, context=context)
"""
INSTALL = """
for module in (asyncio, asyncio.unix_events):
    module.SelectorEventLoop = Loop
asyncio.unix_events._UnixDefaultEventLoopPolicy._loop_factory = Loop
"""
MODULES = (
    "test_base_events test_buffered_proto test_context test_events test_futures test_futures2 test_locks "
    "test_pep492 test_queues test_runners test_sendfile test_server test_sock_lowlevel test_ssl "
    "test_sslproto test_streams test_subprocess test_taskgroups test_tasks test_threads test_timeouts "
    "test_transports test_unix_events test_waitfor"
).split()
"""Those that use a loop. test_selector_events and test_proactor_events take the standard loops apart."""

KNOWN = {
    "test_base_events.BaseEventLoopWithSelectorTests.": "replace methods of the selector loop by mocks",
    "test_events.EPollEventLoopTests.test_internal_fds": "the loop has no self-pipe",
    "test_events.PollEventLoopTests.test_internal_fds": "the loop has no self-pipe",
    "test_events.SelectEventLoopTests.test_internal_fds": "the loop has no self-pipe",
    "test_events.TestPyGetEventLoop.": "replaces asyncio's C functions that note the running loop, not ours",
    "test_unix_events.SelectorEventLoopSignalTests.": "replaces the signal module inside asyncio by a mock",
    "test_unix_events.SelectorEventLoopUnixSockSendfileTests.test_sock_sendfile_blocking_error": (
        "replaces os.sendfile by a mock and the loop's add_writer by another"
    ),
}
"""Test, or beginning of names that end with a dot -> why it fails."""

KNOWN_PARKED = {
    "test_events.HandleTests.test_handle_source_traceback": "finds the line that makes callbacks wait",
    **{
        f"test_tasks.{kind}.test_context_{number}": "a step while another waits has a copy of the context"
        for kind in (
            *("CTask_CFuture_Tests", "CTask_CFuture_SubclassTests", "CTask_PyFuture_Tests"),
            *("CTaskSubclass_PyFuture_Tests", "PyTask_CFutureSubclass_Tests", "PyTask_CFuture_Tests"),
            *("PyTask_PyFuture_Tests", "PyTask_PyFuture_SubclassTests"),
        )
        for number in (2, 4, 5, 6)
    },
}
"""The same for --park. Of the tests with contexts some fail in one run, others in the next: it depends on how
long a callback waits."""

ENTERED = "is already entered"
"""With --park, what a test says that enters its context while a callback waits in it, as unittest does."""


def is_known(test: str, known: dict[str, str]) -> bool:
    return any(test == name or (name.endswith(".") and test.startswith(name)) for name in known)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.asyncio_suite", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="of test.test_asyncio (default: all that fit)"
    )
    parser.add_argument("--park", action="store_true", help="one callback in ten waits at its end")
    parser.add_argument("--test-seconds", type=float, default=60, help="that a test may take (default 60)")
    parser.add_argument("--seconds", type=float, default=600, help="that a module may take (default 600)")
    options = parser.parse_args()
    known = KNOWN | KNOWN_PARKED if options.park else KNOWN
    prelude = LOOP + (PARKS if options.park else "") + INSTALL
    new = 0
    for module in options.modules or MODULES:
        whole = f"test.test_asyncio.{module}"
        outcome = watched.run(whole, prelude, [], options.test_seconds, options.seconds)
        failed = sorted(test.removeprefix("test.test_asyncio.") for test in outcome.failed)
        entered = {
            test.removeprefix("test.test_asyncio.")
            for test, trace in outcome.failed.items()
            if options.park and ENTERED in trace
        }
        fresh = [
            test
            for test in failed
            if not is_known(test, known) and test not in entered and "_FailedTest" not in test
        ]
        new += len(fresh)
        told = f"{len(outcome.passed)} pass, {len(failed) - len(fresh)} known failures"
        print(f"{module}: {told}, new failures: {', '.join(fresh) or 'none'}", flush=True)
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
