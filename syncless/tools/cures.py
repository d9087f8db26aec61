"""Remedies for C code that holds the loop: takes the C functions that a thread is in, gives words.

It names packages, as programs import them; knownlibraries.py says which of them patch_native() may change.
"""

from __future__ import annotations

import os

from syncless.tools.knownlibraries import REFUSED, below_sys_path, is_refused, owner, user

WAITS = {
    *("recv", "recvfrom", "recvmsg", "read", "readv", "send", "sendto", "sendmsg", "write", "writev"),
    *("poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait", "connect", "accept", "accept4"),
    *("nanosleep", "clock_nanosleep", "usleep", "sleep", "getaddrinfo"),
}
"""Functions of the C library that patch_native() replaces."""
THREADS = {"pthread_cond_wait", "pthread_cond_timedwait", "pthread_join", "sem_wait", "sem_timedwait"}
OTHERS = {"syscall", "clock_gettime", "gettimeofday", "time"}
"""Further functions that a preloaded library may have put into libc's place."""
DATA = ("_hashlib", "_md5", "_sha", "_blake2", "zlib", "_bz2", "_lzma", "binascii")
"""Beginnings of the names of extension modules that hash or compress."""
LIBC = ("libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "libc.musl", "linux-vdso")

UNREAD = "if it computes, give it to another process; if it waits, @offload or run_in_thread()"
PYTHON = "it computes in Python: give it to another process, or let it wait now and then (sleep(0))"
WAIT = "it waits: patch_all() for Python itself, patch_native() for a module in C, or run_in_thread()"
REFUSING = (
    "it waits where patch_native() changes nothing: @offload, patch_all(offload=[...]) or run_in_thread()"
)
OWN_THREAD = "it waits for a thread of its own: @offload, patch_all(offload=[...]) or run_in_thread()"
HASH = "it hashes or compresses: patch_all(cpu=True), or @offload for a function around it"
COMPUTE = "it computes in C: @offload, patch_all(offload=[...]) or run_in_thread()"

Frame = tuple[str | None, str]
"""A C function, if its name is known, and the path of the object that it is in."""
Frames = list[Frame]
"""The innermost first."""


def clean(name: str | None) -> str:
    return (name or "").lstrip("_").removeprefix("libc_").removeprefix("GI_")


def is_libc(frame: Frame) -> bool:
    """Whether it is a function of libc, or stands in the place of one."""
    name, path = frame
    return os.path.basename(path).startswith(LIBC) or clean(name) in WAITS | THREADS | OTHERS


def is_extension(path: str) -> bool:
    file = os.path.basename(path)
    return ".cpython-" in file or ".abi3." in file


def _package(extension: str) -> str:
    return below_sys_path(extension)[1:].partition("/")[0].partition(".")[0]


def cure_of(frames: Frames) -> str:
    """The remedy. Without frames the thread runs Python."""
    if not frames:
        return PYTHON
    calls = [clean(frame[0]) for frame in frames if is_libc(frame)]
    callers = [frame[1] for frame in frames if not is_libc(frame)]
    if not callers:
        return WAIT
    extension = next((path for path in reversed(callers) if is_extension(path)), None)
    row = owner(extension or os.path.basename(callers[0]))
    if row is not None and row.instead:
        return row.instead
    if THREADS.intersection(calls):
        return OWN_THREAD
    if WAITS.intersection(calls) or (calls and not any(calls)):
        if extension and is_refused(extension):
            return WAIT
        if row is not None and row.verdict == REFUSED:
            return REFUSING
        if not extension:  # the whole stack is not always read
            row = user(callers[0])
            return f'patch_native("{row.name if row else os.path.basename(callers[0])}")'
        return f'patch_native("{row.name if row else _package(extension)}")'
    if extension and os.path.basename(extension).startswith(DATA):
        return HASH
    return COMPUTE
