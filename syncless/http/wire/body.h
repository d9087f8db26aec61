/* The states of a request body, whatever its framing (RFC 9112, 6 and 7). The manual of body.c. */

#ifndef SYNCLESS_BODY_H
#define SYNCLESS_BODY_H

#include "wire.h"

struct framing {
    int64_t left;               /* bytes of the body or chunk; < 0: see enum */
    int64_t size;               /* bytes of the body up to now */
    char chunked, ended;
};

enum { BEHIND_DATA = -1, IN_TRAILERS = -2 };    /* framing.left: in front of the CRLF of a chunk, and so on */

/* `length`: Content-Length, or -1. */
static inline void body_begin(struct framing *framing, int chunked, int64_t length) {
    framing->size = 0;
    framing->chunked = (char)chunked;
    framing->left = chunked || length < 0 ? 0 : length;
    framing->ended = !chunked && !framing->left;
}

/* The first `n` of the bytes that are left have been taken. */
static inline void body_take(struct framing *framing, int64_t n) {
    framing->left -= n;
    framing->size += n;
    if (!framing->left && framing->chunked)
        framing->left = BEHIND_DATA;
    else if (!framing->left)
        framing->ended = 1;
}

/* Reads on where no bytes are left, a step towards the next chunk's data or the end of the body: to be called
   again until `left` > 0 or `ended`. > 0: bytes that are read; none of them is the body's. 0: it needs more.
   < 0: minus the reason to refuse it for. */
long body_line(struct framing *framing, const struct limits *limits, const char *data,
               size_t size);

/* The next piece. > 0: bytes that have been read; the first *piece of them, all or none, are the body's.
   0 and < 0: as body_line(). */
static inline long body_next(struct framing *framing, const struct limits *limits, const char *data,
                             size_t size, size_t *piece) {
    *piece = 0;
    if (framing->left <= 0)
        return body_line(framing, limits, data, size);
    *piece = (int64_t)size < framing->left ? size : (size_t)framing->left;
    body_take(framing, *piece);
    return (long)*piece;
}

#endif
