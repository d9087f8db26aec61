"""Finds code that blocks the loop: where, how often and for how long, with a suggested fix.

The fix names packages as programs import them; knownlibraries.py says which of them patch_native() may
change.
"""

from __future__ import annotations

import _thread
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from itertools import chain
from types import FrameType
from typing import NamedTuple

from syncless._core.calls.sidethread import SideThread, wait_readable
from syncless._core.cpython.functions import original_of
from syncless._core.threadloop import current_loop
from syncless._core.waits import OWN, is_installed
from syncless.tools.callees import callee_of
from syncless.tools.knownlibraries import REFUSED, below_sys_path, is_refused, owner, user

_current_frames = original_of(sys._current_frames)

try:
    from syncless._core.nativestack import native_stack
except ModuleNotFoundError:  # setup.py builds it where stacks can be read
    native_stack = None  # type: ignore[assignment]


SHOWN_FRAMES = 40
"""Of a stack, the innermost."""


class Stall(NamedTuple):
    """Code that blocks the loop, as observed while the loop was blocked."""

    seconds: float
    """For how long it has held the loop."""
    stack: str
    """The stack of Python functions, as text."""
    line: str
    """The innermost of them: file, line and function."""
    frames: Frames | None
    """The C functions that it is in, the innermost first. None if that is not known."""
    caller: str = ""
    """The innermost that is neither of Python nor of an installed package, if it is another one."""
    callee: str = ""
    """The import path of the C function, if it is known."""
    looks: tuple[Stall, ...] = ()
    """Of one that is over: one for each look, with the seconds since the look before."""

    @property
    def place(self) -> str:
        """The Python function, and where the program has called it, in words."""
        return f"{self.line}, called from {self.caller}" if self.caller else self.line

    @property
    def function(self) -> str:
        """The file and name of the Python function."""
        return re.sub(r":\d+ in ", " in ", self.line)

    @property
    def blocker(self) -> str:
        """The C function that was called, or else the Python function, in words."""
        found = _outermost(self.frames or [])
        if found is None:
            return self.place
        name, path = found
        return f"{name or self.callee or 'a function'} in {_base(path)}, {self.place}"

    @property
    def cure(self) -> str:
        """The fix, in words."""
        words = UNREAD if self.frames is None else cure_of(self.frames)
        if not self.callee:
            return words
        if self.is_held:
            return HELD.format(self.callee)
        return words.replace(OFFLOADED, f'patch_all(offload=["{self.callee}"])')

    @property
    def offloadable(self) -> str:
        """The import path of the C function if the fix is to offload it by this name."""
        return self.callee if f'offload=["{self.callee}"]' in self.cure else ""

    @property
    def is_held(self) -> bool:
        """Whether the C function is offloaded, but not in this call."""
        return bool(self.frames and self.callee) and is_offloaded(self.callee)

    @property
    def text(self) -> str:
        """The Python stack, the C function if any, and the fix."""
        inside = f"  in C: {self.blocker}\n" if self.frames else ""
        return f"{self.stack}{inside}  fix: {self.cure}\n"


def _base(path: str) -> str:
    return os.path.basename(path)


def _outermost(frames: Frames) -> Frame | None:
    """Return the library function that the extension module has called, or else the function nearest to
    it."""
    libraries = [frame for frame in frames if not is_extension(frame[1]) and not is_libc(frame)]
    named = [frame for frame in libraries if frame[0]] or libraries or frames
    return named[-1] if named else None


def _line(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}()"


def _caller(frame: FrameType) -> str:
    """Return the program's line that has called installed code, or "" if the frame is the program's own."""
    each: FrameType | None = frame
    while each is not None and is_installed(each.f_code.co_filename):
        each = each.f_back
    return "" if each is None or each is frame else _line(each)


def _is_between(path: str) -> bool:
    """Return whether the object only passes calls on from Python, or is the engine, which may have left
    frames on the stack."""
    return _base(path).startswith(("libffi", "_ctypes")) or path.startswith(OWN)


def _c_functions(thread: int, number: int) -> Frames | None:
    """Return the C functions that the thread is in, or None if they cannot be read. The list is empty while
    the thread runs Python, which calls libc for the GIL and the time."""
    stack = None if native_stack is None else native_stack(thread, number)
    if stack is None:
        return None
    frames = [frame for frame in stack if not _is_between(frame[1])]
    only_libc = all(is_libc(frame) for frame in frames)
    waits = WAITS.intersection(clean(name) for name, _ in frames)
    return [] if only_libc and not waits else frames


