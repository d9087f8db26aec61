/* See head.h. */

#include "head.h"
#include "host.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* What a byte may be part of. */
enum { TOKEN = 1, TARGET = 2, DIGIT = 4 };

static unsigned char class_of[256];
static unsigned char lower[256];

const char *const head_known_names[] = {
    "host", "content-length", "content-type", "transfer-encoding", "connection", "expect", "upgrade", "te", "trailer",
    "accept", "accept-charset", "accept-encoding", "accept-language", "authorization", "cache-control", "content-encoding",
    "content-disposition", "content-language", "content-location", "content-md5", "content-range", "cookie", "date", "dnt", "forwarded",
    "from", "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "keep-alive", "max-forwards", "origin",
    "pragma", "priority", "proxy-authorization", "proxy-connection", "range", "referer", "sec-ch-ua", "sec-ch-ua-mobile",
    "sec-ch-ua-platform", "sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "sec-fetch-user", "sec-gpc", "sec-websocket-extensions",
    "sec-websocket-key", "sec-websocket-protocol", "sec-websocket-version", "server", "traceparent", "tracestate", "upgrade-insecure-requests",
    "user-agent", "via", "x-csrf-token", "x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto", "x-real-ip",
    "x-request-id", "x-requested-with", NULL};

/* The places of those that this file itself reads. */
enum { K_HOST, K_CONTENT_LENGTH, K_CONTENT_TYPE, K_TRANSFER_ENCODING, K_CONNECTION, K_EXPECT, K_UPGRADE };

/* Fields of a request that have one value and are no lists (RFC 9110; Origin: RFC 6454, 7.3; WebSocket: RFC 6455, 11.3). Two of them joined
   by a comma would be one that nobody has sent: a reader of the bytes may take the first, and one of a joined value neither. Host and
   Content-Length: see framing_header(). */
static const char *const single_names[] = {
    "authorization", "content-disposition", "content-location", "content-range", "content-type", "date", "from", "if-modified-since",
    "if-range", "if-unmodified-since", "max-forwards", "origin", "proxy-authorization", "range", "referer", "sec-websocket-key",
    "sec-websocket-version", "user-agent", NULL};
static unsigned char single[256]; /* by index of the known name: its number in single_names + 1; 0: it may be repeated */

/* An open-addressed table of the known names: sparse, so that most look-ups meet their name or an empty place at once. */
#define SLOTS 512
static unsigned char slots[SLOTS]; /* index + 1; 0 is empty */
static unsigned char known_size[256];

static unsigned slot_of(const char *name, size_t size) {
    unsigned a = lower[(unsigned char)name[0]], b = lower[(unsigned char)name[size - 1]], c = lower[(unsigned char)name[size / 2]];
    return (unsigned)(size * 131 + a * 31 + b * 17 + c * 7) % SLOTS;
}

__attribute__((constructor)) static void fill_tables(void) {
    int i;
    const char *p;
    for (i = 0; i < 256; i++)
        lower[i] = i >= 'A' && i <= 'Z' ? i + 32 : i;
    for (i = '0'; i <= '9'; i++)
        class_of[i] |= TOKEN | DIGIT;
    for (i = 'a'; i <= 'z'; i++) {
        class_of[i] |= TOKEN;
        class_of[i - 32] |= TOKEN;
    }
    for (p = "!#$%&'*+-.^_`|~"; *p; p++)
        class_of[(unsigned char)*p] |= TOKEN;
    for (i = 0x21; i < 256; i++) /* raw bytes above ASCII are sent by real clients; a fragment never is (RFC 9112, 3.2) */
        if (i != 0x7f && i != '#')
            class_of[i] |= TARGET;
    for (i = 0; head_known_names[i]; i++) {
        size_t size = strlen(head_known_names[i]);
        unsigned slot = slot_of(head_known_names[i], size);
        while (slots[slot])
            slot = (slot + 1) % SLOTS;
        slots[slot] = i + 1;
        known_size[i] = size;
    }
    for (i = 0; single_names[i]; i++)
        single[head_known(single_names[i], strlen(single_names[i]))] = i + 1;
}

static int same_name(const char *a, const char *lower_b, size_t size) {
    size_t i;
    for (i = 0; i < size; i++)
        if (lower[(unsigned char)a[i]] != (unsigned char)lower_b[i])
            return 0;
    return 1;
}

