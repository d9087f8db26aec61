"""Methods of ssl.SSLSocket that park the tasklet while the SSL object waits for the other side.

The SSL object looks at the descriptor's own mode and at the socket's timeout. So the descriptor is made
non-blocking, once for each object, and the timeout field says 0 while it is called; the socket's timeout
holds for the waiting here.
"""

import os
import ssl

from cpython.exc cimport PyErr_Clear, PyErr_ExceptionMatches, PyErr_Fetch, PyErr_Restore
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int64_t

from syncless._core.calls.sockets cimport UNKNOWN, await_ready, begin
from syncless._core.cpython.layouts cimport socket
from syncless._core.current cimport take_turns
from syncless._core.poll.poller cimport READ, WRITE

from syncless._core.calls import sockets

cdef extern from "Python.h":
    PyObject* PyObject_VectorcallMethod(object name, PyObject** arguments, size_t count, PyObject* names)

cdef object want_read = ssl.SSLWantReadError
cdef object want_write = ssl.SSLWantWriteError
cdef object ssl_error = ssl.SSLError
cdef object eof = ssl.SSL_ERROR_EOF
cdef object set_blocking = os.set_blocking
cdef object plain_recv = sockets.recv
cdef object plain_send = sockets.send


cdef object run(socket self, dict members, object tls, object method, object first=None, object second=None):
    """tls.<method>(first, second) as long as it takes; None stands for no argument."""
    cdef int64_t deadline = UNKNOWN
    cdef long long timeout = self.sock_timeout
    cdef PyObject* result
    cdef PyObject** arguments = [<PyObject*> tls, <PyObject*> first, <PyObject*> second]
    cdef size_t count = 1 if first is None else 2 if second is None else 3
    cdef int bit
    if members.get("_never_blocks") is not tls:
        set_blocking(self.sock_fd, False)
        members["_never_blocks"] = tls
    begin(self, 0)
    while True:
        self.sock_timeout = 0
        result = PyObject_VectorcallMethod(method, arguments, count, NULL)
        self.sock_timeout = timeout
        if result != NULL:
            found = <object> result
            Py_DECREF(found)
            return found
        bit = must_wait_for(timeout)
        await_ready(self, bit, &deadline)


cdef int must_wait_for(long long timeout) except -1:
    """The direction that the SSL object waits for, taken from the exception that is set; any other exception
    is raised."""
    cdef int bit
    if PyErr_ExceptionMatches(want_read):
        bit = READ
    elif PyErr_ExceptionMatches(want_write):
        bit = WRITE
    else:
        return -1
    if timeout == 0:
        return let_others_and_raise()
    PyErr_Clear()
    return bit


cdef int let_others_and_raise() except -1:
    """A loop around a socket that never waits must not starve the others."""
    cdef PyObject* kind
    cdef PyObject* value
    cdef PyObject* trace
    PyErr_Fetch(&kind, &value, &trace)
    take_turns()
    PyErr_Restore(kind, value, trace)
    return -1


def call(socket self not None, str method):
    """Run a method of the socket's SSL object that has no arguments."""
    return run(self, self.__dict__, self._sslobj, method)


cdef object reading(socket self, dict members, object tls, object size, object buffer):
    try:
        return run(self, members, tls, "read", size, buffer)
    except ssl_error as error:
        if error.args[0] == eof and self.suppress_ragged_eofs:
            return b"" if buffer is None else 0
        raise


def read(self, len=1024, buffer=None):
    """SSLSocket.read, cooperative."""
    cdef dict members = self.__dict__
    tls = members.get("_sslobj")
    if tls is None:
        raise ValueError("Read on closed or unwrapped SSL socket.")
    return reading(self, members, tls, len, buffer)


def write(self, data):
    """SSLSocket.write, cooperative."""
    cdef dict members = self.__dict__
    tls = members.get("_sslobj")
    if tls is None:
        raise ValueError("Write on closed or unwrapped SSL socket.")
    return run(self, members, tls, "write", data)


def recv(self, buflen=1024, flags=0):
    """SSLSocket.recv, cooperative."""
    cdef dict members = self.__dict__
    tls = members.get("_sslobj")
    if tls is None:
        return plain_recv(self, buflen, flags)
    if flags != 0:
        raise ValueError(f"non-zero flags not allowed in calls to recv() on {self.__class__}")
    return reading(self, members, tls, buflen, None)


def send(self, data, flags=0):
    """SSLSocket.send, cooperative."""
    cdef dict members = self.__dict__
    tls = members.get("_sslobj")
    if tls is None:
        return plain_send(self, data, flags)
    if flags != 0:
        raise ValueError(f"non-zero flags not allowed in calls to send() on {self.__class__}")
    return run(self, members, tls, "write", data)
