"""OpenSSL.crypto as it is: it never waits."""

from OpenSSL.crypto import *  # noqa: F403