int head_known(const char *name, size_t size) {
    unsigned slot;
    if (size == 0)
        return HEAD_UNKNOWN;
    for (slot = slot_of(name, size); slots[slot]; slot = (slot + 1) % SLOTS) {
        int i = slots[slot] - 1;
        if (known_size[i] == size && same_name(name, head_known_names[i], size))
            return i;
    }
    return HEAD_UNKNOWN;
}

/* The first byte that may not stand in a field value: a control other than tab. */
static const char *skip_value(const char *p, const char *end) {
#ifdef __SSE2__
    const __m128i space = _mm_set1_epi8(0x20), del = _mm_set1_epi8(0x7f), tab = _mm_set1_epi8('\t');
    while (end - p >= 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)p);
        __m128i good = _mm_or_si128(_mm_cmpeq_epi8(_mm_max_epu8(x, space), x), _mm_cmpeq_epi8(x, tab));
        unsigned bad = 0xFFFF & (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_andnot_si128(good, _mm_set1_epi8(-1)), _mm_cmpeq_epi8(x, del)));
        if (bad)
            return p + __builtin_ctz(bad);
        p += 16;
    }
#endif
    while (p < end && (((unsigned char)*p >= 0x20 && *p != 0x7f) || *p == '\t'))
        p++;
    return p;
}

static const char *skip(const char *p, const char *end, int class) {
    while (p < end && class_of[(unsigned char)*p] & class)
        p++;
    return p;
}

static int is_word(const char *p, size_t size, const char *lower_word) {
    return size == strlen(lower_word) && same_name(p, lower_word, size);
}

/* Calls for each element of a comma-separated list: 1 and the next element, or 0. */
static int next_element(const char **p, const char *end, const char **word, size_t *size) {
    const char *start, *stop;
    while (*p < end && (**p == ' ' || **p == '\t' || **p == ','))
        (*p)++;
    if (*p == end)
        return 0;
    start = *p;
    while (*p < end && **p != ',')
        (*p)++;
    stop = *p;
    while (stop > start && (stop[-1] == ' ' || stop[-1] == '\t'))
        stop--;
    *word = start;
    *size = stop - start;
    return 1;
}

/* Splits the target into path and query by its form (RFC 9112, 3.2): 0 or minus a status. */
static long split_target(const char *data, struct head *head) {
    const char *p = data + head->target, *end = p + head->target_size, *mark;
    int options = head->method_size == 7 && !memcmp(data + head->method, "OPTIONS", 7);
    if (head->method_size == 7 && !memcmp(data + head->method, "CONNECT", 7)) {
        return host_is_valid(p, end) && *p != ':' && end[-1] != ':' && memchr(p, ':', end - p) ? -501 : -400; /* authority-form: we are no proxy */
    }
    head->authority_size = 0;
    if (*p != '/') {
        const char *start;
        if (*p == '*' && head->target_size == 1 && options) {
            head->path = head->target;
            head->path_size = 1;
            head->query = head->query_size = 0;
            head->escaped = 0;
            return 0;
        }
        if (end - p > 7 && same_name(p, "http://", 7))
            start = p + 7;
        else if (end - p > 8 && same_name(p, "https://", 8))
            start = p + 8;
        else
            return -400;
        for (p = start; p < end && *p != '/' && *p != '?'; p++)
            ;
        if (p == start || *start == ':' || !host_is_valid(start, p))
            return -400;
        head->authority = start - data;
        head->authority_size = p - start;
    }
    mark = memchr(p, '?', end - p);
    head->path = p - data;
    head->path_size = (mark ? mark : end) - p;
    head->query = mark ? mark + 1 - data : 0;
    head->query_size = mark ? end - mark - 1 : 0;
    head->escaped = memchr(p, '%', head->path_size) != NULL;
    return 0;
}

/* The request line. > 0: its size with CRLF, 0 incomplete, < 0 minus a status. */
static long request_line(const char *data, const char *start, const char *end, const struct head_limits *limits, struct head *head) {
    const char *p = skip(start, end, TOKEN), *newline;
    long error;
    if (p == end)
        return (size_t)(end - start) > limits->line ? -414 : 0;
    newline = memchr(p, '\n', end - p);
    if (*p != ' ' || p == start)
        return -400;
    if (!newline)
        return (size_t)(end - start) > limits->line + 1 ? -414 : 0;
    if ((size_t)(newline - start) > limits->line + 1)
        return -414;
    head->method = start - data;
    head->method_size = p - start;
    start = ++p;
    p = skip(p, newline, TARGET);
    if (p == start || *p != ' ')
        return -400;
    head->target = start - data;
    head->target_size = p - start;
    p++;
    if (newline - p != 9 || memcmp(p, "HTTP/", 5) || !(class_of[(unsigned char)p[5]] & DIGIT) || p[6] != '.' ||
        !(class_of[(unsigned char)p[7]] & DIGIT) || p[8] != '\r')
        return -400;
    if (p[5] != '1')
        return p[5] == '0' ? -400 : -505; /* HTTP/0.9 has no such line */
    head->minor = p[7] != '0';
    if ((error = split_target(data, head)))
        return error;
    return newline + 1 - (data + head->method);
}

