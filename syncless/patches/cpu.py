"""Runs long computations that release the GIL (compression and hashing of large data) in threads.

Off by default: on one core, threads only add time. Smaller pieces of data are processed directly, and other
tasklets run in between.
"""

from __future__ import annotations

import binascii
import functools
import hashlib
import zlib
from collections.abc import Callable
from typing import Any

from syncless._core.calls.files import may_use_threads
from syncless._core.calls.threads import ThreadPool
from syncless._core.cpython.functions import original_of
from syncless._core.current import give_way
from syncless.patches.registry import Patcher, when_imported

ABOVE = 1 << 20
"""Bytes. Smaller data is processed at once."""
PIECE = 1 << 14
"""Bytes. Smaller data is processed in no time."""
EXPANSION = 1032
"""The most bytes that zlib makes of one."""

_pool = ThreadPool(8)


def _sized(original: Callable[..., Any], index: int) -> Callable[..., Any]:
    """Return a wrapper that calls the function in a thread if the data (argument `index`) is large."""

    original = original_of(original)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        data = args[index] if len(args) > index else b""
        size = len(data) if isinstance(data, (bytes, bytearray, memoryview)) else 0
        if size < PIECE or not may_use_threads():
            return original(*args, **kwargs)
        if size >= ABOVE:
            return _pool.run(original, *args, **kwargs)
        give_way()
        return original(*args, **kwargs)

    return call


def _expands(original: Callable[..., Any], unlimited: int) -> Callable[..., Any]:
    """Return the decompress method of a decompressor. It runs in a thread for output beyond ABOVE bytes, to
    which even little data may expand. `unlimited` is the max_length that means no limit.
    """

    original = original_of(original)

    @functools.wraps(original)
    def decompress(self: Any, data: Any, max_length: int = unlimited) -> Any:
        small = isinstance(data, (bytes, bytearray, memoryview)) and len(data) < ABOVE
        if not may_use_threads():
            return original(self, data, max_length)
        give_way()
        if small and 0 <= max_length <= ABOVE and max_length != unlimited:
            return original(self, data, max_length)
        if not small or max_length > 0:
            return _pool.run(original, self, data, max_length)
        made = original(self, data, ABOVE)
        if len(made) < ABOVE or self.eof:
            return made
        return made + _pool.run(original, self, getattr(self, "unconsumed_tail", b""), max_length)

    return decompress


def _decompress(original: Callable[..., Any]) -> Callable[..., Any]:
    """zlib.decompress."""

    original = original_of(original)

    @functools.wraps(original)
    def decompress(data: Any, /, wbits: int = zlib.MAX_WBITS, bufsize: int = zlib.DEF_BUF_SIZE) -> Any:
        small = not isinstance(data, (bytes, bytearray, memoryview)) or len(data) * EXPANSION < ABOVE
        if small or not may_use_threads():
            return original(data, wbits, bufsize)
        if len(data) < ABOVE:
            unpacker = zlib.decompressobj(wbits)
            try:
                made = unpacker.decompress(data, ABOVE)
            except zlib.error:  # the function words it differently
                return original(data, wbits, bufsize)
            if unpacker.eof:
                return made
        return _pool.run(original, data, wbits, bufsize)

    return decompress


def _long(original: Callable[..., Any]) -> Callable[..., Any]:
    original = original_of(original)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _pool.run(original, *args, **kwargs) if may_use_threads() else original(*args, **kwargs)

    return call


def _data_sized(original: Callable[..., Any]) -> Callable[..., Any]:
    return _sized(original, 1)


def _endless(original: Callable[..., Any]) -> Callable[..., Any]:
    return _expands(original, -1)


def _methods(*members: tuple[str, str]) -> Callable[[Patcher, Any], None]:
    def change(patcher: Patcher, module: Any) -> None:
        for kind, name in members:
            owner = getattr(module, kind)
            method = owner.__dict__[name]
            new = {"flush": _long, "decompress": _endless}.get(name, _data_sized)(method)
            patcher.member_in_place(owner, name, new, "computes for long")

    return change


def _functions(*names: tuple[str, int]) -> Callable[[Patcher, Any], None]:
    """Return a function that patches a module's functions, given as (name, position of the data argument)."""

    def change(patcher: Patcher, module: Any) -> None:
        for name, index in names:
            if hasattr(module, name):
                patcher.rebind(module, name, _sized(getattr(module, name), index), "computes for long")

    return change


def patch(patcher: Patcher) -> None:
    why = "computes for long"
    for name in ("compress", "crc32", "adler32"):
        patcher.rebind(zlib, name, _sized(getattr(zlib, name), 0), why)
    patcher.rebind(zlib, "decompress", _decompress(zlib.decompress), why)
    patcher.rebind(binascii, "crc32", _sized(binascii.crc32, 0), why)
    patcher.rebind(hashlib, "new", _sized(hashlib.new, 1), why)
    for name in sorted(hashlib.algorithms_guaranteed):
        patcher.rebind(hashlib, name, _sized(getattr(hashlib, name), 0), why)
    # others of hashlib are of one of these types, or of one that inherits their methods
    hashes = {type(hashlib.new(name)) for name in ("sha256", "blake2b", "blake2s")}
    methods = [(type(zlib.compressobj()), "compress"), *((kind, "update") for kind in hashes)]
    for owner, name in methods:
        patcher.member_in_place(owner, name, _sized(vars(owner)[name], 1), why)
    for kind, unlimited in (
        (type(zlib.decompressobj()), 0),
        (getattr(zlib, "_ZlibDecompressor", None), -1),
    ):
        if kind is not None:
            patcher.member_in_place(kind, "decompress", _expands(vars(kind)["decompress"], unlimited), why)
    when_imported(patcher, "_hashlib", _functions(("hmac_new", 1), ("hmac_digest", 1)))
    when_imported(patcher, "_hashlib", _data_of_hmac)
    for module, prefix in (("_bz2", "BZ2"), ("_lzma", "LZMA")):
        compressor, decompressor = f"{prefix}Compressor", f"{prefix}Decompressor"
        changed = _methods((compressor, "compress"), (compressor, "flush"), (decompressor, "decompress"))
        when_imported(patcher, module, changed)


def _data_of_hmac(patcher: Patcher, module: Any) -> None:
    kind = getattr(module, "HMAC", None)
    if kind is not None:
        patcher.member_in_place(kind, "update", _data_sized(kind.__dict__["update"]), "computes for long")
