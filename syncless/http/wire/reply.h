/* How a response is framed, and the fields that say so (RFC 9112, 6 and 9; RFC 9110, 6.6.1). The manual of
   reply.c. Both servers write their heads themselves, in an order of their own. */

#ifndef SYNCLESS_REPLY_H
#define SYNCLESS_REPLY_H

#include "wire.h"

enum framing_of_reply {         /* how the client finds the end of the body */
    NO_BODY,                    /* there is none */
    BY_LENGTH,                  /* Content-Length */
    CHUNKED,
    BY_CLOSE,                   /* the connection ends */
};

struct reply {
    int64_t length;             /* Content-Length to tell, or -1 */
    char framing;
};

/* RFC 9112, 6.3. `length`: of the body, or -1; `declared`: by the application, which may know of a body that
   is not sent. */
static inline struct reply reply_frame(int status, int minor, int head_only, int64_t length,
                                       int declared) {
    int without_length = status == 204 || status == 304;
    struct reply reply;
    if (status == 205)
        length = 0;             /* RFC 9110, 15.3.6 */
    reply.length = without_length || (head_only && !declared && !length) ? -1 : length;
    reply.framing = without_length || head_only || status == 205 ? NO_BODY
                  : length >= 0 ? BY_LENGTH : minor ? CHUNKED : BY_CLOSE;
    return reply;
}

enum { REPLY_FRAMING = 96, REPLY_CHUNK = 24, REPLY_DATE = 30, REPLY_DATES = 64, REPLY_REFUSAL = 192 };

#define REPLY_CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"
#define REPLY_LAST_CHUNK "0\r\n\r\n"

/* Each of these writes to `into`, which has room for as many bytes as the constant of its name says, and
   returns how many bytes it has written. */

/* The fields of the framing and the end of the head. `length`: to be told here, or -1. */
size_t reply_framing(char *into, int64_t length, int chunked, int minor, int closes);

/* The line before a chunk. */
size_t reply_chunk(char *into, size_t size);

/* A time, in seconds since 1970, as in RFC 9110, 5.6.7. */
size_t reply_date(char *into, int64_t seconds);

/* The Server and Date fields. */
size_t reply_dates(char *into, int64_t seconds);

/* The other fields of a refusal, with the end of the head. `retry` seconds, or -1. */
size_t reply_refusal(char *into, size_t body_size, int64_t retry);

#endif
