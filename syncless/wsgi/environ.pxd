from syncless.http.requestheads cimport RequestHeads
from syncless.http.scanner cimport head


cdef class EnvironMaker:
    cdef readonly dict template         # the keys that all requests of a server share
    cdef RequestHeads heads                    # where copies of environs are kept
    cdef list keys                      # environ keys of the known names, by index
    cdef char forwarding[256]           # whether only a trusted peer may send the known name
    cdef list last                      # the last value of each known name: clients repeat themselves
    cdef object last_path_raw
    cdef str last_path
    cdef str last_query

    cdef dict make(self, const char* data, head* found, int fd, object remote_addr, int remote_port,
        bint trusted)
    cdef dict fields(self, const char* data, head* found, bint trusted)
    cdef str path(self, const char* raw, Py_ssize_t size, bint escaped)
