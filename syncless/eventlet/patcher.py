"""monkey_patch() is our patch; import_patched() imports a second copy of a module that uses our green
modules.

Where the patch is, a second copy is not needed, and green modules are the standard ones.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from syncless import patches
from syncless._core.cpython.functions import original_of
from syncless.eventlet.support import currentthread, greenlets
from syncless.patches import signals

__all__ = ["import_patched", "inject", "is_monkey_patched", "monkey_patch", "original"]

AREAS = {
    "os": ("files", "signal", "system", "filelocks"),
    "select": ("select", "asyncio"),
    "socket": ("socket", "dns", "ssl"),
    "subprocess": ("subprocess",),
    "thread": ("thread", "queue", "multiprocessing"),
    "time": ("time",),
    "psycopg": ("drivers",),
    "MySQLdb": (),
    "builtins": ("files",),
}
"""eventlet's name for what is patched -> our areas."""
USUAL = ("os", "select", "socket", "subprocess", "thread", "time", "psycopg", "MySQLdb")

already_patched: dict[str, bool] = {}

_GREEN = ("socket", "ssl", "select", "time", "os", "threading", "_thread", "queue", "subprocess", "selectors")
"""Standard modules that a module imported by import_patched() gets green."""
_NETWORK = (
    "http",
    "http.client",
    "http.server",
    "http.cookiejar",
    "socketserver",
    "urllib.request",
    "ftplib",
    "smtplib",
)
"""Standard modules of which it gets copies of its own, because they use those."""
SHARED = ("http.cookies", "urllib", "urllib.error", "urllib.parse", "urllib.response")
"""Standard modules that never wait: there is one copy of each, and of the exceptions in them."""


def monkey_patch(**on: bool | None) -> None:
    """Make the standard library cooperative: all of it, or what the arguments say (``socket=True``: only
    that; ``socket=False``: all but that)."""
    unknown = on.keys() - AREAS.keys() - {"all"}
    if unknown:
        raise TypeError(f"monkey_patch() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    default = on.pop("all", None)
    if default is None:
        default = not any(on.values())
    chosen = {name for name in USUAL if on.get(name, default)} | {name for name, value in on.items() if value}
    if chosen.issuperset(USUAL):
        patches.patch_all()
    else:
        wanted = {area for name in chosen for area in AREAS[name]}
        choice: Any = {area: area in wanted for area in patches.AREAS}
        patches.patch_all(**choice)
    for name in chosen:
        already_patched[name] = True
    if "thread" in chosen:
        currentthread.watch()
    if "MySQLdb" in chosen and (on.get("MySQLdb") or "MySQLdb" in sys.modules):
        _patch_mysqldb()


signals.in_its_thread.append(lambda tasklet: isinstance(tasklet, (greenlets.greenlet, greenlets.Turn)))


def _patch_mysqldb() -> None:
    try:
        green = green_module("MySQLdb")
    except ImportError:
        return
    for name in ("connect", "Connect", "Connection"):
        setattr(sys.modules["MySQLdb"], name, green.Connection)


def is_monkey_patched(module: Any) -> bool:
    """Return whether a module, or the module of that name, is patched."""
    name = module if isinstance(module, str) else module.__name__
    if name in already_patched:
        return True
    areas = AREAS.get({"threading": "thread", "_thread": "thread", "queue": "thread"}.get(name, name), ())
    return bool(areas) and all(patches.is_patched(area) for area in areas)


@contextlib.contextmanager
def _instead(modules: dict[str, Any]) -> Iterator[None]:
    """Let imports in the block find these modules, and leave no traces of it."""
    saved = {name: sys.modules.get(name) for name in modules}
    parents = {name: _kept(name) for name in modules}
    try:
        for name, module in modules.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
        yield
    finally:
        for name, module in saved.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
        for name, found in parents.items():
            package, _, rest = name.rpartition(".")
            if package in sys.modules and found is not None:
                setattr(sys.modules[package], rest, found)
            elif package in sys.modules:
                vars(sys.modules[package]).pop(rest, None)


def _kept(name: str) -> Any:
    package, _, rest = name.rpartition(".")
    return getattr(sys.modules.get(package), rest, None) if package else None


def green_module(name: str) -> Any:
    """Return the green module for a standard one."""
    return importlib.import_module(f"{__package__}.green.{'thread' if name == '_thread' else name}")


def _green_modules() -> dict[str, Any]:
    return {name: green_module(name) for name in _GREEN}


def inject(
    module_name: str, new_globals: dict[str, Any] | None, *additional_modules: tuple[str, Any]
) -> ModuleType:
    """Import a second copy of a module while these modules are in place of the standard ones, and put its
    names into `new_globals`. Return it."""
    modules = dict(additional_modules) if additional_modules else _green_modules()
    modules.pop(module_name, None)
    patched_name = f"__patched_module_{module_name}"
    if patched_name in sys.modules and not additional_modules:
        module = sys.modules[patched_name]
    else:
        module = _second_copy(module_name, modules)
        if not additional_modules:
            sys.modules[patched_name] = module
    if new_globals is not None:
        hidden = {
            "__name__",
            "__file__",
            "__spec__",
            "__loader__",
            "__package__",
            "__path__",
            "__builtins__",
            "__doc__",
        }
        new_globals.update({name: value for name, value in vars(module).items() if name not in hidden})
        new_globals["__patched__"] = True
    return module


def _second_copy(name: str, modules: dict[str, Any]) -> ModuleType:
    """Import it anew, and what is in its package with it."""
    package = name.partition(".")[0]
    found = {each for each in sys.modules if each == package or each.startswith(package + ".")}
    anew: dict[str, Any] = dict.fromkeys({name, *found, *_NETWORK} - set(SHARED))
    before = set(sys.modules)
    with _instead({**anew, **modules}):
        module = importlib.import_module(name)
        for each in set(sys.modules) - before - set(SHARED):
            if each.partition(".")[0] == package:
                del sys.modules[each]
    return module


def import_patched(module_name: str, *additional_modules: tuple[str, Any], **kw: Any) -> ModuleType:
    """Return a copy of the module that uses green modules, or those that are given, and not the standard
    ones."""
    return inject(module_name, None, *additional_modules, *kw.items())


def patch_function(function: Any, *additional_modules: tuple[str, Any]) -> Any:
    """Let what the function imports be green."""

    def patched(*args: Any, **kwargs: Any) -> Any:
        with _instead(dict(additional_modules) if additional_modules else _green_modules()):
            return function(*args, **kwargs)

    return patched


_originals: dict[str, ModuleType] = {}
_KEPT = ("_set_sentinel", "get_ident", "_ThreadHandle", "_shutdown")
"""Functions of _thread that must suit the locks, which are patched in place."""


def original(modname: str) -> ModuleType:
    """Return the module as it is without the patch: a copy whose functions block, and whose threads are
    real."""
    if modname in _originals:
        return _originals[modname]
    module = importlib.import_module(modname)
    if modname in ("threading", "queue", "Queue"):
        made = _second_copy(modname, {"_thread": original("_thread"), "time": original("time")})
        if modname == "threading":
            made.__dict__["_active"] = module.__dict__["_active"]  # its threads have one name for both
    else:
        made = ModuleType(modname, module.__doc__)
        for name, value in vars(module).items():
            setattr(made, name, original_of(value) if callable(value) and name not in _KEPT else value)
    _originals[modname] = made
    return made
