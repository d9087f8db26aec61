import os
from typing import Any

ABI: int
KINDS: str

class Handler:
    """A native function that answers requests.

    ``source`` is a PyCapsule named ``syncless.native.handler``, a ctypes function pointer, the result of
    ``numba.cfunc``, or another Handler. ``name`` appears in logs. ``context`` is an address that the function
    finds in its request; the address must stay valid as long as the handler is used. With ``pieces`` the
    function is called when the head of a request has arrived, and reads a body of any size in steps.

    Raise ImportError if a capsule was made for another version of the interface; functions of ctypes or Numba
    state no version, so use load() for a library. Raise TypeError if the source is none of these.
    """

    name: str
    pieces: bool
    def __init__(
        self, source: Any, name: str | None = None, *, context: int | None = None, pieces: bool | None = None
    ) -> None: ...

def load(
    path: str | os.PathLike[str], name: str, *, context: int | None = None, pieces: bool | None = None
) -> Handler:
    """Return the handler of that name in a shared library, such as a C library or a Rust cdylib.

    The library states with ``SYNCLESS_LIBRARY`` for which version of the interface it was compiled. Raise
    OSError if it cannot be loaded, ImportError if it has no such function or was compiled for another
    version.
    """