def stall_of(thread: int, number: int, seconds: float, stack: bool = True) -> Stall | None:
    """Return the code that has blocked the loop of a thread for `seconds`. `thread` and `number` are the
    results of threading.get_ident() and get_native_id() in that thread. Return None if the thread runs
    neither Python nor a tasklet made of a C function."""
    frame = _current_frames().get(thread)
    if frame is None:
        frames = _c_functions(thread, number)
        return Stall(seconds, "", "a tasklet without Python code", frames) if frames else None
    text = "".join(traceback.format_stack(frame, SHOWN_FRAMES)) if stack else ""
    line, caller = _line(frame), _caller(frame)
    frames = _c_functions(thread, number)
    return Stall(seconds, text, line, frames, caller, callee_of(frame) if frames else "")


class Watch:
    """Watch(seconds, report): an OS thread that watches the loop of the thread that makes it.

    The watch calls report(stall, has_ended) once while code blocks the loop for longer than `seconds`, and
    once afterwards with the total time. With `to_the_end` it keeps taking samples until the code has ended.
    """

    def __init__(self, seconds: float, report: Callable[[Stall, bool], object], to_the_end: bool = False):
        self._seconds = seconds
        self._report = report
        self._to_the_end = to_the_end
        self._looks: list[Stall] = []
        self._loop = current_loop()
        # get_ident() is that of the tasklet, under the patch
        self._thread, self._number = self._loop.thread_id, _thread.get_native_id()
        self._stall: Stall | None = None
        self._longest = 0.0
        self._beside = SideThread(self._look)
        self._beside.start()

    def stop(self) -> None:
        if self._beside.stop():
            self._longest = max(self._longest, self._loop.held_for())  # it may go on since the last look
            self._over()

    def _over(self) -> None:
        stall, self._stall = self._stall, None
        looks, self._looks = self._looks, []
        if stall is not None:
            rest = self._longest - sum(look.seconds for look in looks)
            looks[-1] = looks[-1]._replace(seconds=looks[-1].seconds + rest)
            self._report(stall._replace(seconds=self._longest, looks=tuple(looks)), True)

    def _look(self, woken: int) -> bool:
        if wait_readable([woken], self._seconds / 2):
            return True
        held = self._loop.held_for()
        if held < self._longest:
            self._over()
        self._longest = held
        if held < self._seconds or (self._stall is not None and not self._to_the_end):
            return True
        before = sum(look.seconds for look in self._looks)
        seen = stall_of(self._thread, self._number, held - before, stack=self._stall is None)
        if seen is not None and self._loop.held_for() >= held:  # or it is in the engine itself
            self._looks.append(seen._replace(stack=""))
            if self._stall is None:
                self._stall = seen
                self._report(self._stall, False)
        return True


class Blockers:
    """Records what blocks this thread's loop for longer than `milliseconds`: where, how often and for how
    long."""

    def __init__(self, milliseconds: float = 50):
        self.seconds = milliseconds / 1000
        self._found: dict[str, dict[tuple[str, str], list[float]]] = {}
        """Place in Python -> (blocker, fix) -> the seconds of each time. Looks at calls of the same line may
        meet them in different functions."""
        self._watch: Watch | None = None

    def start(self) -> None:
        self._watch = Watch(self.seconds, self._note, to_the_end=True)

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def _note(self, stall: Stall, has_ended: bool) -> None:
        if has_ended:
            for part in self._parts(stall.looks):
                place = self._found.setdefault(part.place, {})
                place.setdefault((part.blocker, part.cure), []).append(part.seconds)

    def _parts(self, looks: Sequence[Stall]) -> list[Stall]:
        """Return one stall for each sampled place, with its total time, the longest first. A place is
        merged into a longer one if it took less than the time limit, or if both compute in the same Python
        function."""
        places: dict[str, list[Stall]] = {}
        for look in looks:
            places.setdefault(look.place, []).append(look)
        times = {place: sum(look.seconds for look in seen) for place, seen in places.items()}
        parts: list[Stall] = []
        for place in sorted(places, key=lambda place: -times[place]):
            worst = max(places[place], key=lambda look: look.seconds)
            number = len(parts)
            if parts and times[place] < self.seconds:
                number = 0
            if not worst.frames:
                same = (at for at, part in enumerate(parts) if part.function == worst.function)
                number = next(same, number)
            if number == len(parts):
                parts.append(worst._replace(seconds=0))
            parts[number] = parts[number]._replace(seconds=parts[number].seconds + times[place])
        return parts

    def report(self) -> str:
        """Return a table as text: each place in the program once, with the function that took most of its
        time, the slowest place first."""
        if not self._found:
            return f"blockers: nothing blocked the loop for {self.seconds * 1000:.0f} ms or longer\n"
        rows = [f"blockers: code that blocked the loop for {self.seconds * 1000:.0f} ms or longer\n"]
        places = [(list(chain(*place.values())), place) for place in self._found.values()]
        for times, place in sorted(places, key=lambda found: -sum(found[0])):
            blocker, cure = max(place, key=lambda cause: sum(place[cause]))
            often = "once" if len(times) == 1 else f"{len(times)} times"
            rows.append(
                f"  {sum(times):8.3f} s  {often}, at most {max(times):.3f} s: {blocker}\n"
                f"              fix: {cure}\n"
            )
        return "".join(rows)


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

