"""TlsLayer: the standard library's SSLObject over two memory buffers.

It takes ciphertext from the socket and gives plain bytes, and the other way round. Certificates and their
choice by name: certificates.py.
"""

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
# methods that are called for each request
cdef object read = None
cdef object write = None
cdef object take_ciphertext = None
cdef object put_ciphertext = None

# the memory that was read into last, which is the same most of the time
cdef object window = None
cdef char* window_start = NULL
cdef size_t window_size = 0


cdef object window_on(char* start, size_t size):
    global window, window_start, window_size
    if window is None or window_start != start or window_size != size:
        window = PyMemoryView_FromMemory(start, size, PyBUF_WRITE)
        window_start, window_size = start, size
    return window


cdef class TlsLayer:
    """One connection's TLS. `context` is an ssl.SSLContext for servers."""

    def __init__(self, context not None):
        global ssl, SSLWantReadError, read, write, take_ciphertext, put_ciphertext
        if ssl is None:
            import ssl as module
            ssl, SSLWantReadError = module, module.SSLWantReadError
            take_ciphertext, put_ciphertext = ssl.MemoryBIO.read, ssl.MemoryBIO.write
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.ssl = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.calls = self.ssl._sslobj
        if read is None:
            read, write = type(self.calls).read, type(self.calls).write
        self.described = {}

    cdef int feed(self, const char* data, Py_ssize_t size) except -1:
        """Ciphertext that was received before the layer was there."""
        put_ciphertext(self.incoming, PyBytes_FromStringAndSize(data, size))
        self.held = True
        return 0

    cdef int handshake(self, int fd) except -2:
        """Go on as far as it can: READY, WANTS_READ, WANTS_WRITE, FAILED."""
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
                return READY
            if pushed == 0:
                return WANTS_WRITE
            n = self.fill(fd, True)
            if n < 0:
                return WANTS_READ
            if n == 0:
                return FAILED

    cdef object described_by(self, function):
        """Return the result of the function for the SSLObject after the handshake, which does not change any
        more."""
        made = self.described.get(function)
        if made is None:
            made = self.described[function] = function(self.ssl)
        return made

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
                put_ciphertext(self.incoming, PyBytes_FromStringAndSize(room, n))
                self.held = True
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
        cdef Py_ssize_t n = 0
        if self.at_work:
            return -1
        self.at_work = True                         # also while `incoming` is filled: `into` must stay
        try:
            while True:
                if n > 0 or self.full or self.held and self.incoming.pending:
                    try:
                        n = read(self.calls, room, window_on(into, room))
                        self.full = <size_t> n == room
                        return n
                    except SSLWantReadError:
                        self.full = False
                    except (OSError, ValueError):   # the client's close_notify, or bytes that are no TLS
                        return 0
                    finally:
                        if self.outgoing.pending:   # an alert, or the answer to a key update
                            self.push(fd)
                self.held = False
                n = self.fill(fd, peer_shutdown)
                if n <= 0 or self.closed:
                    return min(n, <Py_ssize_t> 0)
        finally:
            self.at_work = False

    cdef int push(self, int fd) except -2:
        """Send ciphertext: 1 when all of it is gone, 0 when the client has to take some first, -1 when it is
        gone."""
        cdef ssize_t n
        cdef bint empty = False                     # `outgoing`, and no Python code has run since
        while True:
            if self.unsent is None:
                if empty:
                    return -1 if self.closed else 1
                self.unsent = take_ciphertext(self.outgoing)
                self.unsent_from = 0
                empty = True
            if self.closed:                         # Python code has run: the descriptor may be another's
                return -1
            if self.unsent_from == PyBytes_GET_SIZE(self.unsent):
                self.unsent = None
                continue
            n = send(fd, PyBytes_AS_STRING(self.unsent) + self.unsent_from,
                PyBytes_GET_SIZE(self.unsent) - self.unsent_from,
                     MSG_DONTWAIT | MSG_NOSIGNAL)
            if n < 0:
                if errno == EINTR:
                    continue
                return 0 if errno == EAGAIN else -1
            self.unsent_from += n

    cdef int push_on(self, int fd) except -2:
        """As push(). Whatever has put ciphertext into `outgoing` since has pushed it, too."""
        return 1 if self.unsent is None and not self.closed else self.push(fd)

    cdef Py_ssize_t send(self, int fd, const char* a, size_t na, const char* b, size_t nb) except -2:
        """As send(2) of a and then b: how many plain bytes were taken; -1 with errno. Bytes that
        were taken may still have to be pushed. EINTR: Python code has run, so the caller looks again where
        its bytes are."""
        cdef size_t n
        cdef bytes plain                            # a copy: the buffers may be gone when Python code has run
        cdef int pushed = 0
        if self.at_work or self.closed or self.unsent is not None:
            if not self.at_work:
                pushed = self.push(fd)
            errno_is(EPIPE if pushed < 0 else EAGAIN if pushed == 0 else EINTR)
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
            n = write(self.calls, plain)
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
