"""Long computations that release the GIL: compression and hashing of large data, in threads.

Off unless asked for: on one core a thread only makes them longer.
"""

from __future__ import annotations

import functools
import hashlib
import zlib
from collections.abc import Callable
from typing import Any

from syncless._core.filecalls import parks_now
from syncless._core.threads import ThreadPool
from syncless.patches.imports import when_imported
from syncless.patches.registry import Patcher

ABOVE = 1 << 20
"""Bytes: what is smaller is computed at once."""

_pool = ThreadPool(8)


def _sized(original: Callable[..., Any], index: int) -> Callable[..., Any]:
    """`index`: which argument is the data."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        data = args[index] if len(args) > index else b""
        if isinstance(data, (bytes, bytearray, memoryview)) and len(data) >= ABOVE and parks_now():
            return _pool.run(original, *args, **kwargs)
        return original(*args, **kwargs)

    return call


def _long(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _pool.run(original, *args, **kwargs) if parks_now() else original(*args, **kwargs)

    return call


def _methods(*members: tuple[str, str]) -> Callable[[Patcher, Any], None]:
    def change(patcher: Patcher, module: Any) -> None:
        for kind, name in members:
            owner = getattr(module, kind)
            method = owner.__dict__[name]
            patcher.member_in_place(owner, name, _long(method) if name == "flush" else _sized(method, 1), "computes for long")

    return change


def patch(patcher: Patcher) -> None:
    why = "computes for long"
    for name in ("compress", "decompress", "crc32", "adler32"):
        patcher.rebind(zlib, name, _sized(getattr(zlib, name), 0), why)
    for name in sorted(hashlib.algorithms_guaranteed):
        patcher.rebind(hashlib, name, _sized(getattr(hashlib, name), 0), why)
    packer, unpacker = zlib.compressobj(), zlib.decompressobj()
    for owner, name in ((type(packer), "compress"), (type(unpacker), "decompress"), (type(hashlib.sha256()), "update")):
        patcher.member_in_place(owner, name, _sized(owner.__dict__[name], 1), why)
    when_imported(patcher, "_bz2", _methods(("BZ2Compressor", "compress"), ("BZ2Compressor", "flush"), ("BZ2Decompressor", "decompress")))
    when_imported(
        patcher, "_lzma", _methods(("LZMACompressor", "compress"), ("LZMACompressor", "flush"), ("LZMADecompressor", "decompress"))
    )
