/* The host that a request names. See head.h. */

#include "head.h"

#include <string.h>

/* The parts of a host in which a byte may stand. NAME: a reg-name (RFC 3986: unreserved, sub-delims, the
   percent sign of an escape). */
enum { NAME = 1, DIGIT = 2, HEX = 4 };

static const unsigned char class_of[256] = {
    ['0' ... '9'] = NAME | DIGIT | HEX, ['a' ... 'f'] = NAME | HEX, ['A' ... 'F'] = NAME | HEX,
    ['g' ... 'z'] = NAME, ['G' ... 'Z'] = NAME, ['-'] = NAME, ['.'] = NAME, ['_'] = NAME, ['~'] = NAME,
    ['!'] = NAME, ['$'] = NAME, ['&'] = NAME, ['\''] = NAME, ['('] = NAME, [')'] = NAME, ['*'] = NAME,
    ['+'] = NAME, [','] = NAME, [';'] = NAME, ['='] = NAME, ['%'] = NAME};

static int is_hex(char c) { return class_of[(unsigned char)c] & HEX; }

/* Whether the bytes are an IPv4address (RFC 3986, 3.2.2). */
static int is_ipv4(const char *p, const char *end) {
    int part, n;
    for (part = 0; part < 4; part++) {
        const char *start;
        if (part && (p == end || *p++ != '.'))
            return 0;
        start = p;
        for (n = 0; p < end && p - start < 3 && class_of[(unsigned char)*p] & DIGIT; p++)
            n = n * 10 + (*p - '0');
        if (p == start || n > 255 || (*start == '0' && p - start > 1))
            return 0;
    }
    return p == end;
}

/* Whether the bytes are an IPv6address: eight groups, fewer with one gap "::"; the last two may be an
   IPv4address. */
static int is_ipv6(const char *p, const char *end) {
    int groups = 0, gap = 0;
    if (end - p >= 2 && p[0] == ':' && p[1] == ':') {
        gap = 1;
        p += 2;
        if (p == end)
            return 1;
    }
    for (;;) {
        const char *start = p;
        while (p < end && is_hex(*p))
            p++;
        if (p < end && *p == '.') {
            groups += 2;
            return is_ipv4(start, end) && (gap ? groups <= 7 : groups == 8);
        }
        if (p == start || p - start > 4)
            return 0;
        groups++;
        if (p == end)
            break;
        if (*p++ != ':')
            return 0;
        if (p < end && *p == ':') {
            if (gap++)
                return 0;
            p++;
            if (p == end)
                break;
        }
    }
    return gap ? groups <= 7 : groups == 8;
}

/* Whether the bytes between brackets are an address: IPv6address / IPvFuture. Zones (RFC 6874) are never
   sent. */
static int is_literal(const char *p, const char *end) {
    const char *start = p + 1;
    if (p == end || (*p | 0x20) != 'v')
        return is_ipv6(p, end);
    for (p++; p < end && is_hex(*p); p++)
        ;
    if (p == start || p == end || *p++ != '.' || p == end)
        return 0;
    for (; p < end; p++)
        if (*p == '%' || (*p != ':' && !(class_of[(unsigned char)*p] & NAME)))
            return 0;
    return 1;
}

int host_is_valid(const char *p, const char *end) {
    int port = 0;
    if (p < end && *p == '[') {
        const char *bracket = memchr(p, ']', end - p);
        if (!bracket || !is_literal(p + 1, bracket))
            return 0;
        p = bracket + 1;
    } else {
        for (; p < end && *p != ':'; p++) {
            if (!(class_of[(unsigned char)*p] & NAME))
                return 0;
            if (*p == '%' && (end - p < 3 || !is_hex(p[1]) || !is_hex(p[2])))
                return 0;
        }
    }
    if (p == end)
        return 1;
    if (*p != ':')
        return 0;
    for (p++; p < end && class_of[(unsigned char)*p] & DIGIT; p++)
        if ((port = port * 10 + (*p - '0')) > 65535)
            return 0;
    return p == end;
}
