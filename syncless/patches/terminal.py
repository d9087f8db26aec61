"""Patches input(): at a terminal, other tasklets run while the line is edited. Elsewhere input() reads
sys.stdin, which already waits cooperatively.

Without the readline module the terminal's driver edits the line, and nothing can be read before the line is
complete. With readline, the library edits the line and waits in C for each key. So its callback interface is
used here, one key at a time.

curses also waits in C, and may already have buffered keys, so it waits in a thread. The prompt of ``python``
calls a hook while it waits (_core/prompt.pyx).
"""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from syncless._core.calls.files import may_use_threads
from syncless._core.calls.threads import ThreadPool
from syncless._core.cpython.functions import original_of
from syncless._core.current import sleep, wait_readable
from syncless._core.wait.sync import Lock
from syncless.patches.registry import Patcher, when_imported

STDIN, STDOUT = 0, 1

KEYS = ("getch", "getkey", "get_wch", "getstr")
"""Methods of a curses window."""

_keys = ThreadPool(1)
_input = original_of(builtins.input)
_one_at_a_time = Lock()


def _edits() -> bool:
    """Return whether input() edits a line: only at the process's own terminal."""
    try:
        fds = sys.stdin.fileno(), sys.stdout.fileno()
        return fds == (STDIN, STDOUT) and sys.stdin.isatty() and sys.stdout.isatty()
    except (AttributeError, ValueError, OSError):
        return False


def cooperative_input(prompt: Any = "", /) -> str:
    """Read a line like input, cooperatively. Tasklets that call this at the same time are served one after
    the other."""
    if not may_use_threads():
        return _input(prompt)
    with _one_at_a_time:
        if not _edits():
            return _input(prompt)
        sys.stdout.flush()
        readline = sys.modules.get("readline")
        if readline is not None:
            import ctypes

            library = ctypes.CDLL(readline.__file__)
            if hasattr(library, "rl_callback_handler_install"):
                sys.audit("builtins.input", prompt)
                line = _key_by_key(library, readline, str(prompt))
                sys.audit("builtins.input/result", line)
                return line
        sys.stderr.write(str(prompt))  # as the interpreter does
        sys.stderr.flush()
        wait_readable(STDIN)
        return _input()


def _key_by_key(library: Any, readline: Any, prompt: str) -> str:
    """Return a line edited by the readline library, which gets each key as it arrives. Raise EOFError at the
    end of the input."""
    encoding = sys.stdin.encoding
    lines: list[bytes | None] = []
    import ctypes

    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]

    def complete(line: int | None) -> None:
        library.rl_callback_handler_remove()  # or it would prompt for the next one
        lines.append(None if line is None else ctypes.string_at(line))
        if line is not None:
            free(line)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(complete)
    library.rl_callback_handler_install(prompt.encode(encoding), handler)
    try:
        while not lines:
            wait_readable(STDIN)
            library.rl_callback_read_char()
    finally:
        if not lines:
            library.rl_callback_handler_remove()
    line = lines[0]
    if line is None:
        raise EOFError
    text = line.decode(encoding)
    length = readline.get_current_history_length()
    if text and (length == 0 or readline.get_history_item(length) != text):
        readline.add_history(text)
    return text


def _key(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any) -> Any:
        return _keys.run(original, self, *args) if may_use_threads() else original(self, *args)

    return method


def _nap(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def napms(ms: Any, /) -> Any:
        if type(ms) is not int or ms <= 0 or not may_use_threads():
            return original(ms)
        result = original(0)
        sleep(ms / 1000)
        return result

    return napms


def _curses(patcher: Patcher, module: Any) -> None:
    for name in KEYS:
        if name in vars(module.window):
            patcher.member_in_place(module.window, name, _key(vars(module.window)[name]), "waits for a key")
    patcher.rebind(module, "napms", _nap(original_of(module.napms)), "stops the thread")


def patch(patcher: Patcher) -> None:
    when_imported(patcher, "_curses", _curses)
    patcher.rebind(builtins, "input", cooperative_input, "waits for a key")
    if (hasattr(sys, "ps1") or sys.flags.interactive) and _edits():
        prompt = import_module("syncless._core.prompt")
        if prompt.install(_wait_for_key):
            patcher.at_undo(prompt.remove)


def _wait_for_key() -> None:
    """Wait for a key, while the prompt of ``python`` waits for a line. That of Python 3.13 waits by itself,
    in poll(), and may have read keys already: with it, let others run."""
    caller = sys._getframe().f_back
    if not may_use_threads():
        return
    if caller is not None and str(caller.f_globals.get("__name__")).startswith("_pyrepl."):
        sleep(0)
    else:
        wait_readable(STDIN)
