"""Runs key derivation from passwords in threads, because it takes a tenth of a second or more by design.

A thread costs about fifty microseconds. A call that takes about as long is made directly, judging by the
iterations of PBKDF2 and by the memory and rounds of scrypt and Argon2. bcrypt and the digests of crypt()
always take longer. All of these functions release the GIL except for crypt.crypt, in whose place the C
library is called.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from typing import Any

from syncless._core.allowance import processors
from syncless._core.calls.files import may_use_threads
from syncless._core.calls.threads import ThreadPool
from syncless._core.cpython.functions import original_of
from syncless.patches.registry import Patcher, when_imported

PBKDF2_ITERATIONS = 500
"""Like the next two: a call that takes less than about a quarter of a millisecond is not worth a thread."""
SCRYPT_BLOCKS = 1024
ARGON2_KIB = 256

CRYPT_DATA = 1 << 18
"""Bytes: more than the crypt_data of any C library."""

WHY = "computes for long"
CLASSES = {"pbkdf2": "PBKDF2HMAC", "scrypt": "Scrypt", "argon2": "Argon2d Argon2i Argon2id"}
"""Module of cryptography.hazmat.primitives.kdf -> classes."""
METHODS = ("derive", "derive_into", "derive_phc_encoded", "verify", "verify_phc_encoded")

_pool = ThreadPool(processors)


def _long(original: Callable[..., Any], is_short: Callable[..., bool] | None = None) -> Callable[..., Any]:
    """Return a wrapper that calls the function in a thread, unless is_short(*args, **kwargs) is true or the
    arguments are wrong."""

    original = original_of(original)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not may_use_threads():
            return original(*args, **kwargs)
        if is_short is not None:
            try:
                if is_short(*args, **kwargs):
                    return original(*args, **kwargs)
            except (TypeError, ValueError, AttributeError):
                return original(*args, **kwargs)
        return _pool.run(original, *args, **kwargs)

    return call


def _short_pbkdf2(
    hash_name: str, password: Any, salt: Any, iterations: int, dklen: int | None = None
) -> bool:
    blocks = 1 if dklen is None else 1 + dklen // 20  # 20: the shortest digest that is in use
    return iterations * blocks < PBKDF2_ITERATIONS


def _short_scrypt(password: Any, *, salt: Any, n: int, r: int, p: int, **_: Any) -> bool:
    return n * r * p < SCRYPT_BLOCKS


def _short_argon2(secret: Any, salt: Any, time_cost: int, memory_cost: int, *_: Any, **__: Any) -> bool:
    return time_cost * memory_cost < ARGON2_KIB


def _short_verify(hash: bytes, *_: Any, **__: Any) -> bool:
    found = re.search(rb"\$m=(\d+),t=(\d+)", hash)
    return found is None or int(found[1]) * int(found[2]) < ARGON2_KIB


def _bcrypt(patcher: Patcher, module: Any) -> None:
    for name in ("hashpw", "checkpw", "kdf"):
        patcher.rebind(module, name, _long(getattr(module, name)), WHY)


def _argon2(patcher: Patcher, module: Any) -> None:
    tests: dict[str, Callable[..., bool]] = {
        "hash_secret": _short_argon2,
        "hash_secret_raw": _short_argon2,
        "verify_secret": _short_verify,
    }
    for name, is_short in tests.items():
        patcher.rebind(module, name, _long(getattr(module, name), is_short), WHY)


def _cryptography(patcher: Patcher, module: Any) -> None:
    for name in CLASSES[module.__name__.rpartition(".")[2]].split():
        owner: Any = getattr(module, name, object)
        for method in METHODS:
            original = vars(owner).get(method)
            if isinstance(original, staticmethod):
                patcher.member_in_place(owner, method, staticmethod(_long(original.__func__)), WHY)
            elif original is not None:
                patcher.member_in_place(owner, method, _long(original), WHY)


def _crypt(patcher: Patcher, module: Any) -> None:
    """Compute long digests with crypt_r of the C library, because crypt.crypt keeps the GIL."""
    import ctypes.util  # takes long to load

    library = ctypes.util.find_library("crypt")
    crypt_r = getattr(ctypes.CDLL(library, use_errno=True), "crypt_r", None) if library else None
    if crypt_r is None:
        return
    crypt_r.restype = ctypes.c_char_p
    original = original_of(module.crypt)

    def in_thread(word: bytes, salt: bytes) -> str:
        digest = crypt_r(word, salt, ctypes.create_string_buffer(CRYPT_DATA))
        if digest is None:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return digest.decode()  # type: ignore[no-any-return]

    @functools.wraps(original)
    def crypt(word: Any, salt: Any, /) -> Any:
        if not (isinstance(word, str) and isinstance(salt, str) and salt[:1] == "$" and salt[:3] != "$1$"):
            return original(word, salt)
        if "\0" in word + salt or not may_use_threads():
            return original(word, salt)
        return _pool.run(in_thread, word.encode(), salt.encode())

    patcher.rebind(module, "crypt", crypt, WHY)


def _hashlib(patcher: Patcher, module: Any) -> None:
    patcher.rebind(module, "pbkdf2_hmac", _long(module.pbkdf2_hmac, _short_pbkdf2), WHY)
    if hasattr(module, "scrypt"):
        patcher.rebind(module, "scrypt", _long(module.scrypt, _short_scrypt), WHY)


def patch(patcher: Patcher) -> None:
    when_imported(patcher, "hashlib", _hashlib)
    when_imported(patcher, "_crypt", _crypt)
    when_imported(patcher, "bcrypt", _bcrypt)
    when_imported(patcher, "argon2.low_level", _argon2)
    for name in CLASSES:
        when_imported(patcher, f"cryptography.hazmat.primitives.kdf.{name}", _cryptography)
