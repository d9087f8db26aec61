/* The fields that frame a response, dates and refusals. See reply.h. */

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "reply.h"

static char *put(char *at, const char *text, size_t size) {
    memcpy(at, text, size);
    return at + size;
}

#define PUT(at, text) put(at, text, sizeof text - 1)

static char *put_decimal(char *at, uint64_t number) {
    char reversed[24];
    size_t n = 0;
    do
        reversed[n++] = (char)('0' + number % 10);
    while (number /= 10);
    while (n)
        *at++ = reversed[--n];
    return at;
}

size_t reply_framing(char *into, int64_t length, int chunked, int minor, int closes) {
    char *at = into;
    if (chunked) {
        at = PUT(at, "Transfer-Encoding: chunked\r\n");
    } else if (length >= 0) {
        at = put_decimal(PUT(at, "Content-Length: "), (uint64_t)length);
        at = PUT(at, "\r\n");
    }
    if (closes)
        at = PUT(at, "Connection: close\r\n");
    else if (!minor)
        at = PUT(at, "Connection: keep-alive\r\n");
    return PUT(at, "\r\n") - into;
}

size_t reply_chunk(char *into, size_t size) {
    char reversed[20], *at = into;
    size_t n = 0;
    do
        reversed[n++] = "0123456789abcdef"[size & 15];
    while (size >>= 4);
    while (n)
        *at++ = reversed[--n];
    return PUT(at, "\r\n") - into;
}

size_t reply_date(char *into, int64_t seconds) {
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t when = (time_t)seconds;
    struct tm tm;
    gmtime_r(&when, &tm);
    return snprintf(into, REPLY_DATE, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + tm.tm_wday * 3,
                    tm.tm_mday, months + tm.tm_mon * 3, tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

size_t reply_dates(char *into, int64_t seconds) {
    char *at = PUT(into, "Server: syncless\r\nDate: ");
    at += reply_date(at, seconds);
    return PUT(at, "\r\n") - into;
}

size_t reply_refusal(char *into, size_t body_size, int64_t retry) {
    char *at = into;
    if (retry >= 0) {
        at = put_decimal(PUT(at, "Retry-After: "), (uint64_t)retry);
        at = PUT(at, "\r\n");
    }
    at = put_decimal(PUT(at, "Content-Type: text/plain; charset=utf-8\r\nContent-Length: "), body_size);
    return PUT(at, "\r\nConnection: close\r\n\r\n") - into;
}