struct framing {
    int hosts, lengths, codings;
    char close, keep_alive;
    uint32_t singles; /* a bit for each of single_names */
};

/* A header that decides how the connection goes on: 0 or minus a status. */
static long framing_header(const char *value, size_t size, int known, struct head *head, struct framing *seen) {
    const char *p = value, *end = value + size, *word;
    size_t n;
    switch (known) {
    case K_HOST:
        if (seen->hosts++ || !host_is_valid(p, end))
            return -400;
        return 0;
    case K_CONTENT_LENGTH:
        if (seen->lengths++ || size == 0 || size > 18 || skip(p, end, DIGIT) != end)
            return -400;
        head->content_length = 0;
        for (; p < end; p++)
            head->content_length = head->content_length * 10 + (*p - '0');
        return 0;
    case K_TRANSFER_ENCODING:
        if (seen->codings++ || size == 0)
            return -400;
        if (is_word(value, size, "chunked")) {
            head->chunked = 1;
            return 0;
        }
        /* a list of codings that we do not have is 501 (RFC 9112, 6.1); one that names chunked twice or not last, or no token, is 400 */
        if (*p == ',' || end[-1] == ',')
            return -400;
        for (n = 0; next_element(&p, end, &word, &n);)
            if (skip(word, word + n, TOKEN) != word + n || (is_word(word, n, "chunked") && p != end))
                return -400;
        return -501;
    case K_CONNECTION:
        while (next_element(&p, end, &word, &n)) {
            if (is_word(word, n, "close"))
                seen->close = 1;
            else if (is_word(word, n, "keep-alive"))
                seen->keep_alive = 1;
        }
        return 0;
    case K_EXPECT:
        if (!is_word(value, size, "100-continue"))
            return -417;
        head->expect_continue = 1;
        return 0;
    case K_UPGRADE:
        while (next_element(&p, end, &word, &n))
            head->websocket |= is_word(word, n, "websocket");
        return 0;
    }
    return 0;
}

long head_scan_line(const char *data, size_t size, const struct head_limits *limits, struct head *head) {
    const char *p = data, *end = data + size;
    long n;
    if (end - data > (ptrdiff_t)limits->total + 4)
        end = data + limits->total + 4; /* what comes after belongs to nobody's head */
    while (p < end && *p == '\r') { /* empty lines before a request are skipped (RFC 9112, 2.2) */
        if (p + 1 == end)
            return 0;
        if (p[1] != '\n' || p - data >= 8)
            return -400;
        p += 2;
    }
    if (p == end)
        return 0;
    n = request_line(data, p, end, limits, head);
    return n <= 0 ? n : p - data + n;
}

