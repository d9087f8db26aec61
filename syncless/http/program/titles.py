"""The title of a process in `ps` and `top`, where the package setproctitle is installed."""

from __future__ import annotations

from typing import Any


def set_title(role: str, application: Any) -> None:
    """``syncless: ROLE NAME``, with the application's name if it has been given by name."""
    try:
        from setproctitle import setproctitle
    except ImportError:
        return
    name = application if isinstance(application, str) else ""
    setproctitle(f"syncless: {' '.join(word for word in (role, name) if word)}")
