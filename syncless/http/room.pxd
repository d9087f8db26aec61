from syncless.http.listener cimport Listener

cdef bint make_room(Listener listener) except -1