UNREAD = "if it computes, move it to another process; if it waits, use @offload or run_in_thread()"
PYTHON = "it computes in Python: move it to another process, or let it yield now and then with sleep(0)"
WAIT = "it waits: patch_all() for Python itself, patch_native() for a module in C, or run_in_thread()"
PATCHED_WAIT = "it waits: patch_native() for a module in C, or run_in_thread()"
CTYPES = "it waits in C, below ctypes: @offload, patch_all(offload=[...]) or run_in_thread()"
REFUSING = (
    "it waits where patch_native() changes nothing: @offload, patch_all(offload=[...]) or run_in_thread()"
)
OWN_THREAD = "it waits for a thread of its own: @offload, patch_all(offload=[...]) or run_in_thread()"
HASH = "it hashes or compresses: patch_all(cpu=True), or @offload for a function around it"
COMPUTE = "it computes in C: @offload, patch_all(offload=[...]) or run_in_thread()"

OFFLOADED = "patch_all(offload=[...])"
HELD = (
    'patch_all(offload=["{0}"]) is in force, but this call has kept the original: @offload, or '
    "run_in_thread(), for a function around it"
)

Frame = tuple[str | None, str]
"""A C function, if its name is known, and the path of the object that it is in."""
Frames = list[Frame]
"""The innermost first."""


def clean(name: str | None) -> str:
    return (name or "").lstrip("_").removeprefix("libc_").removeprefix("GI_")


def is_libc(frame: Frame) -> bool:
    """Return whether the frame is a function of libc, or replaces one."""
    name, path = frame
    return os.path.basename(path).startswith(LIBC) or clean(name) in WAITS | THREADS | OTHERS


def is_extension(path: str) -> bool:
    file = os.path.basename(path)
    return ".cpython-" in file or ".abi3." in file


def _package(extension: str) -> str:
    return below_sys_path(extension)[1:].partition("/")[0].partition(".")[0]


def is_patched(area: str) -> bool:
    """Return whether the area of the patch is in force."""
    patches = sys.modules.get("syncless.patches")
    return patches is not None and bool(patches.is_patched(area))


def is_offloaded(path: str) -> bool:
    """Return whether the function of this import path runs in OS threads."""
    patches = sys.modules.get("syncless.patches")
    return patches is not None and any(
        change.target == path and change.area.startswith("offload ") for change in patches.changes()
    )


def cure_of(frames: Frames) -> str:
    """Return the fix, in words; it is not in force yet. Without frames the thread runs Python."""
    wait = PATCHED_WAIT if is_patched("time") else WAIT
    if not frames:
        return PYTHON
    calls = [clean(frame[0]) for frame in frames if is_libc(frame)]
    callers = [frame[1] for frame in frames if not is_libc(frame)]
    if not callers:
        return wait
    extension = next((path for path in reversed(callers) if is_extension(path)), None)
    row = owner(extension or os.path.basename(callers[0]))
    if row is not None and row.instead:
        return row.instead
    if THREADS.intersection(calls):
        return OWN_THREAD
    if WAITS.intersection(calls) or (calls and not any(calls)):
        if extension and is_refused(extension):
            return CTYPES if os.path.basename(extension).startswith("_ctypes.") else wait
        if row is not None and row.verdict == REFUSED:
            return REFUSING
        if not extension:  # the whole stack is not always read
            row = user(callers[0])
            return f'patch_native("{row.name if row else os.path.basename(callers[0])}")'
        return f'patch_native("{row.name if row else _package(extension)}")'
    if extension and os.path.basename(extension).startswith(DATA) and not is_patched("cpu"):
        return HASH
    return COMPUTE
