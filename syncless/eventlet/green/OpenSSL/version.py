"""OpenSSL.version as it is: it never waits."""

from OpenSSL.version import *  # noqa: F403
