"""Changes of the patch to modules that may not have been imported yet."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from syncless.patches.registry import Patcher
from syncless.tools.imports import when_executed


def when_imported(
    patcher: Patcher,
    name: str,
    change: Callable[[Patcher, Any], None],
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Calls change(patcher, module) now, or when the module is first imported. It is executed inside
    `around`."""

    def change_now(module: Any) -> None:
        change(patcher, module)
        patcher.rebind_now()

    take_back = when_executed(name, change_now, around)
    if take_back is not None:
        patcher.at_undo(take_back)
