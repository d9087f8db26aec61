"""Native handlers: functions in Cython, C, Rust or Numba that answer requests on all cores, without the GIL,
alongside a Python application.

``serve(application, native={"GET /hello": handler}, native_threads=2)`` starts threads that never run Python
code. The interface is declared in ``syncless/native.h`` (`get_include`), for Cython by ``from syncless.native
cimport request, response, respond, handler``. docs/howto/native.md says when this is worth it.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_int, c_int64, c_size_t
from typing import Any

from syncless.native.handler import ABI, Handler, load
from syncless.native.threads import calls_address, publish

__all__ = ["ABI", "Handler", "functions", "get_include", "load", "publish"]

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "parameter": (c_int, c_size_t, c_size_t, c_size_t, c_size_t),
    "field": (c_int, c_size_t, c_size_t, c_size_t, c_size_t),
    "field_at": (c_int, c_size_t, c_size_t, c_size_t, c_size_t),
    "client": (c_int, c_size_t, c_size_t),
    "published": (c_int, c_size_t, c_size_t, c_size_t, c_size_t),
    "alloc": (c_size_t, c_size_t, c_size_t),
    "add_field": (c_int, c_size_t, c_size_t, c_size_t, c_size_t, c_size_t),
    "append": (c_int, c_size_t, c_size_t, c_size_t),
    "append_format": (),
    "send_file": (c_int, c_size_t, c_int, c_int64, c_int64, c_int),
    "respond": (c_int, c_size_t, c_int, c_size_t, c_size_t, c_size_t, c_size_t, c_int),
    "begin": (c_int, c_size_t, c_size_t, c_size_t, c_size_t),
}
"""The functions of `struct syncless_calls` with plain arguments, in the order of the table: the type
of the result, and of the arguments; none where they are not plain."""


def get_include() -> str:
    """Return the directory that contains ``syncless/native.h``, for the compiler's ``-I``."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


class _Table(ctypes.Structure):
    _fields_ = [
        ("abi", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        *((name, ctypes.c_void_p) for name in SIGNATURES),
    ]


def functions() -> dict[str, Any]:
    """Return the server's functions for handlers by name (as in syncless/native.h), as ctypes functions that
    handlers compiled by Numba can call.

    Pointers are numbers (`uintp`). A struct that a function fills in, such as the `found` of `field`, is the
    address of two words: where the bytes are, and how many.
    """
    table = _Table.from_address(calls_address())
    return {
        name: ctypes.CFUNCTYPE(*signature)(getattr(table, name))
        for name, signature in SIGNATURES.items()
        if signature
    }
