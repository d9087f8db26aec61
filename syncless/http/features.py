"""Lists the features that this build has and lacks, for ``syncless --version``.

A build may leave out some modules (setup.py).
"""

from __future__ import annotations

import importlib.util

import greenlet

import syncless
from syncless._core.loop import checked, compiler
from syncless._core.poll.backends import BACKENDS

HTTP2_CURE = "install libnghttp2-dev (libnghttp2-devel on Fedora) and rebuild syncless"
FEATURES = {
    "HTTP/2": ("syncless.http.http2.session", HTTP2_CURE),
    "native handlers": ("syncless.native.threads", "they need epoll, which only Linux has"),
    "the area native of the patch": (
        "syncless.patches.libraries.parking",
        "it needs Linux on x86-64 or aarch64",
    ),
}
"""Name -> (the module that has it, why it is missing or what to do)."""


def features() -> str:
    """Return the features of this build, as lines."""
    import platform  # which few servers need

    has, lacks = list(BACKENDS), []
    for name, (module, cure) in FEATURES.items():
        try:
            found = importlib.util.find_spec(module) is not None
        except (ValueError, ModuleNotFoundError):  # None is in its place; its package lacks a part, too
            found = False
        if found:
            has.append(name)
        else:
            lacks.append(f"{name} ({cure})")
    system = f"{platform.system()} on {platform.machine()}"
    return "\n".join(
        (
            f"syncless {syncless.__version__}",
            f"CPython {platform.python_version()}, greenlet {greenlet.__version__}, {system}",
            f"compiled by {compiler}{', with assertions' if checked else ''}",
            f"has: {', '.join(has)}",
            *(f"lacks: {each}" for each in lacks),
        )
    )
