/* Native handlers: functions that answer HTTP requests in threads of the server, without the interpreter's
   lock.

   A handler takes a request and a response, and returns SYNCLESS_DONE, or SYNCLESS_PASS to leave the
   request to the Python application. Any other number is an error: the client gets a 500. A handler is
   called in several threads at once. While it runs, all other connections of its thread wait, so it must
   not block. It must not call the interpreter.

       static int hello(syncless_request *request, syncless_response *response) {
           return syncless_respond(response, 200, "text/plain", "Hello, World!", 13);
       }
       SYNCLESS_LIBRARY                                 (once in each library that is loaded by its path)

   All that a request points to, and all that syncless_alloc() gives, is valid until the response is made,
   just after the handler has returned. Its stack is gone by then: no response points there. Bodies are
   copied, or sent before that memory is used again, unless a function says otherwise.

   A request that is not answered at once is answered in steps, see syncless_begin().

   This header needs no library to link with: the functions that are not here are in a table that each
   request and response points to. Structs and table are one version of an interface, SYNCLESS_NATIVE_ABI. A
   handler of another version is refused when it is registered. */

#ifndef SYNCLESS_NATIVE_H
#define SYNCLESS_NATIVE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYNCLESS_NATIVE_ABI 2

/* The results of handlers. The last three are for requests that are answered in steps. */
enum {
    SYNCLESS_DONE = 0,          /* the response is complete */
    SYNCLESS_PASS = 1,          /* the Python application is to answer */
    SYNCLESS_READ = 2,          /* the step is to be called with the next piece of the body */
    SYNCLESS_WRITE = 3,         /* when the client takes more */
    SYNCLESS_WAIT = 4           /* after a time, see syncless_wait() */
};

typedef struct syncless_bytes {
    const char *data;
    size_t size;
} syncless_bytes;

typedef struct syncless_request syncless_request;
typedef struct syncless_response syncless_response;

typedef int (*syncless_handler)(syncless_request *request, syncless_response *response);
typedef int (*syncless_step)(syncless_request *request, syncless_response *response, void *state);

/* The functions of the server. Those that find something return 1, or 0 and leave the result alone. Those
   that build a response return 0, or -1 if that is not possible: a handler that returns the -1 answers with
   a 500. */
struct syncless_calls {
    uint32_t abi;
    uint32_t size;                      /* bytes of this table */
    int (*parameter)(const syncless_request *, const char *name, size_t size, syncless_bytes *found);
    int (*field)(const syncless_request *, const char *name, size_t size, syncless_bytes *found);
    int (*field_at)(const syncless_request *, size_t index, syncless_bytes *name, syncless_bytes *value);
    int (*client)(syncless_request *, syncless_bytes *address);
    int (*published)(const syncless_request *, const char *name, size_t size, syncless_bytes *found);
    void *(*alloc)(syncless_request *, size_t size);
    int (*add_field)(syncless_response *, const char *name, size_t name_size, const char *value,
                     size_t value_size);
    int (*append)(syncless_response *, const char *data, size_t size);
    int (*append_format)(syncless_response *, const char *format, va_list values);
    int (*send_file)(syncless_response *, int fd, int64_t offset, int64_t size, int close_it);
    int (*respond)(syncless_response *, int status, const char *type, size_t type_size, const char *body,
                   size_t body_size, int permanent);
    int (*begin)(syncless_response *, syncless_step step, void *state, void (*release)(void *));
};

struct syncless_request {
    const struct syncless_calls *calls;
    void *context;                      /* of the handler, given when it was registered */
    syncless_bytes method;
    syncless_bytes path;                /* percent-decoded */
    syncless_bytes query;               /* as it came, without the question mark */
    syncless_bytes target;              /* as it came */
    syncless_bytes body;                /* all of it, whatever its framing; of a step: the next piece */
    int32_t minor;                      /* of HTTP/1.minor */
    int32_t field_count;                /* those that are not shown included: see syncless_field_at() */
};

struct syncless_response {
    const struct syncless_calls *calls;
    int32_t status;                     /* 0: 200 */
    int32_t permanent;                  /* the body's memory never changes and is never freed */
    syncless_bytes type;                /* Content-Type; size 0: none */
    syncless_bytes body;
    int64_t length;                     /* of all pieces; -1: not known; see syncless_set_length() */
    int64_t wait_ms;                    /* see syncless_wait() */
};

/* -- reading the request -------------------------------------------------------------------------------- */

/* The part of the path that stands in the place of {name} in the route. */
static inline int syncless_parameter(const syncless_request *request, const char *name,
                                     syncless_bytes *found) {
    return request->calls->parameter(request, name, strlen(name), found);
}

/* The value of the first header field of that name, whatever its case. Host is that of an absolute target.
   Only what an application would see is found. Not seen are `Proxy`; names with `_`, which a proxy may take
   for the same with `-`; and `Forwarded`, `X-Forwarded-*` and `X-Real-IP`, but for trusted fields of trusted
   proxies. */
static inline int syncless_field(const syncless_request *request, const char *name, syncless_bytes *found) {
    return request->calls->field(request, name, strlen(name), found);
}

/* The fields that syncless_field() finds in their order, as they came; 0 after the last, which comes at an
   index of field_count or earlier. */
