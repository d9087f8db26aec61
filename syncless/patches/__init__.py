"""Makes the standard library cooperative, in place: a call that waits parks its tasklet, and unmodified
blocking programs run concurrently.

::

    from syncless.patches import patch_all
    patch_all()                         # before or after any import

No code of the standard library is copied. A few primitives are replaced, and so the modules that use them
(threading, queue, ssl, subprocess, http, selectors, asyncio ...) wait cooperatively. `describe()` shows each
replacement; `patched()` undoes them at the end of its block.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Any

from syncless._core.cpython.features import is_newer_than_known
from syncless._core.cpython.layouts import UnknownLayout
from syncless.patches.offload import area_of as area_of_offload
from syncless.patches.offload import names_of, patch_names
from syncless.patches.registry import CannotPatch, Change, Patcher, Registry, Unavailable, when_imported

_unavailable: list[str] = []
"""Modules of ours that cannot be imported."""


def _function(module: str, name: str = "patch", *, of: str = "") -> Callable[[Patcher], None]:
    """Return the function of an area. `of` is the only module that the area changes; our module is imported
    together with that module.

    On a Python with unknown internals, a module of ours that cannot be imported disables its own areas and no
    others; therefore all modules are imported now.
    """
    if of and not (_unavailable or is_newer_than_known()):
        change = _on_request(module)
        return lambda patcher: when_imported(patcher, of, lambda patcher, _: change(patcher))
    try:
        function: Callable[[Patcher], None] = getattr(import_module(f"syncless.patches.{module}"), name)
    except Exception as error:
        if not _may_be_left_out(error):
            raise
        _unavailable.append(module)
        return Unavailable(error)
    return function


def _on_request(module: str) -> Callable[[Patcher], None]:
    """Return a function that imports the module of an area, and patches the area, when it is called."""

    def patch(patcher: Patcher) -> None:
        import_module(f"syncless.patches.{module}").patch(patcher)

    return patch


def _libraries() -> Any:
    return import_module("syncless.patches.libraries")


def native_stats() -> dict[str, int]:
    """Return a dict that counts how often calls of the patched C libraries have parked or waited in libc, by
    reason."""
    found: dict[str, int] = _libraries().native_stats()
    return found


def _may_be_left_out(error: Exception) -> bool:
    return isinstance(error, UnknownLayout) or is_newer_than_known()


AREAS: dict[str, Callable[[Patcher], None]] = {
    "time": _function("clock"),
    "socket": _function("sockets"),
    "dns": _function("sockets", "patch_names"),
    "ssl": _function("tls", of="ssl"),
    "select": _function("polling"),
    "asyncio": _function("eventloops"),
    "thread": _function("threads"),
    "queue": _function("threads", "patch_queue"),
    "subprocess": _function("processes"),
    "signal": _function("signals"),
    "files": _function("files"),
    "filelocks": _function("filelocks"),
    "input": _function("terminal"),
    "system": _function("system"),
    "sqlite3": _function("sqlite", of="sqlite3"),
    "multiprocessing": _function("multiprocess"),
    "drivers": _function("drivers"),
    "kdf": _function("kdf"),
    "cpu": _on_request("cpu"),
    "native": _on_request("libraries"),
}
"""The areas that can be patched, in the order of patch_all()."""

OFF = frozenset({"cpu", "native"})
"""Areas that are patched only on request."""

_registry = Registry()


def patch_all(
    *,
    offload: Iterable[str] = (),
    native: bool | Iterable[str] = False,
    strict: bool = False,
    **choice: bool,
) -> list[str]:
    """Patch all areas except those turned off by name (``thread=False``). ``cpu=True`` and ``native=True``
    turn on areas that are off by default; ``native=["MySQLdb"]`` names libraries, as patch_native() does.
    `offload` names functions to run in real OS threads, by their import paths: ``"cv2.*"``,
    ``"zlib.compress"``, ``"package.module.Class.method"``.

    Return the newly patched areas; further calls change nothing. Raise TypeError for an unknown area. An area
    that this syncless cannot patch, because the Python is newer, is left out with a RuntimeWarning. If
    `strict`, as for the servers of the command `syncless`, nothing is patched in that case, and CannotPatch
    names all such areas; `patch_<area>()` raises the reason itself.
    """
    named: dict[str, Callable[[Patcher], None]] = {
        area_of_offload(name): partial(patch_names, name=name) for name in names_of(offload)
    }
    if isinstance(native, int):
        choice["native"] = native
    else:
        for name in [native] if isinstance(native, str) else native:
            named[_libraries().area_of(name)] = _libraries().patch_one(name)
    for area, chosen in choice.items():
        if area not in AREAS:
            raise TypeError(_unknown(area))
        if chosen not in (True, False):
            raise TypeError(f"the area {area!r} must be True (on) or False (off), not {chosen!r}")
    wanted = {area: patch for area, patch in AREAS.items() if choice.get(area, area not in OFF)}
    left_out: dict[str, Exception] = {}

    def leave_out(area: str, error: Exception) -> bool:
        if _may_be_left_out(error):
            left_out[area] = error
        return area in left_out

    patched = _registry.apply({**wanted, **named}, leave_out)
    if strict and left_out:
        _registry.undo(*reversed(patched))
        raise CannotPatch(_left_out(left_out))
    for area, error in left_out.items():
        warnings.warn(
            f"patch_all() leaves out the area {area!r}, whose calls block the whole thread: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
    return patched


def _left_out(errors: Mapping[str, Exception]) -> str:
    reasons = "; ".join(dict.fromkeys(f"{error}" or type(error).__name__ for error in errors.values()))
    off = ", ".join(f"{area}=False" for area in errors)
    options = " ".join(f"--no-patch-{area}" for area in errors)
    return (
        f"syncless cannot patch {', '.join(errors)} on this Python, and their calls would block all "
        f"tasklets: {reasons}. Upgrade syncless (pip install --upgrade syncless), or use a Python that it "
        f"supports. To run without these areas: {options}, or patch_all({off})"
    )


def _unknown(area: str) -> str:
    return f"unknown area {area!r}; choose from {', '.join(AREAS)}"


def _patch_of(area: str, what: str) -> Callable[[], bool]:
    """Return the function that patches one area. ``what`` is the first sentence of its docstring."""

    def patch() -> bool:
        return bool(_registry.apply({area: AREAS[area]}))

    patch.__name__ = patch.__qualname__ = f"patch_{area}"
    patch.__doc__ = f"{what} Return False if the area was already patched."
    return patch


patch_time = _patch_of("time", "time.sleep.")
patch_socket = _patch_of("socket", "socket.socket, and with it every client and server that uses sockets.")
patch_dns = _patch_of("dns", "socket.getaddrinfo and its kin.")
patch_ssl = _patch_of("ssl", "ssl.SSLSocket.")
patch_select = _patch_of("select", "select, poll and epoll, and with them selectors and asyncio.")
patch_asyncio = _patch_of("asyncio", "asyncio's running loop is noted per tasklet.")
patch_thread = _patch_of(
    "thread",
    "Threads are tasklets; locks of all kinds park; threading.local is per tasklet.",
)
patch_queue = _patch_of("queue", "queue.SimpleQueue; the other queues use locks.")
patch_subprocess = _patch_of("subprocess", "Waiting for child processes.")
patch_signal = _patch_of("signal", "Waiting for signals.")
patch_files = _patch_of(
    "files",
    "Files, pipes and FIFOs: os.open, os.read, os.stat and their kin, and the objects that open() makes.",
)
patch_filelocks = _patch_of("filelocks", "flock, lockf and fcntl's commands that wait.")
patch_input = _patch_of("input", "input().")
patch_system = _patch_of("system", "The system's log, users, groups and services, ioctl and termios.")
patch_sqlite3 = _patch_of("sqlite3", "Statements and commits of sqlite3.")
patch_kdf = _patch_of(
    "kdf",
    "Keys derived from passwords, by hashlib, crypt, bcrypt, argon2-cffi and cryptography.",
)
patch_cpu = _patch_of(
    "cpu",
    "Compression and hashing of a megabyte and more. patch_all() leaves it out by default.",
)
patch_multiprocessing = _patch_of("multiprocessing", "The semaphores and connections of multiprocessing.")
patch_drivers = _patch_of("drivers", "The hooks of database drivers that wait in C: psycopg2 and psycopg 3.")


def patch_offload(*names: str) -> list[Change]:
    """Run functions in real OS threads, by their import paths, like ``patch_all(offload=[...])``, and patch
    nothing else. Return the changes made by this call."""
    new = _registry.apply({area_of_offload(name): partial(patch_names, name=name) for name in names})
    return [change for change in _registry.changes() if change.area in new]


def patch_native(*names: str) -> list[Change]:
    """Make C libraries wait cooperatively: their calls of libc that would block park the tasklet.

    A name is that of a module (``"MySQLdb"``, ``"psycopg2._psycopg"``) or of a file (``"libpq.so.5"``). A
    module means its extension modules and the libraries that they are linked against. A library that is not
    loaded yet is patched as soon as it is loaded. Libraries that call libc in other ways (statically linked,
    or ctypes) cannot be patched. Raise NotImplementedError on systems other than Linux on x86-64 or aarch64.

    Without a name, patch the libraries that are known to be safe, like ``patch_all(native=True)``.

    Return the changes made by this call. Raise ValueError for a library that must not be patched (with the
    reason), for a package name that differs from the module name, and for a module that does not exist or has
    no C code. Warn (RuntimeWarning) about a file that does not exist. For unpatch(), each name is a separate
    area: ``unpatch("native MySQLdb")``.
    """
    wanted = {}
    for name in names:
        wanted[_libraries().area_of(name)] = _libraries().patch_one(name)
    new = _registry.apply(wanted or {"native": AREAS["native"]})
    _libraries().look()
    return [change for change in _registry.changes() if change.area in new]


def carry_on(sources: Iterable[Callable[[], list[tuple[str, str]]]]) -> Callable[[], None]:
    """Add what these sources return to the requests to other services (see outgoing.py). Return a function
    that ends this. Raise RuntimeError outside of the main thread."""
    outgoing = import_module("syncless.patches.outgoing")
    _registry.apply({outgoing.AREA: outgoing.patch})
    mine = list(sources)
    outgoing.sources.extend(mine)

    def end() -> None:
        for source in mine:
            outgoing.sources.remove(source)
        if not outgoing.sources:
            with suppress(RuntimeError):  # a server of another OS thread was the last: nothing is added now
                _registry.undo(outgoing.AREA)

    return end


def is_patched(area: str) -> bool:
    """Return whether the changes of the area are active. Raise ValueError for an unknown area."""
    if area not in AREAS and area not in _registry.areas():
        raise ValueError(_unknown(area))
    return area in _registry.areas()


def unpatch(*areas: str) -> None:
    """Undo the changes of these areas, or all changes. A tasklet that waits in a patched call keeps waiting;
    it runs when this thread waits in a call of syncless.

    Raise RuntimeError outside of the main thread, and as long as threads that are tasklets have not ended:
    this thread would wait without letting them run. The message names these threads.
    """
    for area in areas:
        is_patched(area)  # raises ValueError for an unknown area
    left: list[str] = []
    if "thread" in _registry.areas() and (not areas or "thread" in areas):
        left = sys.modules["syncless.patches.threads"].unended()
    if left:
        raise RuntimeError(
            "the patch cannot be undone yet: threads that are tasklets are still running, and would never "
            f"run again. Join them, or shut down their executors: {', '.join(left)}"
        )
    _registry.undo(*(areas or reversed(_registry.areas())))


@contextmanager
def patched(
    *, offload: Iterable[str] = (), native: bool | Iterable[str] = False, **choice: bool
) -> Iterator[list[str]]:
    """Patch like patch_all() while the block runs. Areas that were already patched stay patched."""
    areas = patch_all(offload=offload, native=native, **choice)
    try:
        yield areas
    finally:
        if areas:
            unpatch(*reversed(areas))


def changes() -> list[Change]:
    """Return the active changes, in the order of patching."""
    return _registry.changes()


def describe() -> str:
    """Return a table of the active changes: area, target, replacement, reason. An area whose module is not
    imported yet has one row."""
    found = changes()
    waiting = dict.fromkeys(_registry.areas())
    for change in found:
        waiting.pop(change.area, None)
    rows = [
        ("area", "target", "replacement", "because the original"),
        *found,
        *((area, "-", "-", "is not loaded yet") for area in waiting),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    )


def described(choice: Mapping[str, bool] | None = None) -> str:
    """Return, as text, the areas that are patched now, or that patch_all() would patch with these arguments
    ("" for none)."""
    usual = [area for area in AREAS if area not in OFF]
    if choice is None:
        on = [area for area in AREAS if is_patched(area)]
    else:
        on = [area for area in AREAS if choice.get(area, area not in OFF)]
    missing = [area for area in usual if area not in on]
    if len(missing) > len(usual) // 2:
        return ", ".join(on)
    more = [area for area in on if area in OFF]
    return (
        "the standard library"
        + (f" but {', '.join(missing)}" if missing else "")
        + (f", and {', '.join(more)}" if more else "")
    )


__all__ = [
    "AREAS",
    "OFF",
    "CannotPatch",
    "Change",
    "changes",
    "describe",
    "is_patched",
    "native_stats",
    "patch_all",
    "patch_cpu",
    "patch_asyncio",
    "patch_dns",
    "patch_drivers",
    "patch_filelocks",
    "patch_files",
    "patch_input",
    "patch_kdf",
    "patch_multiprocessing",
    "patch_native",
    "patch_queue",
    "patch_select",
    "patch_signal",
    "patch_socket",
    "patch_sqlite3",
    "patch_ssl",
    "patch_subprocess",
    "patch_system",
    "patch_thread",
    "patch_time",
    "patched",
    "unpatch",
]
