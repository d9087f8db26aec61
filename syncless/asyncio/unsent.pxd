"""The table of contents of unsent.pyx."""


cdef class Unsent:
    cdef list parts                 # bytes objects; those before `first` have been sent
    cdef Py_ssize_t first
    cdef Py_ssize_t skip            # bytes of parts[first] that have been sent
    cdef readonly Py_ssize_t size   # bytes that have not

    cdef int put(self, object data, Py_ssize_t sent) except -1
    cdef int transmit(self, int fd) except -1
    cdef int drop(self, Py_ssize_t sent) except -1
    cdef int clear(self) except -1
