/* The lines of a chunked body: sizes with their extensions, and trailers (head.h); its states (body.h). */

#include "body.h"
#include "names.h"
#include "refusals.h"

/* The end of the extensions of a chunk, from the first semicolon on (RFC 9112, 7.1.1): the CR behind them,
   `end` if there may be more, or NULL where they are malformed. White space outside quotes is refused:
   readers differ on it. */
static const char *chunk_extensions(const char *p, const char *end) {
    enum { NAME_BEGINS, NAME, VALUE_BEGINS, VALUE, QUOTED, ESCAPED, QUOTE_ENDED } at = NAME_BEGINS;
    for (p++; p < end; p++) {
        int token = head_class_of[(unsigned char)*p] & TOKEN;
        if (at == QUOTED || at == ESCAPED) {
            if (skip_value(p, p + 1) == p)
                return NULL;
            at = at == ESCAPED ? QUOTED : *p == '"' ? QUOTE_ENDED : *p == '\\' ? ESCAPED : QUOTED;
        } else if (token && at != QUOTE_ENDED) {
            at = at == NAME_BEGINS ? NAME : at == VALUE_BEGINS ? VALUE : at;
        } else if (at == NAME && *p == '=') {
            at = VALUE_BEGINS;
        } else if (at == VALUE_BEGINS && *p == '"') {
            at = QUOTED;
        } else if (at == NAME_BEGINS || at == VALUE_BEGINS) {
            return NULL;
        } else if (*p == '\r') {
            return p;
        } else if (*p == ';') {
            at = NAME_BEGINS;
        } else {
            return NULL;
        }
    }
    return end;
}

long head_chunk_line(const char *data, size_t size, size_t limit, int64_t *chunk) {
    const char *p = data, *end = data + size, *start = data;
    int64_t n = 0;
    for (; p < end; p++) {
        int digit = hex_digit(*p);
        if (digit < 0)
            break;
        if (p - start >= 15)
            return -R_CHUNK_SIZE;
        n = n * 16 + digit;
    }
    if (p == end)
        return 0;
    if (p == start)
        return -R_CHUNK_SIZE;
    if (*p == ';') {
        /* bytes beyond the limit decide nothing */
        const char *enough = end - data > (ptrdiff_t)limit + 1 ? data + limit + 1 : end;
        p = chunk_extensions(p, enough);
        if (!p)
            return -R_CHUNK_SIZE;
        if (p == enough)
            return enough - data > (ptrdiff_t)limit ? -R_CHUNK_LINE_TOO_LONG : 0;
    }
    if (*p != '\r')
        return -R_CHUNK_SIZE;
    if (p + 1 == end)
        return 0;
    if (p[1] != '\n')
        return -R_CHUNK_SIZE;
    *chunk = n;
    return p + 2 - data;
}

long head_trailers(const char *data, size_t size, size_t limit) {
    const char *p = data, *end = data + size, *name;
    /* bytes of a field beyond the limit decide nothing */
    const char *enough = size > limit + 1 ? data + limit + 1 : end;
    for (;;) {
        if ((size_t)(p - data) > limit)
            return -R_TRAILERS_TOO_LARGE;
        if (p == end)
            return 0;
        if (*p == '\r') {
            if (p + 1 == end)
                return 0;
            return p[1] == '\n' ? p + 2 - data : -R_TRAILERS;
        }
        name = p;
        p = skip(p, enough, TOKEN);
        if (p < enough && (*p != ':' || p == name))
            return -R_TRAILERS;
        if (p < enough) {
            int known = head_known(name, p - name);
            if (known == K_HOST || known == K_CONTENT_LENGTH || known == K_TRANSFER_ENCODING)
                return -R_TRAILERS; /* who merged them would see another message (RFC 9110, 6.5.1) */
        }
        p = skip_value(p, enough);
        if (p == enough || (*p == '\r' && p + 1 == enough))
            return (size_t)(enough - data) > limit ? -R_TRAILERS_TOO_LARGE : 0;
        if (*p != '\r' || p[1] != '\n')
            return -R_TRAILERS;
        p += 2;
    }
}

long body_line(struct framing *framing, const struct limits *limits, const char *data, size_t size) {
    long n;
    if (framing->left == BEHIND_DATA) {
        if (size && data[0] != '\r')
            return -R_CHUNK_END;
        if (size < 2)
            return 0;
        if (data[1] != '\n')
            return -R_CHUNK_END;
        framing->left = 0;
        return 2;
    }
    if (framing->left == IN_TRAILERS) {
        n = head_trailers(data, size, limits->trailer_bytes);
        if (n > 0)
            framing->ended = 1;
        return n;
    }
    n = head_chunk_line(data, size, limits->chunk_line, &framing->left);
    if (n == 0 && size > (size_t)limits->chunk_line)
        return -R_CHUNK_LINE_TOO_LONG;
    if (n <= 0)
        return n;
    if (framing->left > limits->body_bytes - framing->size)
        return -R_BODY_TOO_LARGE;
    if (!framing->left)
        framing->left = IN_TRAILERS;
    return n;
}
