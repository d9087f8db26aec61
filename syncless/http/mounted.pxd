from syncless.http.application cimport Application
from syncless.http.wire cimport head


cdef class MountedApplications(Application):
    cdef list prefixes              # bytes without the slash at the end, the longest first
    cdef list applications          # of the prefixes, then of the pages
    cdef dict pages                 # path -> index of its application

    cdef int choose(self, const char* data, head* found) except -1
