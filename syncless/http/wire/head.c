/* A request line and the header fields after it. See head.h. */

#include "head.h"
#include "names.h"
#include "refusals.h"

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

/* Splits the target into path and query by its form (RFC 9112, 3.2): 0 or minus a reason. */
static long split_target(const char *data, struct head *head) {
    const char *p = data + head->target, *end = p + head->target_size, *mark;
    int options = head->method_size == 7 && !memcmp(data + head->method, "OPTIONS", 7);
    if (head->method_size == 7 && !memcmp(data + head->method, "CONNECT", 7)) {
        /* authority-form: we are no proxy */
        int valid = host_is_valid(p, end) && *p != ':' && end[-1] != ':' && memchr(p, ':', end - p);
        return valid ? -R_CONNECT : -R_MALFORMED;
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
            return -R_MALFORMED;
        for (p = start; p < end && *p != '/' && *p != '?'; p++)
            ;
        if (p == start || *start == ':' || !host_is_valid(start, p))
            return -R_MALFORMED;
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

/* The request line. > 0: its size with CRLF, 0 incomplete, < 0 minus a reason. */
static long request_line(const char *data, const char *start, const char *end,
                         const struct head_limits *limits, struct head *head) {
    const char *p = skip(start, end, TOKEN), *newline;
    long error;
    if (p == end)
        return (size_t)(end - start) > limits->line ? -R_LINE_TOO_LONG : 0;
    newline = memchr(p, '\n', end - p);
    if (*p != ' ' || p == start)
        return -R_MALFORMED;
    if (!newline)
        return (size_t)(end - start) > limits->line + 1 ? -R_LINE_TOO_LONG : 0;
    if ((size_t)(newline - start) > limits->line + 1)
        return -R_LINE_TOO_LONG;
    head->method = start - data;
    head->method_size = p - start;
    start = ++p;
    p = skip(p, newline, TARGET);
    if (p == start || *p != ' ')
        return -R_MALFORMED;
    head->target = start - data;
    head->target_size = p - start;
    p++;
    if (newline - p != 9 || memcmp(p, "HTTP/", 5) || !(head_class_of[(unsigned char)p[5]] & DIGIT) ||
        p[6] != '.' || !(head_class_of[(unsigned char)p[7]] & DIGIT) || p[8] != '\r')
        return -R_MALFORMED;
    if (p[5] != '1')
        return p[5] == '0' ? -R_MALFORMED : -R_VERSION; /* HTTP/0.9 has no such line */
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

/* A header that decides how the connection goes on: 0 or minus a reason. */
static long framing_header(const char *value, size_t size, int known, struct head *head,
                           struct framing *seen) {
    const char *p = value, *end = value + size, *word;
    size_t n;
    switch (known) {
    case K_HOST:
        if (seen->hosts++ || !host_is_valid(p, end))
            return -R_MALFORMED;
        return 0;
    case K_CONTENT_LENGTH:
        if (seen->lengths++ || size == 0 || size > 18 || skip(p, end, DIGIT) != end)
            return -R_MALFORMED;
        head->content_length = 0;
        for (; p < end; p++)
            head->content_length = head->content_length * 10 + (*p - '0');
        return 0;
    case K_TRANSFER_ENCODING:
        if (seen->codings++ || size == 0)
            return -R_MALFORMED;
        if (is_word(value, size, "chunked")) {
            head->chunked = 1;
            return 0;
        }
        /* A list of codings that we do not have is 501 (RFC 9112, 6.1); one that names chunked twice or not
           last, or no token, is 400. */
        if (*p == ',' || end[-1] == ',')
            return -R_MALFORMED;
        for (n = 0; next_element(&p, end, &word, &n);)
            if (skip(word, word + n, TOKEN) != word + n || (is_word(word, n, "chunked") && p != end))
                return -R_MALFORMED;
        return -R_CODING;
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
            return -R_EXPECTATION;
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
        end = data + limits->total + 4; /* no head reaches beyond it */
    while (p < end && *p == '\r') { /* empty lines before a request are skipped (RFC 9112, 2.2) */
        if (p + 1 == end)
            return 0;
        if (p[1] != '\n' || p - data >= 8)
            return -R_MALFORMED;
        p += 2;
    }
    if (p == end)
        return 0;
    n = request_line(data, p, end, limits, head);
    return n <= 0 ? n : p - data + n;
}

int head_asks_by_head(const char *data, size_t size) {
    while (size && (*data == '\r' || *data == '\n')) {
        data++;
        size--;
    }
    return size >= 5 && !memcmp(data, "HEAD ", 5);
}

/* Whether a field with this name never reaches an application, whatever its kind, nor a log. */
static int is_dropped(const char *name, size_t size) {
    return memchr(name, '_', size) || (size == 5 && same_name(name, "proxy", 5));
}

long head_scan_fields(const char *data, size_t size, long line, const struct head_limits *limits,
                      struct head *head) {
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
            return (size_t)(end - data) > limits->total ? -R_HEAD_TOO_LARGE : 0;
        if (*p == '\r') {
            if (p + 1 == end)
                return 0;
            if (p[1] != '\n')
                return -R_MALFORMED;
            p += 2;
            break;
        }
        name = p;
        p = skip(p, end, TOKEN);
        if (p == end)
            return (size_t)(end - data) > limits->total ? -R_HEAD_TOO_LARGE : 0;
        if (*p != ':' || p == name || p - name > 0xFFFF)
            return -R_MALFORMED; /* also white space before the colon, a folded line */
        colon = p;
        value = p + 1;
        p = skip_value(value, end);
        if (p == end || (*p == '\r' && p + 1 == end))
            return (size_t)(end - data) > limits->total ? -R_HEAD_TOO_LARGE : 0;
        if (*p != '\r' || p[1] != '\n')
            return -R_MALFORMED;
        stop = p;
        p += 2;
        while (value < stop && (*value == ' ' || *value == '\t'))
            value++;
        while (stop > value && (stop[-1] == ' ' || stop[-1] == '\t'))
            stop--;
        if (head->header_count == (int)limits->headers || head->header_count == HEAD_MAX_HEADERS)
            return -R_HEAD_TOO_LARGE;
        header = &head->headers[head->header_count++];
        header->name = name - data;
        header->name_size = colon - name;
        header->value = value - data;
        header->value_size = stop - value;
        header->known = head_known(name, header->name_size);
        if (header->known != HEAD_UNKNOWN && head_single[header->known]) {
            uint32_t bit = (uint32_t)1 << (head_single[header->known] - 1);
            if (seen.singles & bit)
                return -R_MALFORMED;
            seen.singles |= bit;
        }
        if (header->known <= K_UPGRADE) {
            n = framing_header(value, stop - value, header->known, head, &seen);
            if (n)
                return n;
        } else if (header->known == HEAD_UNKNOWN && is_dropped(name, header->name_size)) {
            header->known = HEAD_DROPPED;
        }
    }
    if ((size_t)(p - data) > limits->total)
        return -R_HEAD_TOO_LARGE;
    /* two readers could disagree (RFC 9112, 6.1 and 6.3) */
    if (seen.codings && (seen.lengths || head->minor == 0))
        return -R_MALFORMED;
    if (head->minor >= 1 && !seen.hosts)
        return -R_MALFORMED;
    head->keep_alive = head->minor >= 1 ? !seen.close : seen.keep_alive && !seen.close;
    if (head->minor == 0)
        head->expect_continue = 0; /* RFC 9110, 10.1.1 */
    return p - data;
}

long head_scan(const char *data, size_t size, const struct head_limits *limits, struct head *head) {
    long line = head_scan_line(data, size, limits, head);
    return line <= 0 ? line : head_scan_fields(data, size, line, limits, head);
}

size_t head_decode_path(const char *path, size_t size, char *into) {
    size_t i, n = 0;
    for (i = 0; i < size; i++) {
        int high, low;
        if (path[i] == '%' && i + 2 < size && (high = hex_digit(path[i + 1])) >= 0 &&
            (low = hex_digit(path[i + 2])) >= 0) {
            into[n++] = (char)(high * 16 + low);
            i += 2;
        } else {
            into[n++] = path[i];
        }
    }
    return n;
}
