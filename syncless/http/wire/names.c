/* The tables of names.h. For head_known() and its kin, see head.h. */

#include "head.h"
#include "names.h"

unsigned char head_class_of[256];
unsigned char head_lower[256];
unsigned char head_single[256];

const char *const head_known_names[] = {
    "host", "content-length", "content-type", "transfer-encoding", "connection", "expect", "upgrade",
    "te", "keep-alive", "proxy-connection", "date", "server", "trailer", "accept", "accept-charset",
    "accept-encoding", "accept-language", "authorization", "cache-control", "content-encoding",
    "content-disposition", "content-language", "content-location", "content-md5", "content-range",
    "cookie", "dnt", "forwarded", "from", "if-match", "if-modified-since", "if-none-match", "if-range",
    "if-unmodified-since", "max-forwards", "origin", "pragma", "priority", "proxy-authorization", "range",
    "referer", "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform", "sec-fetch-dest", "sec-fetch-mode",
    "sec-fetch-site", "sec-fetch-user", "sec-gpc", "sec-websocket-extensions", "sec-websocket-key",
    "sec-websocket-protocol", "sec-websocket-version", "traceparent", "tracestate",
    "upgrade-insecure-requests", "user-agent", "via", "x-csrf-token", "x-forwarded-for",
    "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto", "x-real-ip", "x-request-id",
    "x-requested-with", NULL};

/* Fields of a request that have one value and decide on its effect (RFC 9110; Origin: RFC 6454, 7.3;
   WebSocket: RFC 6455, 11.3). Two of them joined by a comma would be one that nobody has sent: a reader of
   the bytes may take the first, and one of a joined value neither. docs/reference/http.md has the reason
   for each. Others of one value, such as User-Agent, only inform: broken proxies double them, and all peers
   join them. Host and Content-Length: see framing_header() in head.c. */
static const char *const single_names[] = {
    "authorization", "content-range", "content-type", "if-modified-since", "if-range", "if-unmodified-since",
    "origin", "proxy-authorization", "range", "sec-websocket-key", "sec-websocket-version", NULL};

/* An open-addressed table of the known names: sparse, so that most look-ups meet their name or an empty place
   at once. */
#define SLOTS 512
static unsigned char slots[SLOTS]; /* index + 1; 0 is empty */
static unsigned char known_size[256];

static unsigned slot_of(const char *name, size_t size) {
    unsigned a = head_lower[(unsigned char)name[0]], b = head_lower[(unsigned char)name[size - 1]];
    unsigned c = head_lower[(unsigned char)name[size / 2]];
    return (unsigned)(size * 131 + a * 31 + b * 17 + c * 7) % SLOTS;
}

__attribute__((constructor)) static void fill_tables(void) {
    int i;
    const char *p;
    for (i = 0; i < 256; i++)
        head_lower[i] = i >= 'A' && i <= 'Z' ? i + 32 : i;
    for (i = '0'; i <= '9'; i++)
        head_class_of[i] |= TOKEN | DIGIT;
    for (i = 'a'; i <= 'z'; i++) {
        head_class_of[i] |= TOKEN;
        head_class_of[i - 32] |= TOKEN;
    }
    for (p = "!#$%&'*+-.^_`|~"; *p; p++)
        head_class_of[(unsigned char)*p] |= TOKEN;
    /* real clients send raw bytes above ASCII; a fragment is never sent (RFC 9112, 3.2) */
    for (i = 0x21; i < 256; i++)
        if (i != 0x7f && i != '#')
            head_class_of[i] |= TARGET;
    for (i = 0; head_known_names[i]; i++) {
        size_t size = strlen(head_known_names[i]);
        unsigned slot = slot_of(head_known_names[i], size);
        while (slots[slot])
            slot = (slot + 1) % SLOTS;
        slots[slot] = i + 1;
        known_size[i] = size;
    }
    for (i = 0; single_names[i]; i++)
        head_single[head_known(single_names[i], strlen(single_names[i]))] = i + 1;
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

int head_is_token(const char *name, size_t size) {
    return size > 0 && skip(name, name + size, TOKEN) == name + size;
}

int head_is_value(const char *value, size_t size) {
    return skip_value(value, value + size) == value + size;
}
