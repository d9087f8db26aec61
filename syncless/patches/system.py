"""Patches calls that may wait for a daemon, a device or the network: syslog; users, groups and services;
ioctl and termios.

Fact: the C library asks whatever /etc/nsswitch.conf names, and only the response shows whether that was a
file or a directory server. Decision: lookups always run in a thread, because any name may be missing from the
files. Price: about fifty microseconds, as much as the lookup takes in files. A function that two threads must
not call at once, because its result is in static memory of the C library, has a pool of one thread.

Fact: the interpreter keeps the GIL while it lists all users or groups. Decision: the C library is called
through ctypes, where the structures are known.

Fact: most requests of ioctl and termios only read memory (the size of a window, the attributes of a
terminal), but no rule says which. Decision: the requests of AT_ONCE, tcgetattr and a tcsetattr that need not
wait for output are called directly, all others in threads. Guarded by tests/patches/test_gated_calls.py.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from syncless._core.calls.files import may_use_threads
from syncless._core.calls.threads import ThreadPool
from syncless._core.cpython.functions import original_of
from syncless.patches.registry import Patcher, when_imported

try:
    import termios  # now: a server may be another user later, who cannot read the library
except ImportError:  # a system without terminals
    termios = None  # type: ignore[assignment]

ONE_BY_ONE = {
    "pwd": ("getpwnam", "getpwuid"),
    "grp": ("getgrnam", "getgrgid"),
}
NETWORK = ("match", "cat")
"""Functions of nis."""
SERVICES = ("getservbyname", "getservbyport", "getprotobyname")
LOG = ("syslog", "openlog", "closelog", "setlogmask")
TERMINAL = ("tcdrain", "tcflow", "tcflush", "tcsendbreak")
AT_ONCE = """
    FIONREAD FIONBIO FIOASYNC FIOCLEX FIONCLEX TIOCGWINSZ TIOCSWINSZ TIOCGPGRP TIOCSPGRP TIOCOUTQ TIOCINQ
    TIOCMGET TIOCGETD TCGETS
