"""The hooks that syncless runs before and after a fork. Takes functions, and calls them as close to the fork
as possible.

Fact: the interpreter calls the hooks of os.register_at_fork() in FIFO order, those before a fork in reverse
order. Danger: in the child, the hooks of a library that was imported earlier run before ours; a hook that
waits does so in the parent's loop, for threads that only the parent has. In the parent, too, those hooks
would run while we are still prepared for the fork. Decision: our hooks come first in the interpreter's lists,
which gc.get_referrers() finds. Price: one search through all objects, at the import of syncless. Guarded by
tests/core/test_forking.py.

Most children exec or end soon, and each object that a hook touches is in a page that the child must copy. So
the hooks of pools, resolvers and threads wait until one of these is used and calls look().

A C library that forks by itself calls no hooks. Such a child begins when it first asks for its loop, see
threadloop.pyx.
"""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable

Hook = Callable[[], object]

_before: list[Hook] = []
_in_parent: list[Hook] = []
_in_child: list[Hook] = []
_at_first_use: list[Hook] = []
_unused = False
"""This process is a child in which nobody has called look()."""
_forks = 0
"""That are under way: several threads may fork at a time."""


def at_fork(
    *,
    before: Hook | None = None,
    in_parent: Hook | None = None,
    in_child: Hook | None = None,
    at_first_use: Hook | None = None,
) -> None:
    """Register hooks like os.register_at_fork(), but closer to the fork: `before` runs after the hooks of
    others, and the other hooks run before theirs. `at_first_use` runs in the child at the first call of
    look(), which must precede each use of what the hook repairs."""
    for hook, hooks in (
        (before, _before),
        (in_parent, _in_parent),
        (in_child, _in_child),
        (at_first_use, _at_first_use),
    ):
        if hook is not None:
            hooks.append(hook)


def begin_child() -> None:
    """Run the hooks of a forked child, once, before it uses syncless."""
    global _forks, _unused
    _forks = 0
    _unused = True
    atexit.register(look)  # the last one is called first
    _call(_in_child)


def look() -> None:
    """Run the `at_first_use` hooks if this process is a forked child that has not run them yet."""
    global _unused
    if _unused:
        _unused = False
        _call(_at_first_use)


def _call(hooks: list[Hook]) -> None:
    for number, hook in enumerate(hooks, 1):
        try:
            hook()
        except BaseException:
            _call(hooks[number:])
            raise  # the interpreter tells of it, and goes on


def _prepare() -> None:
    global _forks
    look()
    _forks += 1
    _call(_before[::-1])


def _go_on_in_parent() -> None:
    global _forks
    _forks -= 1
    _call(_in_parent)


def _go_on_in_child() -> None:
    if _forks:  # else the child has begun already
        begin_child()


def _register() -> None:
    hooks = (_prepare, _go_on_in_parent, _go_on_in_child)
    os.register_at_fork(before=_prepare, after_in_parent=_go_on_in_parent, after_in_child=_go_on_in_child)
    found = _lists_of(hooks)
    if len(found) < len(hooks) and gc.get_freeze_count():
        gc.unfreeze()  # the collector shows no frozen objects
        found = _lists_of(hooks)
        gc.freeze()
    for registered, hook in found:
        registered.remove(hook)
        registered.insert(0, hook)


def _lists_of(hooks: tuple[Hook, ...]) -> list[tuple[list[Hook], Hook]]:
    lists = [each for each in gc.get_referrers(*hooks) if type(each) is list]
    return [(each, hook) for each in lists for hook in hooks if hook in each]


_register()
