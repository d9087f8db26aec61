cdef extern from "syncless/native.h" nogil:
    ctypedef int (*syncless_handler)(void* request, void* response)
    struct syncless_registration:
        unsigned abi, pieces
        syncless_handler handler
        void* context
    enum: SYNCLESS_NATIVE_ABI
    const char* SYNCLESS_CAPSULE


cdef class Handler:
    cdef syncless_handler call
    cdef void* context
    cdef readonly bint pieces
    cdef readonly str name
    cdef object kept            # keeps the function alive
    cdef int check(self, unsigned abi) except -1
