from cpython.object cimport PyObject

from syncless.wsgi._head cimport head


cdef class EnvironMaker:
    cdef readonly dict template         # what is the same for every request of a server
    cdef list keys                      # environ keys of the known names, by index
    cdef list last                      # the last value of each known name: clients repeat themselves
    cdef object last_path_raw
    cdef str last_path
    cdef str last_query
    cdef dict make(self, const char* data, head* found, object remote_addr, object remote_port, object input)
    cdef str path(self, const char* raw, Py_ssize_t size, bint escaped)
