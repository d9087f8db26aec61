"""A prompt in this process's own terminal; tasklets run while it waits."""

from __future__ import annotations

from typing import Any

import syncless
from syncless import debug

BANNER = (
    "syncless {version}: tasklets run while the prompt waits. "
    "spawn(f, ...) starts one, tasklets() lists them. Ctrl-D leaves."
)


def interact(namespace: dict[str, Any] | None = None) -> None:
    """Reads and runs statements until the end of the input. Tasklets go on meanwhile if input() is patched
    (patch_all())."""
    import code  # not before, because code.py in the working directory is an application, mostly

    names: dict[str, Any] = {"__name__": "__console__", "syncless": syncless, "debug": debug}
    names.update({name: getattr(syncless, name) for name in ("sleep", "spawn", "tasklets")})
    names.update(namespace or {})
    try:
        import readline  # not before, because it may write to the terminal
        import rlcompleter

        readline.set_completer(rlcompleter.Completer(names).complete)
        readline.parse_and_bind("tab: complete")
    except ImportError:
        pass
    code.InteractiveConsole(names).interact(BANNER.format(version=syncless.__version__), exitmsg="")
