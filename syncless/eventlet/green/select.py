"""select.select() that lets other green threads run."""

from __future__ import annotations

import select as _standard
from typing import Any

from syncless.patches.polling import cooperative_select

globals().update(
    {
        name: value
        for name, value in vars(_standard).items()
        if not name.startswith(("__", "epoll", "poll", "kqueue"))
    }
)

error = OSError
__patched__ = ["select"]


def get_fileno(obj: Any) -> int:
    """Return the descriptor of an object, or the number itself."""
    try:
        number = obj.fileno()
    except AttributeError:
        number = obj
    if not isinstance(number, int):
        raise TypeError(f"Expected int or long, got {type(number)}")
    return number


class _Select:
    """Not a function, which would become a method of the selectors that keep it in their class."""

    __name__ = "select"

    def __call__(self, read_list: Any, write_list: Any, error_list: Any, timeout: float | None = None) -> Any:
        """Wait until one of the descriptors is ready; see select.select()."""
        if timeout is not None and not isinstance(timeout, (int, float)):
            raise TypeError("Expected number for timeout")
        return cooperative_select(read_list, write_list, error_list, timeout)


select = _Select()
