"""Handler: a native function that answers requests, wherever it comes from."""

import ctypes
import os

from cpython.pycapsule cimport PyCapsule_CheckExact, PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport uintptr_t

ABI = <int> SYNCLESS_NATIVE_ABI
"""The version of the interface between the server and its handlers."""
KINDS = (
    "a PyCapsule named syncless.native.handler (in Cython: handler(function)), a ctypes function, a "
    "numba.cfunc, or a Handler"
)


cdef class Handler:
    """Handler(source, name=None, *, context=0, pieces=False): a native function that answers requests.

    ``source`` is a PyCapsule named ``syncless.native.handler``, a ctypes function pointer, the result of
    ``numba.cfunc``, or another Handler. ``name`` appears in logs. ``context`` is an address that the function
    finds in its request; the address must stay valid as long as the handler is used. With ``pieces`` the
    function is called when the head of a request has arrived, and reads a body of any size in steps.

    Raise ImportError if a capsule was made for another version of the interface; functions of ctypes or Numba
    state no version, so use load() for a library. Raise TypeError if the source is none of these.
    """

    def __init__(self, object source not None, str name=None, *, context=None, pieces=None):
        cdef syncless_registration* registration
        self.kept = source
        if isinstance(source, Handler):
            self.call = (<Handler> source).call
            self.context = (<Handler> source).context
            self.pieces = (<Handler> source).pieces
            self.name = name or (<Handler> source).name
        elif PyCapsule_CheckExact(source):
            if not PyCapsule_IsValid(source, SYNCLESS_CAPSULE):
                raise TypeError(f"a native handler must be {KINDS}, not {source!r}")
            registration = <syncless_registration*> PyCapsule_GetPointer(source, SYNCLESS_CAPSULE)
            self.name = name or "handler"
            self.check(registration.abi)
            self.call = registration.handler
            self.context = registration.context
            self.pieces = registration.pieces != 0
        else:
            self.name = name or str(
                getattr(source, "native_name", None) or getattr(source, "__name__", "handler"))
            self.call = <syncless_handler> <uintptr_t> address_of(source)
        if context is not None:
            self.context = <void*> <uintptr_t> context
        if pieces is not None:
            self.pieces = pieces
        if self.call == NULL:
            raise TypeError(f"the native handler {self.name} is a null pointer")

    cdef int check(self, unsigned abi) except -1:
        if abi != SYNCLESS_NATIVE_ABI:
            raise ImportError(
                f"the native handler {self.name} was compiled for version {abi} of syncless/native.h, but "
                f"this syncless has version {SYNCLESS_NATIVE_ABI}: compile it again")
        return 0

    def __repr__(self):
        return f"<syncless.native.Handler {self.name}>"


cdef object address_of(source):
    """Of a function of ctypes or Numba."""
    if isinstance(source, ctypes._CFuncPtr):
        return ctypes.cast(source, ctypes.c_void_p).value or 0
    address = getattr(source, "address", None)
    if isinstance(address, int) and hasattr(source, "native_name"):
        return address
    raise TypeError(f"a native handler must be {KINDS}, not {source!r}")


def load(path, str name not None, *, context=None, pieces=None) -> Handler:
    """Return the handler of that name in a shared library, such as a C library or a Rust cdylib.

    The library states with ``SYNCLESS_LIBRARY`` for which version of the interface it was compiled. Raise
    OSError if it cannot be loaded, ImportError if it has no such function or was compiled for another
    version.
    """
    cdef Handler made
    library = ctypes.CDLL(os.fspath(path))
    try:
        abi = ctypes.c_uint32.in_dll(library, "syncless_native_abi").value
    except ValueError:
        raise ImportError(
            f"{os.fspath(path)} does not say which version of syncless/native.h it was compiled for: it "
            f"needs a line SYNCLESS_LIBRARY or the symbol syncless_native_abi with the value {ABI}") from None
    try:
        function = library[name]
    except AttributeError:
        raise ImportError(f"{os.fspath(path)} has no function {name}") from None
    made = Handler(function, name, context=context, pieces=pieces)
    made.check(abi)
    return made
