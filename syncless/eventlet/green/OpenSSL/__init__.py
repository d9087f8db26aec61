"""pyOpenSSL: its connections are given green sockets."""

from __future__ import annotations

from OpenSSL import crypto as crypto
from OpenSSL import version as version

from syncless.eventlet.green.OpenSSL import SSL as SSL
