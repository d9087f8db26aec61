/* The names of header fields that clients usually send, and which byte may stand where (RFC 9110, 5.1 and
   5.5; RFC 3986). For head.c and body.c, whose hot paths these functions are part of; the manual for all
   others is head.h. The tables are filled once, when the module is loaded. */

#ifndef SYNCLESS_NAMES_H
#define SYNCLESS_NAMES_H

#include <stddef.h>
#include <string.h>

/* SYNCLESS_PLAIN tests the code of other processors on this one. */
#if defined __SSE2__ && !defined SYNCLESS_PLAIN
#define SYNCLESS_SSE2
#include <emmintrin.h>
#endif

/* The parts of a head in which a byte may stand. */
enum { TOKEN = 1, TARGET = 2, DIGIT = 4 };

extern unsigned char head_class_of[256];
extern unsigned char head_lower[256];

/* By index of a known name: its number among those that have one value, from 1; 0: it may be repeated. */
extern unsigned char head_single[256];

/* The places of those that decide the framing of a message, and of those that a server itself sends. */
enum {
    K_HOST, K_CONTENT_LENGTH, K_CONTENT_TYPE, K_TRANSFER_ENCODING, K_CONNECTION, K_EXPECT, K_UPGRADE, K_TE,
    K_KEEP_ALIVE, K_PROXY_CONNECTION, K_DATE, K_SERVER
};

/* Fields of a response that an application cannot send: they are about the connection (RFC 9110, 7.6.1). */
static inline int is_hop_by_hop(int known) {
    return known == K_CONNECTION || known == K_KEEP_ALIVE || known == K_PROXY_CONNECTION || known == K_TE ||
           known == K_TRANSFER_ENCODING || known == K_UPGRADE;
}

static inline int same_name(const char *a, const char *lower_b, size_t size) {
    size_t i;
    for (i = 0; i < size; i++)
        if (head_lower[(unsigned char)a[i]] != (unsigned char)lower_b[i])
            return 0;
    return 1;
}

/* The value of a hexadecimal digit, or -1. */
static inline int hex_digit(char byte) {
    int c = head_lower[(unsigned char)byte];
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The first byte that may not stand in a field value: a control other than tab. */
static inline const char *skip_value(const char *p, const char *end) {
#ifdef SYNCLESS_SSE2
    const __m128i space = _mm_set1_epi8(0x20), del = _mm_set1_epi8(0x7f), tab = _mm_set1_epi8('\t');
    while (end - p >= 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)p);
        __m128i good = _mm_or_si128(_mm_cmpeq_epi8(_mm_max_epu8(x, space), x), _mm_cmpeq_epi8(x, tab));
        __m128i refused = _mm_or_si128(_mm_andnot_si128(good, _mm_set1_epi8(-1)), _mm_cmpeq_epi8(x, del));
        unsigned bad = 0xFFFF & (unsigned)_mm_movemask_epi8(refused);
        if (bad)
            return p + __builtin_ctz(bad);
        p += 16;
    }
#endif
    while (p < end && (((unsigned char)*p >= 0x20 && *p != 0x7f) || *p == '\t'))
        p++;
    return p;
}

static inline const char *skip(const char *p, const char *end, int class) {
    while (p < end && head_class_of[(unsigned char)*p] & class)
        p++;
    return p;
}

#endif
