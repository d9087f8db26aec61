"""Patches waiting for child processes: subprocess, multiprocessing and os.wait* park until the child's own
descriptor (pidfd) reports its end.

Where there is no such descriptor (any child, a process group), the call runs in an OS thread.

Fact: vfork() stops the parent until the child has its program, which the kernel reads from a disk, and
subprocess keeps the GIL meanwhile. Decision: if the program or the working directory is on a slow file
system, the child is started with fork(). subprocess then waits for a pipe, and does not use posix_spawn(),
which calls vfork(). Price: fork() copies the parent's page tables. Guarded by
tests/patches/test_slow_files.py.
"""

from __future__ import annotations

import _posixsubprocess
import contextlib
import errno
import functools
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from syncless._core.calls import descriptors
from syncless._core.calls.files import (
    DescriptorFunction,
    FileFunction,
    OpenFunction,
    any_is_slow,
    may_use_threads,
)
from syncless._core.calls.threads import run_in_thread
from syncless._core.cpython.features import FORK_EXEC_ASKS_FOR_VFORK
from syncless._core.cpython.functions import original_of
from syncless._core.current import give_way, wait_readable
from syncless.patches.registry import Patcher, when_imported

_stat, _open, _close = FileFunction(os.stat), OpenFunction(os.open), DescriptorFunction(os.close)
_fork_exec: Any = original_of(_posixsubprocess.fork_exec)
_waitpid, _wait4, _system = original_of(os.waitpid), original_of(os.wait4), original_of(os.system)
_waitid: Any = original_of(getattr(os, "waitid", None))  # macOS has it since Python 3.13


def _until_it_ends(pid: int) -> bool:
    """Park until the child has ended, without reaping it. Return False if the child has no descriptor."""
    try:
        fd = os.pidfd_open(pid)
    except (OSError, AttributeError) as error:
        # gone, or no child of ours: the call itself reports it
        return getattr(error, "errno", errno.ENOSYS) == errno.ESRCH
    try:
        wait_readable(fd)
    finally:
        os.close(fd)
    return True


def waitpid(pid: int, options: int, /) -> tuple[int, int]:
    """os.waitpid, cooperative."""
    if options & os.WNOHANG:
        give_way()  # a loop around it may never wait
        return _waitpid(pid, options)
    found = _waitpid(pid, options | os.WNOHANG)
    if found[0]:
        return found
    if pid > 0 and not options & (os.WUNTRACED | os.WCONTINUED) and _until_it_ends(pid):
        return _waitpid(pid, options)
    return run_in_thread(_waitpid, pid, options)


def wait() -> tuple[int, int]:
    """os.wait, cooperative."""
    return waitpid(-1, 0)


def wait3(options: int) -> tuple[int, int, Any]:
    """os.wait3, cooperative."""
    return wait4(-1, options)


def wait4(pid: int, options: int) -> tuple[int, int, Any]:
    """os.wait4, cooperative."""
    if options & os.WNOHANG:
        give_way()
    found = _wait4(pid, options | os.WNOHANG)
    if found[0] or options & os.WNOHANG:
        return found
    if pid > 0 and not options & (os.WUNTRACED | os.WCONTINUED) and _until_it_ends(pid):
        return _wait4(pid, options)
    return run_in_thread(_wait4, pid, options)


def waitid(idtype: int, id: int, options: int, /) -> Any:
    """os.waitid, cooperative."""
    if options & os.WNOHANG:
        give_way()
    found = _waitid(idtype, id, options | os.WNOHANG)
    if found is not None or options & os.WNOHANG:
        return found
    if idtype == os.P_PID and not options & (os.WSTOPPED | os.WCONTINUED) and _until_it_ends(id):
        return _waitid(idtype, id, options)
    return run_in_thread(_waitid, idtype, id, options)


def system(command: Any) -> int:
    """os.system, cooperative."""
    return run_in_thread(_system, command)


def _answers_at_once(program: Any) -> bool:
    """Return whether exec would not wait for a disk, and read the first bytes of the program into memory."""
    with contextlib.suppress(PermissionError):  # it may be executable all the same
        fd = _open(program, os.O_RDONLY | os.O_CLOEXEC)
        try:
            descriptors.pread(fd, 1, 0)
        finally:
            _close(fd)
    return _open.is_quick(program)


