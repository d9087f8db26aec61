"""A request as everything but its application sees it. See request.pyx."""

from cpython.object cimport PyObject

from syncless.http.wire.wire cimport head

cdef enum:
    REFUSED_BYTES = 2048        # of refused bytes that are looked at

cdef enum Part:
    METHOD
    ROOT_PATH           # the part of the path below which the application lies
    PATH                # the rest
    QUERY
    VERSION             # HTTP/1.1
    SCHEME              # http or https
    HOST                # the Host field
    CLIENT              # address; "" for a UNIX socket
    CLIENT_PORT         # "" if it is not known
    LOCAL_NAME
    LOCAL_PORT
    USER
    IDENT
    UNREAD_LINE         # in place of all but the client: the first line of bytes that are no request
    PARTS


cdef class Request:
    # Where its parts and fields lie in a dict: a line of the access log takes them from there without a call.
    cdef dict values
    cdef PyObject** keys        # of the parts, by number; NULL: they lie elsewhere
    cdef PyObject** field_keys  # of the known fields
    cdef object part(self, Part part)
    cdef int change(self, Part part, object value) except -1
    cdef object get(self, str name, int known)
    cdef list fields(self)
    cdef object variable(self, str name)
    cpdef dict variables(self)


cdef class HeadRequest(Request):
    cdef bytes data
    cdef head found
    cdef dict parts             # those that are not in the bytes
    cdef object keeps           # None, or whether a field in which a proxy speaks of its client counts
