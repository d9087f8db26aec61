"""Native handlers in Cython. The manual is syncless/native.h, in the directory that get_include() names.

    from syncless.native cimport handler, request, respond, response

    cdef int answer(request* req, response* resp) noexcept nogil:
        return respond(resp, 200, b"text/plain", b"Hello, World!", 13)

    hello = handler(answer)
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

cdef extern from "syncless/native.h" nogil:
    enum:
        SYNCLESS_NATIVE_ABI
    int DONE "SYNCLESS_DONE"            # a handler returns it when the response is complete
    int PASS "SYNCLESS_PASS"            # or when the Python application is to answer
    int READ "SYNCLESS_READ"            # or, of a request in steps, when it wants more of the body
    int WRITE "SYNCLESS_WRITE"          # or to send more
    struct bytes_view "syncless_bytes":
        const char* data
        size_t size
    struct request "syncless_request":
        void* context
        bytes_view method, path, query, target, body
        int32_t minor, field_count
    struct response "syncless_response":
        int32_t status
    ctypedef int (*syncless_handler)(request*, response*) noexcept nogil
    ctypedef int (*syncless_step)(request*, response*, void* state) noexcept nogil
    ctypedef void (*syncless_release)(void* state) noexcept nogil
    struct registration "syncless_registration":
        unsigned abi, pieces
        syncless_handler handler
        void* context
    const char* SYNCLESS_CAPSULE

    int parameter "syncless_parameter" (const request* req, const char* name, bytes_view* found)
    int field "syncless_field" (const request* req, const char* name, bytes_view* found)
    int field_at "syncless_field_at" (const request* req, size_t index, bytes_view* name, bytes_view* value)
    int client "syncless_client" (request* req, bytes_view* address)
    int published "syncless_published" (const request* req, const char* name, bytes_view* found)
    void* alloc "syncless_alloc" (request* req, size_t size)

    int add_field "syncless_add_field" (response* resp, const char* name, const char* value)
    int respond "syncless_respond" (
        response* resp, int status, const char* type, const char* body, size_t size)
    int respond_static "syncless_respond_static" (
        response* resp, int status, const char* type, const char* body, size_t size)
    int append "syncless_append" (response* resp, const char* data, size_t size)
    int append_format "syncless_append_format" (response* resp, const char* format, ...)
    int send_file "syncless_send_file" (response* resp, int fd, int64_t offset, int64_t size, int close_it)

    int begin "syncless_begin" (
        response* resp, syncless_step step, void* state, syncless_release release)
    void set_length "syncless_set_length" (response* resp, int64_t length)
    int wait "syncless_wait" (response* resp, int64_t milliseconds)


cdef inline void _free_registration(object capsule) noexcept:
    free(PyCapsule_GetPointer(capsule, SYNCLESS_CAPSULE))


cdef inline object handler(syncless_handler function, void* context=NULL, bint pieces=False):
    """The handler as a Python object, for the `native` argument of serve(). With `pieces` it reads bodies in
    steps."""
    cdef registration* made = <registration*> malloc(sizeof(registration))
    if made == NULL:
        raise MemoryError
    made.abi = SYNCLESS_NATIVE_ABI
    made.pieces = pieces
    made.handler = function
    made.context = context
    return PyCapsule_New(made, SYNCLESS_CAPSULE, _free_registration)