def _is_quick(path: Any) -> bool:
    """Return whether the file system of a path responds immediately. If a directory of the path is missing,
    as PATH allows, check its parent."""
    while not _stat.is_quick(path):
        above = os.path.dirname(path)
        if above in (b"", path):
            return False
        try:
            _stat(above)
        except OSError:
            path = above
        else:
            return False
    return True


def _may_vfork(programs: Any, directory: Any) -> bool:
    """Return whether vfork() would not wait for a disk, or the arguments are not paths."""
    if not (
        isinstance(programs, (tuple, list))
        and all(isinstance(each, (bytes, str)) for each in programs)
        and (directory is None or isinstance(directory, (bytes, str, os.PathLike)))
    ):
        return True
    start = os.fsencode(directory) if directory is not None else b""
    if directory is not None:
        with contextlib.suppress(OSError):
            _stat(directory)
        if not _stat.is_quick(directory):
            return False
    for program in programs:
        path = os.path.join(start, os.fsencode(program))
        try:
            _stat(path)
        except OSError:
            if not _is_quick(path):
                return False
            continue
        return _answers_at_once(path)
    return True


def fork_exec(*args: Any) -> int:
    """Call _posixsubprocess.fork_exec, but with fork() where vfork() would wait for a disk."""
    # the child closes all other descriptors before vfork() lets this thread go on
    if may_use_threads() and len(args) > 5 and (any_is_slow() or not _may_vfork(args[1], args[4])):
        if FORK_EXEC_ASKS_FOR_VFORK:
            args = (*args[:-1], False)
        elif args[-1] is None and args[3] and args[-5] is None and os.getgid() == os.getegid():
            # A preexec_fn would let multiprocessing close its descriptors in the child before they are passed
            # on. Only fork() allows to set the group, too: to what it is.
            args = (*args[:-5], os.getgid(), *args[-4:])  # behind it: groups, user, umask, preexec_fn
        elif args[-1] is None:
            args = (*args[:-1], _nothing)  # preexec_fn, which only fork() allows
    return _fork_exec(*args)  # type: ignore[no-any-return]


def _nothing() -> None:
    pass


def _spawning(name: str) -> Callable[..., int]:
    """Return os.posix_spawn or posix_spawnp. The original keeps the GIL until the child has its program, so
    for a slow disk the C library is called in a thread instead."""
    original: Any = original_of(getattr(os, name))

    @functools.wraps(original)
    def spawn(path: Any, argv: Any, env: Any, /, **options: Any) -> int:
        if not may_use_threads():
            return original(path, argv, env, **options)  # type: ignore[no-any-return]
        try:
            program = os.fsencode(path)
            searched = name == "posix_spawnp" and b"/" not in program
            folders = map(os.fsencode, os.get_exec_path()) if searched else (b"",)
            if _may_vfork([os.path.join(folder, program) for folder in folders], None):
                return original(path, argv, env, **options)  # type: ignore[no-any-return]
            call = _Spawn(program, argv, env, **options)
        except (TypeError, ValueError):  # the original says what is wrong, or knows more
            return original(path, argv, env, **options)  # type: ignore[no-any-return]
        sys.audit("os.posix_spawn", path, argv, env)
        return call.run(name, path)

    return spawn


