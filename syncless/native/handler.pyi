import os
from typing import Any

ABI: int
KINDS: str

class Handler:
    """A native function that answers requests.

    ``source`` is a PyCapsule named ``syncless.native.handler``, a ctypes function pointer, the result of
    ``numba.cfunc``, or another Handler. ``name`` is for people. ``context`` is an address that the function
    finds in its request; it must stay valid as long as the handler is used. With ``pieces`` it is called when
    the head of a request has come, and reads a body of any size in steps.

    ImportError if a capsule was made for another version of the interface; a function of ctypes or Numba says
    none, so load() is the way to a library. Raise TypeError if the source is nothing of these.
    """

    name: str
    pieces: bool
    def __init__(
        self, source: Any, name: str | None = None, *, context: int | None = None, pieces: bool | None = None
    ) -> None: ...

def load(
    path: str | os.PathLike[str], name: str, *, context: int | None = None, pieces: bool | None = None
) -> Handler:
    """Return the handler of that name in a shared library, such as one of C or a Rust cdylib.

    The library says by ``SYNCLESS_LIBRARY`` for which version of the interface it was compiled. Raise OSError
    if it cannot be loaded, ImportError if it has no such function or was compiled for another version.
    """
