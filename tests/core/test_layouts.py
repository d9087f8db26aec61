"""A Python whose objects have another layout is refused by name. Each program lies about one kind of
object."""

import platform

import pytest

from tests.programs import run_unchecked

LOCK = """
        import _thread
        class Lie:
            __slots__ = {slots}
            def acquire(self, *args):
                return True
            release = __enter__ = __exit__ = acquire
        _thread.{name} = Lie
        import syncless.patches.types.locks
    """
LIES = {
    "socket objects": """
        import _socket
        class Lie(_socket.socket):
            __slots__ = ()
            def fileno(self):
                return super().fileno() + 1
        _socket.socket = Lie
        import syncless._core.calls.sockets
    """,
    "io.FileIO objects (small)": """
        import _io
        class Lie:
            __slots__ = ()
            def __init__(self, *args):
                pass
        _io.FileIO = Lie
        import syncless._core.cpython.layouts as layouts; layouts.checked("io.FileIO objects")
    """,
    "io.FileIO objects": """
        import _io
        class Lie(_io.FileIO):
            def fileno(self):
                return super().fileno() + 1
        _io.FileIO = Lie
        import syncless._core.calls.fileio
    """,
    "locks": LOCK.format(name="allocate_lock", slots=("a", "b", "c")),
    "locks (small)": LOCK.format(name="allocate_lock", slots=()),
    "locks (of one word)": LOCK.format(name="allocate_lock", slots=("a",)),
    "locks (reentrant)": LOCK.format(name="RLock", slots=("a", "b", "c")),
    "locks (reentrant, small)": LOCK.format(name="RLock", slots=()),
    "locks (reentrant, large)": LOCK.format(name="RLock", slots=("a", "b", "c", "d")),
    "poll objects (small)": """
        import select
        class Lie:
            __slots__ = ("a",)
            def __init__(self):
                self.a = {5: 3, 4: 1}           # what is looked for, and nothing behind it
            def register(self, fd, events):
                pass
        select.poll = Lie
        import syncless._core.cpython.layouts as layouts; layouts.checked("poll objects")
    """,
    "poll objects": """
        import select
        class Lie:
            __slots__ = ("a", "b", "c", "d")
            def register(self, fd, events):
                pass
        select.poll = Lie
        import syncless._core.cpython.layouts as layouts; layouts.checked("poll objects")
    """,
    "buffered files": """
        import _io
        class Lie:
            def __init__(self, raw):
                self.raw = raw
            def read(self, n):
                self.raw.readinto(bytearray(n))
            def detach(self):
                pass
        _io.BufferedReader = Lie
        import syncless.patches.types.fileobjects
    """,
    "tasks of asyncio": """
        import asyncio, _asyncio
        class Lie(_asyncio.Task):
            def cancel(self):
                pass
        _asyncio.Task = Lie
        import syncless._core.cpython.layouts as layouts; layouts.checked("tasks of asyncio")
    """,
}


FIELDS = {
    "socket objects": "descriptor",
    "io.FileIO objects": "descriptor",
    "io.FileIO objects (small)": "mode",
    "locks": "mutex",
    "locks (small)": "mutex",
    "locks (of one word)": "mutex",
    "locks (reentrant)": "owner",
    "locks (reentrant, small)": "owner",
    "locks (reentrant, large)": "owner",
    "poll objects (small)": "dict",
    "poll objects": "dict",
    "buffered files": "owner",
    "tasks of asyncio": "mark of a cancellation",
}


def run(program):
    return run_unchecked(program, cwd="/")


def refusal(kind):
    version, objects = platform.python_version(), kind.partition(" (")[0]
    return f"the offset of {FIELDS[kind]} in the {objects} of CPython {version} is unknown"


@pytest.mark.parametrize("kind", LIES)
def test_unknown_layout_is_refused_by_name(kind):
    done = run(f"import textwrap; exec(textwrap.dedent({LIES[kind]!r}))")
    assert done.returncode == 1 and f"UnknownLayout: {refusal(kind)}" in done.stderr, done.stderr
