"""Methods of ssl.SSLSocket that park the tasklet while the SSL object waits for the other side.

The SSL object looks at the descriptor's own mode and at the socket's timeout. So the descriptor is made non-blocking, once for each object,
and the timeout field says 0 while it is called; the socket's timeout holds for the waiting here.
"""

import os
import ssl

from libc.stdint cimport int64_t

from syncless._core.loop cimport take_turns
from syncless._core.poller cimport READ, WRITE
from syncless._core.sockcalls cimport UNKNOWN, await_ready, begin, socket

from syncless._core import sockcalls

cdef object want_read = ssl.SSLWantReadError
cdef object want_write = ssl.SSLWantWriteError
cdef object ssl_error = ssl.SSLError
cdef object eof = ssl.SSL_ERROR_EOF
cdef object set_blocking = os.set_blocking
cdef object plain_recv = sockcalls.recv
cdef object plain_send = sockcalls.send


cdef object run(socket self, object tls, object method, object first, object second):
    """tls.method(first, second) as long as it takes; None stands for no argument."""
    cdef int64_t deadline = UNKNOWN
    cdef long long timeout = self.sock_timeout
    cdef dict members = self.__dict__
    cdef int bit
    if members.get("_never_blocks") is not tls:
        set_blocking(self.sock_fd, False)
        members["_never_blocks"] = tls
    begin(self)
    while True:
        self.sock_timeout = 0
        try:
            if first is None:
                return method()
            return method(first) if second is None else method(first, second)
        except want_read:
            if timeout == 0:
                take_turns()
                raise
            bit = READ
        except want_write:
            if timeout == 0:
                take_turns()
                raise
            bit = WRITE
        finally:
            self.sock_timeout = timeout
        await_ready(self, bit, &deadline)


def call(socket self not None, method):
    """Runs a method of the socket's SSL object that has no arguments."""
    return run(self, self._sslobj, method, None, None)


def read(self, len=1024, buffer=None):
    """SSLSocket.read, cooperative."""
    tls = self._sslobj
    if tls is None:
        raise ValueError("Read on closed or unwrapped SSL socket.")
    try:
        return run(self, tls, tls.read, len, buffer)
    except ssl_error as error:
        if error.args[0] == eof and self.suppress_ragged_eofs:
            return b"" if buffer is None else 0
        raise


def write(self, data):
    """SSLSocket.write, cooperative."""
    tls = self._sslobj
    if tls is None:
        raise ValueError("Write on closed or unwrapped SSL socket.")
    return run(self, tls, tls.write, data, None)


def recv(self, buflen=1024, flags=0):
    """SSLSocket.recv, cooperative."""
    if self._sslobj is None:
        return plain_recv(self, buflen, flags)
    if flags != 0:
        raise ValueError(f"non-zero flags not allowed in calls to recv() on {self.__class__}")
    return read(self, buflen)


def send(self, data, flags=0):
    """SSLSocket.send, cooperative."""
    tls = self._sslobj
    if tls is None:
        return plain_send(self, data, flags)
    if flags != 0:
        raise ValueError(f"non-zero flags not allowed in calls to send() on {self.__class__}")
    return run(self, tls, tls.write, data, None)
