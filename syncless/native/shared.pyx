"""Shared: an application and native handlers, which have a connection in turn.

The connection of a request for a native handler goes back to its thread, with all bytes that have come. A
request that a thread has handed over is the application's, whatever its route: a handler may have passed it
on.
"""

from posix.unistd cimport close as os_close
from posix.unistd cimport dup

from syncless._core.loop cimport Loop
from syncless.http.application cimport Application
from syncless.http.exchange cimport Exchange
from syncless.http.peer cimport Origin
from syncless.http.scanner cimport head
from syncless.http.stream cimport Stream
from syncless.native.threads cimport Threads


cdef class Shared(Application):
    """Shared(application, threads)."""
    cdef Application inner
    cdef Threads threads

    def __init__(self, Application inner not None, Threads threads not None):
        self.inner = inner
        self.threads = threads
        self.heads = inner.heads

    cdef Exchange exchange(self, const Origin* origin, const char* data, head* found):
        if self.threads.wants(origin.stream.fd, data, found):
            return None
        return self.inner.exchange(origin, data, found)

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        return self.inner.take_back(exchange, fd)

    cdef int pass_on(self, Loop loop, const Origin* origin) except -1:
        cdef Stream* stream = origin.stream
        cdef int fd = dup(stream.fd)            # the connection closes its own
        loop.fds.entry(stream.fd).watcher = NULL
        loop.fds.disarm_after_wait(stream.fd)   # closing does not, while there is another descriptor
        if fd < 0:
            return 0
        try:
            self.threads.send(
                fd % self.threads.core.thread_count, fd, <str> origin.address, origin.port,
                stream.inbox.data + stream.inbox_start, stream.inbox.size - stream.inbox_start)
        except BaseException:
            os_close(fd)
            raise
        return 0

    def close(self) -> None:
        self.inner.close()
