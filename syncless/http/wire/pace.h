/* Which clients are too slow to send a body, to take a response, to let go of a connection; see limits.py.
   Times in ns of a monotonic clock. */

#ifndef SYNCLESS_PACE_H
#define SYNCLESS_PACE_H

#include "wire.h"

/* Whether the bytes are fewer than the rate (bytes per second) wants in that time. */
static inline int pace_is_below(int64_t bytes, double rate, int64_t ns) {
    return (double)bytes < rate * (double)ns / 1e9;
}

/* -- a response: of one client that makes the server wait ------------------------------------------------ */

struct pace {
    int64_t since;              /* when the present wait began; 0: none */
    int64_t waited;             /* before it */
    int64_t given;              /* bytes for the kernel: those there at the first wait, and all since */
    int64_t taken;              /* of them, by the client, at the last look */
    int64_t progress;           /* when it was last seen to take some */
};

/* `unsent`: bytes that the kernel still holds. */
static inline void pace_look(struct pace *pace, int64_t unsent, int64_t now) {
    if (pace->given - unsent > pace->taken) {
        pace->taken = pace->given - unsent;
        pace->progress = now;
    }
}

static inline int64_t pace_waited(const struct pace *pace, int64_t now) {
    return pace->waited + (pace->since ? now - pace->since : 0);
}

/* Whether its average counts by now; then a look decides. */
static inline int pace_counts(const struct pace *pace, const struct limits *limits, int64_t now) {
    return limits->write_rate > 0 && pace_waited(pace, now) > limits->write_grace_ns;
}

/* Whether the client has taken less than write_rate on average, for longer than write_grace_seconds. */
static inline int pace_is_too_slow(const struct pace *pace, const struct limits *limits, int64_t now) {
    return pace_counts(pace, limits, now) &&
           pace_is_below(pace->taken, limits->write_rate, pace_waited(pace, now));
}

/* Whether the server waits on, at a look: these are more frequent than write_seconds. */
static inline int pace_may_wait(const struct pace *pace, const struct limits *limits, int64_t now) {
    return now - pace->progress < limits->write_ns && !pace_is_too_slow(pace, limits, now);
}

/* -- a request body -------------------------------------------------------------------------------------- */

enum { FAST_ENOUGH, TOO_LONG, TOO_SLOW };

/* After `waited` ns in all, in which `bytes` have come. */
static inline int pace_of_body(int64_t waited, int64_t bytes, const struct limits *limits) {
    if (limits->body_total_ns && waited > limits->body_total_ns)
        return TOO_LONG;
    if (waited > limits->body_grace_ns && pace_is_below(bytes, limits->body_rate, waited))
        return TOO_SLOW;
    return FAST_ENOUGH;
}

/* -- a lingering connection ------------------------------------------------------------------------------ */

/* Whether it may go on until the next look. `looks`: this one counted, below 256; `heard`: bytes have come
   since the last; `bytes`: in all. */
static inline int pace_may_linger(int looks, int heard, int64_t bytes, const struct limits *limits) {
    int64_t ns = looks * limits->linger_look_ns;
    return heard && looks < 255 && ns < limits->linger_ns && !pace_is_below(bytes, limits->body_rate, ns);
}

#endif
