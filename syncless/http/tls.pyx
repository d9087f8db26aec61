"""TLS between a connection and its socket: the standard library's SSLObject over two memory buffers.

Takes ciphertext from the socket and gives plain bytes, and the other way round, without ever waiting: a
caller that wants to wait asks the loop. Knows nothing of HTTP. Certificates and their choice by name: tls.py.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EAGAIN, EINTR, EPIPE, errno
from libc.string cimport memcpy

from syncless._core.calls.portable cimport MSG_NOSIGNAL

cdef extern from *:
    """
    #include <sys/types.h>
    #include <sys/socket.h>
    #define syncless_set_errno(number) (errno = (number))
    """
    void errno_is "syncless_set_errno" (int number) nogil
    int MSG_DONTWAIT
    ssize_t recv(int fd, void* data, size_t size, int flags) nogil
    ssize_t send(int fd, const void* data, size_t size, int flags) nogil

cdef extern from "Python.h":
    int PyBUF_WRITE

cdef enum:
    RECORD = 16384          # bytes of plain text in a TLS record, at most
    AT_ONCE = 65536         # encrypted before the client is asked to take them

# imported by the first connection: a server without TLS need not have it
cdef object ssl = None
cdef object SSLWantReadError = None


cdef class TlsLayer:
    """One connection's TLS. `context` is an ssl.SSLContext for servers."""

    def __init__(self, context not None):
        global ssl, SSLWantReadError
        if ssl is None:
            import ssl as module
            ssl, SSLWantReadError = module, module.SSLWantReadError
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.ssl = context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    cdef int feed(self, const char* data, Py_ssize_t size) except -1:
        """Ciphertext that was received before the layer was there."""
        self.incoming.write(PyBytes_FromStringAndSize(data, size))
        return 0

    cdef int handshake(self, int fd) except -2:
        """Goes on as far as it can: READY, WANTS_READ, WANTS_WRITE, FAILED."""
        cdef Py_ssize_t n
        cdef int pushed
        if self.at_work:
            return WANTS_READ
        while True:
            self.at_work = True
            try:
                self.ssl.do_handshake()
                done = True
            except SSLWantReadError:
                done = False
            # ssl.SSLError is an OSError; the alert that says why is still to be sent
            except (OSError, ValueError):
                self.at_work = False
                self.push(fd)
                return FAILED
            self.at_work = False
            pushed = self.push(fd)
            if pushed < 0:
                return FAILED
            if done:
                self.describe()
                return READY
            if pushed == 0:
                return WANTS_WRITE
            n = self.fill(fd, True)
            if n < 0:
                return WANTS_READ
            if n == 0:
                return FAILED

    cdef int describe(self) except -1:
        cipher = self.ssl.cipher()
        self.variables = {
            "HTTPS": "on",
            "SSL_PROTOCOL": self.ssl.version() or "",
            "SSL_CIPHER": cipher[0] if cipher else "",
        }
        certificate = self.ssl.getpeercert(True)
        if certificate is not None:
            self.variables["SSL_CLIENT_CERT"] = ssl.DER_cert_to_PEM_cert(certificate)
            verified = self.ssl.getpeercert()
            self.variables["SSL_CLIENT_VERIFY"] = "SUCCESS" if verified else "GENEROUS"
            self.variables["SSL_CLIENT_S_DN"] = ",".join(
                f"{key}={value}" for names in (verified or {}).get("subject", ()) for key, value in names)
        return 0

    cdef Py_ssize_t fill(self, int fd, bint peer_shutdown) except -2:
        """Moves ciphertext from the socket to `incoming`: bytes, 0 at the end, -1 when there is none now."""
        cdef char room[RECORD]
        cdef ssize_t n
        if self.closed:
            return 0
        if self.drained and not peer_shutdown:
            return -1
        while True:
            n = recv(fd, room, RECORD, MSG_DONTWAIT)
            if n > 0:
                self.drained = n < RECORD
                self.incoming.write(PyBytes_FromStringAndSize(room, n))
                return n
            if n == 0:
                return 0
            if errno == EAGAIN:
                self.drained = True
                return -1
            if errno != EINTR:
                return 0

    cdef Py_ssize_t receive(self, int fd, char* into, size_t room, bint peer_shutdown) except -2:
        """Plain bytes; 0 at the end, orderly or not; -1 when there are none now."""
        cdef Py_ssize_t n
        if self.at_work:
            return -1
        while True:
            if self.incoming.pending or self.ssl.pending():
                self.at_work = True
                try:
                    n = self.ssl.read(room, PyMemoryView_FromMemory(into, room, PyBUF_WRITE))
                    return n
                except SSLWantReadError:
                    pass
                except (OSError, ValueError):       # the client's close_notify, or bytes that are no TLS
                    return 0
                finally:
                    self.at_work = False
                    if self.outgoing.pending:       # an alert, or the answer to a key update
                        self.push(fd)
            n = self.fill(fd, peer_shutdown)
            if n <= 0:
                return n

    cdef int push(self, int fd) except -2:
        """Sends ciphertext: 1 when all of it is gone, 0 when the client has to take some first, -1 when it is
        gone."""
        cdef ssize_t n
        while True:
            if self.closed:
                return -1
            if self.unsent is None:
                if not self.outgoing.pending:
                    return 1
                self.unsent = self.outgoing.read()
                self.unsent_from = 0
            n = send(fd, PyBytes_AS_STRING(self.unsent) + self.unsent_from,
                PyBytes_GET_SIZE(self.unsent) - self.unsent_from,
                     MSG_DONTWAIT | MSG_NOSIGNAL)
            if n < 0:
                if errno == EINTR:
                    continue
                return 0 if errno == EAGAIN else -1
            self.unsent_from += n
            if self.unsent_from == PyBytes_GET_SIZE(self.unsent):
                self.unsent = None

    cdef Py_ssize_t send(self, int fd, const char* a, size_t na, const char* b, size_t nb) except -2:
        """As send(2) of a and then b: how many plain bytes were taken; -1 with errno. Bytes that
        were taken may still have to be pushed."""
        cdef size_t n
        cdef bytes plain                            # a copy: the buffers may be gone when Python code has run
        cdef int pushed = 0 if self.at_work else self.push(fd)
        if pushed <= 0:
            errno_is(EPIPE if pushed < 0 else EAGAIN)
            return -1
        if na and nb and na + nb <= RECORD:         # head and body in one record
            plain = PyBytes_FromStringAndSize(NULL, na + nb)
            memcpy(PyBytes_AS_STRING(plain), a, na)
            memcpy(PyBytes_AS_STRING(plain) + na, b, nb)
        else:
            if na == 0:
                a = b
                na = nb
            plain = PyBytes_FromStringAndSize(a, na if na < AT_ONCE else AT_ONCE)
        self.at_work = True
        try:
            n = self.ssl.write(plain)
        except (OSError, ValueError):
            errno_is(EPIPE)
            return -1
        finally:
            self.at_work = False
        if self.push(fd) < 0:
            errno_is(EPIPE)
            return -1
        return n

    cdef int goodbye(self, int fd) except -1:
        """Says that no more will be sent (close_notify), as far as the client takes it without waiting."""
        if self.said_goodbye or self.at_work:
            return 0
        self.said_goodbye = True
        self.at_work = True
        try:
            self.ssl.unwrap()
        except (OSError, ValueError):               # it would wait for the client's own
            pass
        finally:
            self.at_work = False
        self.push(fd)
        return 0
