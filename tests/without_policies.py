"""asyncio as Python 3.16 has it: ``pytest -p tests.without_policies``, or an import before that of syncless.

Takes away what that release has removed: the policies of event loops and `iscoroutinefunction`; and the
watchers of child processes, which 3.14 removed. The three functions that remain are given as they are there.
What asyncio's C code does without a running loop still needs a policy, and fails here.
"""

import asyncio
import asyncio.events as events
import threading
import warnings

REMOVED = {
    name
    for module in (asyncio, asyncio.events, asyncio.unix_events)
    for name in dir(module)
    if name.strip("_").endswith(("Policy", "policy", "child_watcher"))
} | {"iscoroutinefunction"}


class _Local(threading.local):
    loop = None


_local = _Local()


def get_event_loop():
    loop = events._get_running_loop() or _local.loop
    if loop is None:
        raise RuntimeError(f"There is no current event loop in thread {threading.current_thread().name!r}.")
    return loop


def set_event_loop(loop):
    _local.loop = loop


def new_event_loop():
    return asyncio.SelectorEventLoop()


class _Watcher:
    """Since Python 3.14 a loop looks after its children itself; before, it needs what this stands for."""

    def __init__(self):
        self._of_loop = asyncio.unix_events.PidfdChildWatcher()

    def __enter__(self):
        self._of_loop.attach_loop(asyncio.get_running_loop())
        return self._of_loop

    def __exit__(self, *exc_info):
        pass


def _module_getattr(name):
    raise AttributeError(f"module 'asyncio' has no attribute {name!r}")


for module in (asyncio, asyncio.events, asyncio.unix_events):
    for name in REMOVED:
        module.__dict__.pop(name, None)
    if "__getattr__" in module.__dict__:  # since Python 3.14 it gives the policies, with a warning
        module.__getattr__ = _module_getattr
for function in (get_event_loop, set_event_loop, new_event_loop):
    function.__module__ = "asyncio.events"
    for module in (asyncio, asyncio.events):
        setattr(module, function.__name__, function)
if hasattr(asyncio.unix_events, "PidfdChildWatcher"):
    events.get_child_watcher = _Watcher
with warnings.catch_warnings():
    warnings.simplefilter("error")
    assert not any(hasattr(asyncio, name) for name in REMOVED)