static inline int syncless_field_at(const syncless_request *request, size_t index, syncless_bytes *name,
                                    syncless_bytes *value) {
    return request->calls->field_at(request, index, name, value);
}

/* The client's address as text; empty for a UNIX socket. */
static inline int syncless_client(syncless_request *request, syncless_bytes *address) {
    return request->calls->client(request, address);
}

/* The bytes that Python code has published under that name last; see syncless.native.publish(). */
static inline int syncless_published(const syncless_request *request, const char *name,
                                     syncless_bytes *found) {
    return request->calls->published(request, name, strlen(name), found);
}

/* Memory until the response is made; NULL if there is none. */
static inline void *syncless_alloc(syncless_request *request, size_t size) {
    return request->calls->alloc(request, size);
}

/* -- building the response ------------------------------------------------------------------------------ */

/* Content-Length, Date, Server and the hop-by-hop fields are the server's and refused here, as are names and
   values that would break the head. Upgrade is taken once the response's status is 426. */
static inline int syncless_add_field(syncless_response *response, const char *name, const char *value) {
    return response->calls->add_field(response, name, strlen(name), value, strlen(value));
}

/* A whole response, whose body may change once it is made. */
static inline int syncless_respond(syncless_response *response, int status, const char *type,
                                   const char *body, size_t size) {
    response->status = status;
    response->permanent = 0;
    response->type.data = type;
    response->type.size = type ? strlen(type) : 0;
    response->body.data = body;
    response->body.size = size;
    return SYNCLESS_DONE;
}

/* A whole response, whose body is never changed nor freed, such as a literal: it is not copied. */
static inline int syncless_respond_static(syncless_response *response, int status, const char *type,
                                          const char *body, size_t size) {
    syncless_respond(response, status, type, body, size);
    response->permanent = 1;
    return SYNCLESS_DONE;
}

/* The next piece of the body. */
static inline int syncless_append(syncless_response *response, const char *data, size_t size) {
    return response->calls->append(response, data, size);
}

/* As printf(), at the end of the body. */
#ifdef __GNUC__
__attribute__((format(printf, 2, 3)))
#endif
static inline int
syncless_append_format(syncless_response *response, const char *format, ...) {
    va_list values;
    int result;
    va_start(values, format);
    result = response->calls->append_format(response, format, values);
    va_end(values);
    return result;
}

/* The body is a part of a file and nothing else: with appended bytes, too, the response is a fault. With
   `close_it` the descriptor is the server's from now on, and closed when the part is sent or cannot be. */
static inline int syncless_send_file(syncless_response *response, int fd, int64_t offset, int64_t size,
                                     int close_it) {
    return response->calls->send_file(response, fd, offset, size, close_it);
}

/* -- in steps ------------------------------------------------------------------------------------------- */

/* `step` is called with `state` instead of the handler from now on, always in the same thread:

   - after SYNCLESS_READ with the next piece of the body, request->body, which is empty at the end of the body
     and then only. A handler that is registered for pieces is called when the head has come, and reads a body
     of any size this way. For any other handler the body is request->body as a whole, and the first piece is
     the empty one.
   - after SYNCLESS_WRITE when the client can take more
   - after syncless_wait() when that time is over

   Each step may add a piece to the response: syncless_append(), or the body of syncless_respond(). Status and
   fields are those of the step that adds the first piece or returns SYNCLESS_WRITE or SYNCLESS_WAIT first.
   SYNCLESS_DONE ends the response; without a piece before, it is an ordinary one. If a step fails when a part
   of the response is out, the connection is cut off.

   `release` (or NULL) is called with `state` once, at the end of the request or of its connection. Where the
   call is not possible it is called at once, and the result is -1. */
static inline int syncless_begin(syncless_response *response, syncless_step step, void *state,
                                 void (*release)(void *)) {
    return response->calls->begin(response, step, state, release);
}

/* The bytes of all pieces together, told before the first one: they get a Content-Length. Without it they are
   chunks, or end with the connection in HTTP/1.0. */
static inline void syncless_set_length(syncless_response *response, int64_t length) {
    response->length = length;
}

/* return syncless_wait(response, 1000): the next step comes a second later. */
static inline int syncless_wait(syncless_response *response, int64_t milliseconds) {
    response->wait_ms = milliseconds < 0 ? 0 : milliseconds < INT32_MAX ? milliseconds : INT32_MAX;
    return SYNCLESS_WAIT;
}

/* -- registering it ------------------------------------------------------------------------------------- */

/* A PyCapsule with the name "syncless.native.handler" points to one of these. */
typedef struct syncless_registration {
    uint32_t abi;                       /* SYNCLESS_NATIVE_ABI */
    uint32_t pieces;                    /* 1: it reads bodies in steps, see syncless_begin() */
    syncless_handler handler;
    void *context;                      /* becomes request->context */
} syncless_registration;

#define SYNCLESS_CAPSULE "syncless.native.handler"

/* The version of the interface that a library was compiled with, for syncless.native.load(). */
#define SYNCLESS_LIBRARY const uint32_t syncless_native_abi = SYNCLESS_NATIVE_ABI;

#ifdef __cplusplus
}
#endif
#endif
