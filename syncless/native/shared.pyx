"""Shared: an application and native handlers, which have a connection in turn.

The connection of a request for a native handler goes back to its thread, with all bytes that have come. A
request that a thread has handed over is the application's, whatever its route: a handler may have passed it
on.
"""

from syncless._core.loop cimport Loop
from syncless.http.application cimport Application
from syncless.http.exchange cimport Exchange
from syncless.http.peer cimport Origin
from syncless.http.wire cimport head
from syncless.http.stream cimport Stream
from syncless.native.threads cimport Threads


cdef class Shared(Application):
    """Shared(application, threads), of the next socket on which the threads accept."""
    cdef Application inner
    cdef Threads threads
    cdef int listener           # index of that socket

    def __init__(self, Application inner not None, Threads threads not None):
        self.inner = inner
        self.threads = threads
        self.listener = threads.core.listener_count
        self.heads = inner.heads

    cdef Exchange exchange(self, const Origin* origin, const char* data, head* found):
        if self.threads.wants(origin.stream.fd, data, found):
            return None
        return self.inner.exchange(origin, data, found)

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        return self.inner.take_back(exchange, fd)

    cdef int pass_on(self, Loop loop, const Origin* origin) except -1:
        cdef Stream* stream = origin.stream
        cdef int fd = stream.fd
        self.heads.forget(fd)                   # as closing would
        loop.fds.entry(fd).watcher = NULL
        loop.fds.disarm_after_wait(fd)          # nobody else waits for it
        self.threads.send(
            fd % self.threads.core.thread_count, fd, self.listener, <str> origin.address, origin.port,
            stream.inbox.data + stream.inbox_start, stream.inbox.size - stream.inbox_start)
        stream.fd = -1                          # a thread closes it
        return 0

    def close(self) -> None:
        self.inner.close()
