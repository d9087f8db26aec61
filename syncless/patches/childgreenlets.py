"""Greenlets in which SQLAlchemy runs synchronous code of a task, and awaits by a switch to their parent.

Fact: the parent is the greenlet in which the task began. Danger: our loop makes each step of a task on any
carrier, so the switch went to a carrier that ran something else. Decision: the parent is the greenlet that
has switched there last. Guarded by tests/asyncio/test_libraries.py (sqlalchemy).
"""

from __future__ import annotations

from typing import Any

import greenlet  # type: ignore[import-untyped]

from syncless.patches.imports import when_imported
from syncless.patches.registry import Patcher


def _switch(self: Any, *args: Any, **kwargs: Any) -> Any:
    """greenlet.switch"""
    _come_back_here(self)
    return greenlet.greenlet.switch(self, *args, **kwargs)


def _throw(self: Any, *args: Any) -> Any:
    """greenlet.throw"""
    _come_back_here(self)
    return greenlet.greenlet.throw(self, *args)


def _come_back_here(child: Any) -> None:
    here = greenlet.getcurrent()
    if child.parent is not here and not child.dead:
        child.parent = here


def _change(patcher: Patcher, module: Any) -> None:
    kind: Any = getattr(module, "_AsyncIoGreenlet", None)  # SQLAlchemy 2.0
    if kind is None:
        kind = getattr(getattr(module, "_concurrency_shim", None), "_AsyncIoGreenlet", None)  # 2.1
    if isinstance(kind, type):
        why = "switches back to the greenlet in which its task began"
        patcher.member(kind, "switch", _switch, why)
        patcher.member(kind, "throw", _throw, why)


def patch(patcher: Patcher) -> None:
    for name in ("sqlalchemy.util._concurrency_py3k", "sqlalchemy.util.concurrency"):
        when_imported(patcher, name, _change)
