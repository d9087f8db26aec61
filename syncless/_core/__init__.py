"""The engine, with a clear error where it cannot run. Its modules are native: a checkout has none before the
build, and the error says so instead of naming the first missing module."""

import importlib.util
import os
import sys

if "t" in sys.abiflags:
    raise ImportError(
        "syncless needs the GIL, but this Python is a free-threaded build (PYTHON_GIL changes nothing): "
        f"use the standard build of CPython {sys.version_info[0]}.{sys.version_info[1]}"
    )

if sys.version_info < (3, 10):  # noqa: UP036  a checkout is not installed by pip, which would refuse
    raise ImportError(f"syncless needs Python 3.10 or newer, not {sys.version.split()[0]}")

if importlib.util.find_spec("syncless._core.poll.poller") is None:
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    raise ImportError(
        f"syncless is not built in {folder} for Python {sys.version_info[0]}.{sys.version_info[1]}: "
        "run `make serve` there, or leave that folder to use the installed one"
    )

try:
    import greenlet  # noqa: F401  the native modules cannot tell that it is missing
except ImportError as error:
    raise ImportError(f"syncless needs greenlet: python -m pip install greenlet ({error})") from error
