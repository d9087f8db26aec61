/* Scans HTTP/1 request heads and chunk lines (RFC 9112). The manual of head.c.

   Takes bytes, gives offsets and the framing of the request. Knows nothing of Python, sockets or memory: it
   allocates nothing, keeps no state between calls and never reads beyond `size`, so it can be fuzzed by
   itself. The caller decides how to act on a status.

   As strict as the RFC allows wherever two readers of the same bytes might disagree about where a message
   ends. */

#ifndef SYNCLESS_HEAD_H
#define SYNCLESS_HEAD_H

#include <stddef.h>
#include <stdint.h>

#define HEAD_MAX_HEADERS 128        /* room in struct head; the limit in use may be lower */

enum { HTTP_2 = 2 };                /* in place of a minor version: heads of HTTP/2 are written as these */

struct head_header {
    uint32_t name, value;           /* offsets from the start of the buffer */
    uint16_t name_size;
    uint16_t known;                 /* index into head_known_names, HEAD_UNKNOWN or HEAD_DROPPED */
    uint32_t value_size;            /* without the white space around it */
};

#define HEAD_UNKNOWN 0xFFFF
/* Not for the application: as a CGI variable a name with an underscore would pass for another one, and
   `Proxy` for the proxy settings of programs. */
#define HEAD_DROPPED 0xFFFE

struct head {
    uint32_t method, method_size;
    uint32_t target, target_size;   /* as sent */
    uint32_t path, path_size;       /* of the target, still percent-encoded, without the query */
    uint32_t query, query_size;     /* without the question mark */
    uint32_t authority, authority_size;     /* of an absolute-form target (RFC 9112, 3.2.2), else size 0 */
    int minor;                      /* HTTP/1.minor, 0 or 1; HTTP_2: see below */
    int header_count;
    int64_t content_length;         /* -1: none given */
    char chunked;                   /* the body is chunked */
    char keep_alive;                /* by the version and the Connection header */
    char expect_continue;
    char websocket;                 /* Upgrade names websocket */
    char escaped;                   /* the path has a percent sign */
    struct head_header headers[HEAD_MAX_HEADERS];
};

#define HEAD_BEFORE_HEADERS offsetof(struct head, headers)      /* bytes: all but the fields */

struct head_limits {
    uint32_t line;                  /* bytes of the request line, CRLF not counted: 414 beyond */
    uint32_t headers;               /* number of header fields: 431 beyond; at most HEAD_MAX_HEADERS */
    uint32_t total;                 /* bytes of the whole head: 431 beyond */
};

/* Scans a head at the start of the buffer. > 0: its size in bytes, `head` is filled in. 0: more bytes are
   needed. < 0: minus the reason to refuse it for (refusals.h); nothing after it can be trusted. A field such
   as Content-Type, whose repetition is a danger (names.c), is refused if it comes twice. The answer does not
   depend on how the bytes were split into calls. */
long head_scan(const char *data, size_t size, const struct head_limits *limits, struct head *head);

/* The two halves of head_scan: the request line, whose end it returns, and the fields from there on. The
   fields mean the same behind another line, but for `keep_alive`, which depends on `minor`: so a caller may
   remember them. */
long head_scan_line(const char *data, size_t size, const struct head_limits *limits, struct head *head);
long head_scan_fields(const char *data, size_t size, long line, const struct head_limits *limits,
                      struct head *head);

/* Decodes percent-encoded bytes (RFC 3986, 2.1); a percent sign without two digits stands for itself. `into`
   has room for `size` bytes, and may be `path`. Returns how many there are. */
size_t head_decode_path(const char *path, size_t size, char *into);

/* Whether the bytes, which may be malformed or incomplete, ask by HEAD: no answer to them has a body. */
int head_asks_by_head(const char *data, size_t size);

/* Scans the line with the size of a chunk (RFC 9112, 7.1); extensions are checked and ignored. > 0: bytes of
   the line, *chunk is set. 0: incomplete. < 0: minus the reason (CHUNK_LINE_TOO_LONG where `limit`, the bytes
   that a line may have, is exceeded). */
long head_chunk_line(const char *data, size_t size, size_t limit, int64_t *chunk);

/* Scans the trailer section up to and including its empty line: > 0 its size, 0 incomplete, < 0 minus the
   reason. */
long head_trailers(const char *data, size_t size, size_t limit);

/* The names that clients usually send, in lower case, ended by NULL. */
extern const char *const head_known_names[];

/* The index of a name in head_known_names, whatever its case, or HEAD_UNKNOWN. */
int head_known(const char *name, size_t size);

/* Whether the bytes may go out as the name or the value of a header field. */
int head_is_token(const char *name, size_t size);
int head_is_value(const char *value, size_t size);

/* Whether the bytes are uri-host [":" port] (RFC 3986, 3.2.2 and 3.2.3; RFC 9110, 7.2), possibly empty. See
   host.c, which knows as little as head.c. */
int host_is_valid(const char *p, const char *end);

#endif
