"""OpenSSL.crypto as it is: it never waits."""

from __future__ import annotations

from OpenSSL import crypto as _standard

globals().update({name: value for name, value in vars(_standard).items() if not name.startswith("__")})
