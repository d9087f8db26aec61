"""From a request head to the scope of an ASGI application. See application.pyx."""

from libc.stdint cimport int64_t, uint64_t

from syncless.apps.asgi.exchange cimport ASGIExchange
from syncless.http.exchange cimport Application, Exchange
from syncless.http.peer cimport Incoming
from syncless.http.requestheads cimport RequestHeads
from syncless.http.wire.wire cimport head


cdef class ScopeMaker:
    cdef RequestHeads heads             # where copies of scopes are kept
    cdef dict template                  # the entries that all requests of a listener share
    cdef dict extensions
    cdef list names                     # of the known fields, by index
    cdef char forwarding[256]           # 1: only a trusted peer may send the known field, 2: nobody may
    cdef object forward                 # None, or called with a trusted peer's request
    cdef bytes last_raw_path
    cdef str last_path

    cdef dict make(self, const Incoming* incoming)
    cdef list fields(self, const char* data, const head* found, bint trusted)
    cdef int set_path(self, dict scope, const char* data, const head* found) except -1


cdef class KeptScope:
    """The scope of a head that is remembered, as the application gets it."""
    cdef dict scope
    cdef list fields                # the scope's own, and
    cdef list before                # the same, which nobody changes
    cdef dict extensions            # the scope's own
    cdef dict state                 # the same, or None
    cdef dict tls                   # of the extensions, or None
    cdef int64_t serial             # of the head
    cdef uint64_t scope_version
    cdef uint64_t parts_version
    cdef uint64_t source_version    # of the dict of which `state` is a copy

    cdef int fill(self, dict scope, list before, int64_t serial) except -1
    cdef uint64_t version_of_parts(self) noexcept
    cdef bint is_untouched(self) noexcept


cdef class ASGIApplication(Application):
    cdef bint websockets            # whether the library for them is installed
    cdef object call                # the application itself
    cdef object tasks
    cdef object loop                # asyncio's
    cdef dict state                 # None, or what its lifespan has left for all requests
    cdef ScopeMaker scopes
    cdef object limits

    cdef KeptScope kept(self, dict scope, int fd, int64_t serial)
    cdef Exchange websocket(self, dict scope, const Incoming* incoming)
