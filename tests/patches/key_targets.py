"""The targets of key derivation: each call takes at least a third of WAIT. See targets.py."""

import hashlib
import importlib.util
import math
import time

from tests.patches.stalls import WAIT

SCALE = WAIT / 0.3


def again(function):
    """Calls it until WAIT is over."""
    started = time.monotonic()
    while time.monotonic() - started < WAIT:
        found = function()
    return found


def pbkdf2():
    return len(hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", int(600_000 * SCALE)))


def scrypt():
    return len(
        hashlib.scrypt(b"secret", salt=b"salt", n=1 << 14, r=8, p=math.ceil(4 * SCALE), maxmem=1 << 26)
    )


def crypt():
    import crypt

    return crypt.crypt("secret", f"$6$rounds={int(600_000 * SCALE)}$saltsalt")[:3]


def bcrypt():
    import bcrypt

    made = bcrypt.hashpw(b"secret", bcrypt.gensalt(round(12 + math.log2(SCALE))))
    return bcrypt.checkpw(b"secret", made)


def bcrypt_kdf():
    import bcrypt

    return len(bcrypt.kdf(b"secret", b"salt", 32, math.ceil(50 * SCALE)))


def argon2():
    import argon2

    hasher = argon2.PasswordHasher(time_cost=math.ceil(4 * SCALE), parallelism=1)
    return hasher.verify(hasher.hash("secret"), "secret")


def cryptography_pbkdf2():
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

    return len(PBKDF2HMAC(hashes.SHA256(), 32, b"salt", int(600_000 * SCALE)).derive(b"secret"))


def cryptography_scrypt():
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    made = Scrypt(salt=b"salt", length=32, n=1 << 14, r=8, p=math.ceil(8 * SCALE)).derive(b"secret")
    Scrypt(salt=b"salt", length=32, n=1 << 14, r=8, p=math.ceil(8 * SCALE)).verify(b"secret", made)
    return len(made)


FUNCTIONS = {
    "hashlib.pbkdf2_hmac": ("hashlib", pbkdf2, 32),
    "hashlib.scrypt": ("hashlib", scrypt, 64),
    "crypt.crypt": ("_crypt", crypt, "$6$"),
    "bcrypt.hashpw, checkpw": ("bcrypt", bcrypt, True),
    "bcrypt.kdf": ("bcrypt", bcrypt_kdf, 32),
    "argon2": ("argon2", argon2, True),
    "cryptography, PBKDF2HMAC": ("cryptography", cryptography_pbkdf2, 32),
    "cryptography, Scrypt": ("cryptography", cryptography_scrypt, 32),
}
"""name -> the module it needs, what is called, what it gives"""

KEY_TARGETS = {
    name: (lambda function=function: again(function), result)
    for name, (module, function, result) in FUNCTIONS.items()
    if importlib.util.find_spec(module)
}
