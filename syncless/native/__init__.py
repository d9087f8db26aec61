"""Native handlers: functions of Cython, C, Rust or Numba that answer requests on all cores, without the
interpreter's lock, beside a Python application.

``serve(application, native={"GET /hello": handler}, native_threads=2)`` starts threads that never run Python
code. A handler is described by ``syncless/native.h`` (`get_include`), in Cython by ``from syncless.native
cimport request, response, respond, handler``. docs/howto/native.md tells when this is worth it.
"""

import os

from syncless.native.functions import functions
from syncless.native.handler import ABI, Handler, load
from syncless.native.threads import publish

__all__ = ["ABI", "Handler", "functions", "get_include", "load", "publish"]


def get_include() -> str:
    """The directory with ``syncless/native.h``, for the compiler's ``-I``."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")