long head_scan_fields(const char *data, size_t size, long line, const struct head_limits *limits, struct head *head) {
    const char *p = data + line, *end = data + size, *name, *colon, *value, *stop;
    struct framing seen = {0, 0, 0, 0, 0, 0};
    struct head_header *header;
    long n;
    if (end - data > (ptrdiff_t)limits->total + 4)
        end = data + limits->total + 4;
    head->content_length = -1;
    head->chunked = head->expect_continue = head->websocket = 0;
    head->header_count = 0;
    for (;;) {
        if (p == end)
            return (size_t)(end - data) > limits->total ? -431 : 0;
        if (*p == '\r') {
            if (p + 1 == end)
                return 0;
            if (p[1] != '\n')
                return -400;
            p += 2;
            break;
        }
        name = p;
        p = skip(p, end, TOKEN);
        if (p == end)
            return (size_t)(end - data) > limits->total ? -431 : 0;
        if (*p != ':' || p == name || p - name > 0xFFFF) /* also white space before the colon and a folded line */
            return -400;
        colon = p;
        value = p + 1;
        p = skip_value(value, end);
        if (p == end || (*p == '\r' && p + 1 == end))
            return (size_t)(end - data) > limits->total ? -431 : 0;
        if (*p != '\r' || p[1] != '\n')
            return -400;
        stop = p;
        p += 2;
        while (value < stop && (*value == ' ' || *value == '\t'))
            value++;
        while (stop > value && (stop[-1] == ' ' || stop[-1] == '\t'))
            stop--;
        if (head->header_count == (int)limits->headers || head->header_count == HEAD_MAX_HEADERS)
            return -431;
        header = &head->headers[head->header_count++];
        header->name = name - data;
        header->name_size = colon - name;
        header->value = value - data;
        header->value_size = stop - value;
        header->known = head_known(name, header->name_size);
        if (header->known != HEAD_UNKNOWN && single[header->known]) {
            uint32_t bit = (uint32_t)1 << (single[header->known] - 1);
            if (seen.singles & bit)
                return -400;
            seen.singles |= bit;
        }
        if (header->known <= K_UPGRADE) {
            n = framing_header(value, stop - value, header->known, head, &seen);
            if (n)
                return n;
        } else if (header->known == HEAD_UNKNOWN && memchr(name, '_', header->name_size)) {
            header->known = HEAD_DROPPED;
        }
    }
    if ((size_t)(p - data) > limits->total)
        return -431;
    if (seen.codings && (seen.lengths || head->minor == 0)) /* two readers could disagree (RFC 9112, 6.1 and 6.3) */
        return -400;
    if (head->minor >= 1 && !seen.hosts)
        return -400;
    head->keep_alive = head->minor >= 1 ? !seen.close : seen.keep_alive && !seen.close;
    if (head->minor == 0)
        head->expect_continue = 0; /* RFC 9110, 10.1.1 */
    return p - data;
}

long head_scan(const char *data, size_t size, const struct head_limits *limits, struct head *head) {
    long line = head_scan_line(data, size, limits, head);
    return line <= 0 ? line : head_scan_fields(data, size, line, limits, head);
}

int head_is_token(const char *name, size_t size) {
    return size > 0 && skip(name, name + size, TOKEN) == name + size;
}

int head_is_value(const char *value, size_t size) {
    return skip_value(value, value + size) == value + size;
}

/* The end of the extensions of a chunk, from the first semicolon on (RFC 9112, 7.1.1): the CR behind them, `end` if there may be more, or
   NULL where they are malformed. White space outside quotes is refused: readers differ on it. */
static const char *chunk_extensions(const char *p, const char *end) {
    enum { NAME_BEGINS, NAME, VALUE_BEGINS, VALUE, QUOTED, ESCAPED, QUOTE_ENDED } at = NAME_BEGINS;
    for (p++; p < end; p++) {
        int token = class_of[(unsigned char)*p] & TOKEN;
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
        int digit = *p >= '0' && *p <= '9' ? *p - '0' : lower[(unsigned char)*p] >= 'a' && lower[(unsigned char)*p] <= 'f' ? lower[(unsigned char)*p] - 'a' + 10 : -1;
        if (digit < 0)
            break;
        if (p - start >= 15)
            return -400;
        n = n * 16 + digit;
    }
    if (p == end)
        return 0;
    if (p == start)
        return -400;
    if (*p == ';') {
        const char *enough = end - data > (ptrdiff_t)limit + 1 ? data + limit + 1 : end; /* what comes after decides nothing */
        p = chunk_extensions(p, enough);
        if (!p)
            return -400;
        if (p == enough)
            return enough - data > (ptrdiff_t)limit ? -413 : 0;
    }
    if (*p != '\r')
        return -400;
    if (p + 1 == end)
        return 0;
    if (p[1] != '\n')
        return -400;
    *chunk = n;
    return p + 2 - data;
}

long head_trailers(const char *data, size_t size, size_t limit) {
    const char *p = data, *end = data + size, *name;
    for (;;) {
        if ((size_t)(p - data) > limit)
            return -431;
        if (p == end)
            return 0;
        if (*p == '\r') {
            if (p + 1 == end)
                return 0;
            return p[1] == '\n' ? p + 2 - data : -400;
        }
        name = p;
        p = skip(p, end, TOKEN);
        if (p < end && (*p != ':' || p == name))
            return -400;
        if (p < end) {
            int known = head_known(name, p - name);
            if (known == K_HOST || known == K_CONTENT_LENGTH || known == K_TRANSFER_ENCODING)
                return -400; /* RFC 9110, 6.5.1: a reader that merged them into the head would see another message */
        }
        p = skip_value(p, end);
        if (p == end || (*p == '\r' && p + 1 == end))
            return (size_t)(end - data) > limit ? -431 : 0;
        if (*p != '\r' || p[1] != '\n')
            return -400;
        p += 2;
    }
}