class _Spawn:
    """A call of C's posix_spawn with the arguments of os.posix_spawn, on Linux. Raise TypeError or ValueError
    for other arguments."""

    RESETIDS, SETPGROUP, SETSIGDEF, SETSIGMASK, SETSID = 1, 2, 4, 8, 0x80
    ROOM = 1024
    """Bytes: more than any of the structures has."""

    def __init__(
        self,
        program: bytes,
        argv: Any,
        env: Any,
        *,
        file_actions: Any = (),
        setpgroup: int | None = None,
        resetids: bool = False,
        setsid: bool = False,
        setsigmask: Any = (),
        setsigdef: Any = (),
    ):
        import ctypes  # takes long to load

        self.ctypes, self.library = ctypes, ctypes.CDLL(None)
        if sys.platform != "linux" or type(argv) not in (list, tuple) or not argv or not argv[0]:
            raise ValueError
        if not (isinstance(resetids, int) and isinstance(setsid, int)):
            raise TypeError
        variables = [(os.fsencode(key), os.fsencode(env[key])) for key in env]
        if any(b"=" in key for key, _ in variables):
            raise ValueError
        self._program = self._text(program)
        self._argv = self._texts(map(os.fsencode, argv))
        self._env = self._texts(b"%s=%s" % pair for pair in variables)
        self._actions, self._attributes = (ctypes.create_string_buffer(self.ROOM) for _ in range(2))
        self.library.posix_spawn_file_actions_init(self._actions)
        self.library.posix_spawnattr_init(self._attributes)
        for action in file_actions or ():
            self._add(*action)
        flags = self.RESETIDS * bool(resetids) | self.SETSID * bool(setsid)
        if setpgroup is not None:
            flags |= self.SETPGROUP
            self.library.posix_spawnattr_setpgroup(self._attributes, self._number(setpgroup))
        for flag, what, signals in (
            (self.SETSIGMASK, "sigmask", setsigmask),
            (self.SETSIGDEF, "sigdefault", setsigdef),
        ):
            if signals:
                flags |= flag
                chosen = ctypes.create_string_buffer(self.ROOM)
                self.library.sigemptyset(chosen)
                for each in signals:
                    if self.library.sigaddset(chosen, self._number(each)):
                        raise ValueError
                self.library[f"posix_spawnattr_set{what}"](self._attributes, chosen)
        self.library.posix_spawnattr_setflags(self._attributes, ctypes.c_short(flags))

    def _text(self, text: bytes) -> Any:
        if b"\0" in text:
            raise ValueError
        return self.ctypes.c_char_p(text)

    def _texts(self, texts: Iterable[bytes]) -> Any:
        found = [self._text(text) for text in texts]
        return (self.ctypes.c_char_p * (len(found) + 1))(*found, None)

    def _number(self, number: Any) -> Any:
        if not isinstance(number, int) or not -(2**31) <= number < 2**31:
            raise TypeError
        return self.ctypes.c_int(number)

    def _add(self, kind: int, fd: int, *rest: Any) -> None:
        add, numbers = f"posix_spawn_file_actions_add{_ACTIONS[kind]}", [self._number(fd)]
        if kind == os.POSIX_SPAWN_OPEN:
            path, flags, mode = rest
            numbers += [self._text(os.fsencode(path)), self._number(flags), self._number(mode)]
        elif kind == os.POSIX_SPAWN_DUP2:
            numbers.append(self._number(*rest))
        elif rest:
            raise TypeError
        if self.library[add](self._actions, *numbers):
            raise ValueError

    def run(self, name: str, path: Any) -> int:
        pid = self.ctypes.c_int()
        parts = self._program, self._actions, self._attributes, self._argv, self._env
        error = run_in_thread(self.library[name], self.ctypes.byref(pid), *parts)
        self.library.posix_spawn_file_actions_destroy(self._actions)
        self.library.posix_spawnattr_destroy(self._attributes)
        if error:
            raise OSError(error, os.strerror(error), path)
        return pid.value


_ACTIONS = {
    getattr(os, f"POSIX_SPAWN_{name.upper()}", None): name for name in ("open", "close", "dup2", "closefrom")
}


def _subprocess(patcher: Patcher, module: Any) -> None:
    patcher.member_of_module(module, "_USE_POSIX_SPAWN", False, "waits until a program has been read")


def patch(patcher: Patcher) -> None:
    when_imported(patcher, "subprocess", _subprocess)
    patcher.rebind(_posixsubprocess, "fork_exec", fork_exec, "waits until a program has been read")
    for name in ("posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            patcher.rebind(os, name, _spawning(name), "waits until a program has been read")
    for function in (waitpid, wait, wait3, wait4, waitid, system):
        patcher.rebind(os, function.__name__, function, "waits for a child process")