""".split()
"""Requests that only look into memory."""

LARGEST_ID = 2**32 - 2
GROUPS = 64
"""Of a user, for which there is room at first."""

_many = ThreadPool(64)
"""For calls that several threads can make at once."""
_services, _tables, _log = ThreadPool(1), ThreadPool(1), ThreadPool(1)
_devices = ThreadPool(1024)  # each may wait for as long as its device


def _in_pool(pool: ThreadPool, original: Any, called: Callable[..., Any] | None = None) -> Any:
    """Return a wrapper that calls the function in a thread, or `called` in its place."""
    original = original_of(original)
    there = called or original

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not may_use_threads():
            return original(*args, **kwargs)
        return pool.run(there, *args, **kwargs)

    return call


def _ask(patcher: Patcher, module: Any) -> None:
    why = "asks the C library, which may ask the network"
    for name in ONE_BY_ONE[module.__name__]:
        patcher.rebind(module, name, _in_pool(_many, getattr(module, name)), why)


def _nis(patcher: Patcher, module: Any) -> None:
    for name in NETWORK:
        patcher.rebind(module, name, _in_pool(_services, getattr(module, name)), "asks the network")


def _list(patcher: Patcher, module: Any) -> None:
    """Patch the functions that list whole tables and keep the GIL meanwhile."""
    why = "asks the C library, which may ask the network"
    if sys.platform != "linux":
        return
    for name, in_thread in _Tables().of(module).items():
        patcher.rebind(module, name, _in_pool(_tables, getattr(module, name), in_thread), why)


class _Tables:
    """The tables of users and groups, read through ctypes with the structures of Linux."""

    def __init__(self) -> None:
        import ctypes  # takes long to load

        text, number = ctypes.c_char_p, ctypes.c_uint32

        def structure(**fields: Any) -> Any:
            return type("Entry", (ctypes.Structure,), {"_fields_": list(fields.items())})

        times = {f"time{i}": ctypes.c_long for i in range(6)}
        self.library = ctypes.CDLL(None, use_errno=True)
        self.ctypes = ctypes
        self.user = structure(
            name=text, password=text, uid=number, gid=number, gecos=text, home=text, shell=text
        )
        self.group = structure(name=text, password=text, gid=number, members=ctypes.POINTER(text))
        self.shadow = structure(name=text, password=text, **times, flag=ctypes.c_long)

    def of(self, module: Any) -> dict[str, Callable[..., Any]]:
        if module.__name__ == "pwd":
            return {"getpwall": self._all(module.getpwall, "pw", self.user, self._user, module.struct_passwd)}
        if module.__name__ == "grp":
            return {
                "getgrall": self._all(module.getgrall, "gr", self.group, self._group, module.struct_group)
            }
        return {
            "getspall": self._all(module.getspall, "sp", self.shadow, self._user, module.struct_spwd),
            "getspnam": self._shadow(module.getspnam, module.struct_spwd),
        }

    def _user(self, entry: Any) -> list[Any]:
        values = (getattr(entry, name) for name, _ in entry._fields_)
        return [os.fsdecode(value) if isinstance(value, bytes) else _signed(value) for value in values]

    def _group(self, entry: Any) -> list[Any]:
        members = []
        for member in entry.members or ():
            if member is None:
                break
            members.append(os.fsdecode(member))
        password = entry.password
        return [
            os.fsdecode(entry.name),
            password if password is None else os.fsdecode(password),
            _signed(entry.gid),
            members,
        ]

    def _function(self, name: str, structure: Any) -> Any:
        function = self.library[name]
        function.restype = self.ctypes.POINTER(structure)
        return function

    def _all(
        self, original: Any, prefix: str, structure: Any, convert: Callable[[Any], list[Any]], kind: Any
    ) -> Any:
        original = original_of(original)
        begin, end = self.library[f"set{prefix}ent"], self.library[f"end{prefix}ent"]
        following = self._function(f"get{prefix}ent", structure)

        def in_thread(*wrong: Any, **named: Any) -> Any:
            if wrong or named:
                return original(*wrong, **named)
            found = []
            begin()
            try:
                while entry := following():
                    found.append(_entry(kind, convert(entry.contents)))
            finally:
                end()
            return found

        return in_thread

    def _shadow(self, original: Any, kind: Any) -> Any:
        original, ask = original_of(original), self._function("getspnam", self.shadow)

        def in_thread(*args: Any) -> Any:
            if len(args) == 1 and type(args[0]) is str and "\0" not in args[0]:
                self.ctypes.set_errno(0)
                if entry := ask(os.fsencode(args[0])):
                    return _entry(kind, self._user(entry.contents))
            return original(*args)  # which says what is wrong

        return in_thread


def _entry(kind: Any, values: list[Any]) -> Any:
    """Return an entry of a table. A shadow password entry has two of its fields under a second name, too."""
    return kind((*values, *values[: kind.n_fields - len(values)]))


def _signed(value: Any) -> Any:
    return -1 if value == LARGEST_ID + 1 else value


def _groups_of(patcher: Patcher) -> None:
    if sys.platform != "linux":
        return
    original = original_of(os.getgrouplist)

    def ask(user: str, group: int) -> list[int]:
        import ctypes

        function, room = ctypes.CDLL(None).getgrouplist, GROUPS
        while True:
            found, count = (ctypes.c_uint32 * room)(), ctypes.c_int(room)
            if function(os.fsencode(user), ctypes.c_uint32(group), found, ctypes.byref(count)) >= 0:
                return [_signed(each) for each in found[: count.value]]
            room = max(2 * room, count.value)

    @functools.wraps(original)
    def getgrouplist(user: Any, group: Any, /) -> Any:
        plain = type(user) is str and "\0" not in user and type(group) is int and 0 <= group <= LARGEST_ID
        if not plain or not may_use_threads():
            return original(user, group)
        return _many.run(ask, user, group)

    patcher.rebind(os, "getgrouplist", getgrouplist, "asks the C library, which may ask the network")


def _syslog(patcher: Patcher, module: Any) -> None:
    """Run all calls of syslog in one thread: messages keep their order, and no call waits, with the GIL held,
    for the lock that the C library holds during a message."""
    for name in LOG:
        patcher.rebind(module, name, _in_pool(_log, getattr(module, name)), "waits for the system's log")


def _terminal(patcher: Patcher, module: Any) -> None:
    for name in TERMINAL:
        patcher.rebind(module, name, _in_pool(_devices, getattr(module, name)), "waits for a device")
    original = original_of(module.tcsetattr)
    patiently = _in_pool(_devices, original)

    @functools.wraps(original)
    def tcsetattr(fd: Any, when: Any, attributes: Any, /) -> None:
        (original if when == module.TCSANOW else patiently)(fd, when, attributes)

    patcher.rebind(module, "tcsetattr", tcsetattr, "waits for a device")


def _control(patcher: Patcher, module: Any) -> None:
    at_once = {getattr(termios, name) for name in AT_ONCE if hasattr(termios, name)}
    original = original_of(module.ioctl)
    patiently = _in_pool(_devices, original)

    @functools.wraps(original)
    def ioctl(fd: Any, request: Any, *rest: Any) -> Any:
        direct = type(request) is not int or request in at_once
        return (original if direct else patiently)(fd, request, *rest)

    patcher.rebind(module, "ioctl", ioctl, "waits for a device")


def patch(patcher: Patcher) -> None:
    for name in ONE_BY_ONE:
        when_imported(patcher, name, _ask)
    for name in ("pwd", "grp", "spwd"):
        when_imported(patcher, name, _list)
    for name in SERVICES:
        new = _in_pool(_services, getattr(socket, name))
        patcher.rebind(socket, name, new, "asks the C library, which may ask the network")
    if hasattr(os, "getgrouplist"):
        _groups_of(patcher)
    when_imported(patcher, "nis", _nis)
    when_imported(patcher, "syslog", _syslog)
    when_imported(patcher, "termios", _terminal)
    when_imported(patcher, "fcntl", _control)
