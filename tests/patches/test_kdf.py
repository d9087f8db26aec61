"""Keys derived from passwords: where they are made, and that they are what they are without the patch."""

import importlib.util

import pytest

from tests.programs import check

COUNT = """
    from syncless.patches import kdf
    run, made = kdf._pool.run, []
    kdf._pool.run = lambda *args, **kwargs: (made.append(args), run(*args, **kwargs))[1]
    def threads(function, *args, **kwargs):
        "In how many threads it is made, and what it gives."
        made.clear()
        try: found = function(*args, **kwargs)
        except Exception as error: found = type(error), str(error)
        return len(made), found
    def same(function, original, *args, **kwargs):
        "The same as without the patch. Returns in how many threads it is made."
        try: expected = original(*args, **kwargs)
        except Exception as error: expected = type(error), str(error)
        count, found = threads(function, *args, **kwargs)
        assert found == expected, (found, expected)
        return count
"""


def test_cost_decides_where_hashlib_derives_a_key():
    check(
        COUNT
        + """
    import hashlib
    assert pbkdf2_hmac is hashlib.pbkdf2_hmac is not pbkdf2
    assert same(pbkdf2_hmac, pbkdf2, "sha256", b"x", b"salt", 100) == 0
    assert same(pbkdf2_hmac, pbkdf2, "sha256", b"x", b"salt", 100_000) == 1
    assert same(pbkdf2_hmac, pbkdf2, "sha1", password=b"x", salt=b"s", iterations=100, dklen=2000) == 1
    wrong = ("sha256", b"x", b"salt", "many"), ("nothing", b"x", b"salt", 1), ("sha256", b"x")
    for wrong in (*wrong, ("sha256", b"x", b"salt", -1)):
        assert same(pbkdf2_hmac, pbkdf2, *wrong) == 0
    assert same(hashlib.scrypt, scrypt, b"x", salt=b"salt", n=16, r=8, p=1) == 0
    assert same(hashlib.scrypt, scrypt, b"x", salt=b"salt", n=1024, r=8, p=1, dklen=20) == 1
    assert same(hashlib.scrypt, scrypt, b"x", salt=b"salt", n=1000, r=8, p=1)  == 1        # no power of 2
    assert same(hashlib.scrypt, scrypt, b"x", salt=b"salt") == 0
    unpatch("kdf")
    assert hashlib.pbkdf2_hmac is kept[0] is pbkdf2_hmac and hashlib.scrypt is kept[1]
    """,
        patch="import hashlib; from hashlib import pbkdf2_hmac; kept = [pbkdf2_hmac, hashlib.scrypt]\n"
        "from syncless._core.cpython.functions import original_of\n"
        "patch_all(); pbkdf2, scrypt = map(original_of, kept)",
    )


@pytest.mark.skipif(not importlib.util.find_spec("_crypt"), reason="this Python has no crypt")
def test_crypt_gives_what_it_gives_unpatched():
    check(
        COUNT
        + """
    import crypt
    for salt in ("ab", "$1$saltsalt", "", "*"):
        assert same(crypt.crypt, original, "x", salt) == 0
    for salt in ("$5$saltsalt", "$6$rounds=5000$saltsalt", "$9$nothing", "$2b$04$abcdefghijklmnopqrstuu"):
        assert same(crypt.crypt, original, "p\\u00e4ssword", salt) == 1
    for wrong in (("a\\0b", "$6$x"), (b"x", "$6$x"), ("x", 6)):
        assert same(crypt.crypt, original, *wrong) == 0
    hashed = crypt.crypt("secret", crypt.mksalt(crypt.METHOD_SHA512))
    assert crypt.crypt("secret", hashed) == hashed
    """,
        patch="import warnings; warnings.simplefilter('ignore'); import crypt\n"
        "kept = [crypt._crypt.crypt]; patch_all(); original, = kept",
    )


@pytest.mark.parametrize("when", ["before", "after"])
def test_other_libraries_derive_keys_in_threads(when):
    for name in ("bcrypt", "argon2", "cryptography"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: pip install --group clients")
    imports = (
        "import bcrypt, argon2; "
        "from cryptography.hazmat.primitives.kdf import pbkdf2, scrypt, argon2 as argon"
    )
    check(
        COUNT
        + """
    from cryptography.hazmat.primitives import hashes
    count, hashed = threads(bcrypt.hashpw, b"x", bcrypt.gensalt(4))
    assert count == 1 and threads(bcrypt.checkpw, b"x", hashed) == (1, True)
    assert not bcrypt.checkpw(b"y", hashed)
    assert threads(bcrypt.kdf, b"x", b"salt", 20, 50)[0] == 1
    assert threads(bcrypt.hashpw, b"x", b"nonsense") == (1, (ValueError, "Invalid salt"))
    for memory, count in ((8, 0), (1024, 1)):
        hasher = argon2.PasswordHasher(time_cost=1, memory_cost=memory, parallelism=1)
        number, hashed = threads(hasher.hash, "x")
        assert number == count and threads(hasher.verify, hashed, "x") == (count, True)
        assert threads(hasher.verify, hashed, "y")[1][0] is argon2.exceptions.VerifyMismatchError
    assert threads(argon2.low_level.hash_secret, b"x", b"saltsalt", 2, 1024, 1, 32, argon2.Type.ID)[0] == 1
    key = pbkdf2.PBKDF2HMAC(hashes.SHA256(), 32, b"salt", 1000).derive(b"x")
    assert threads(pbkdf2.PBKDF2HMAC(hashes.SHA256(), 32, b"salt", 1000).verify, b"x", key) == (1, None)
    assert threads(scrypt.Scrypt(salt=b"salt", length=32, n=1024, r=8, p=1).derive, b"x")[0] == 1
    key = argon.Argon2id(salt=b"saltsalt", length=32, iterations=1, lanes=1, memory_cost=1024)
    assert threads(key.derive, b"x")[0] == 1
    """,
        patch=f"{imports}; patch_all()" if when == "before" else f"patch_all(); {imports}",
    )
