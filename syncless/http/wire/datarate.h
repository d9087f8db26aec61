/* Which clients are too slow to send a body, to take a response, to let go of a connection; see limits.py.
   Times in ns of a monotonic clock. */

#ifndef SYNCLESS_DATARATE_H
#define SYNCLESS_DATARATE_H

#include "wire.h"

/* Whether the bytes are fewer than the rate (bytes per second) wants in that time. */
static inline int is_below_rate(int64_t bytes, double rate, int64_t ns) {
    return (double)bytes < rate * (double)ns / 1e9;
}

/* -- a response: of one client that makes the server wait ------------------------------------------------ */

struct data_rate {
    int64_t since;              /* when the present wait began; 0: none */
    int64_t waited;             /* before it */
    int64_t given;              /* bytes for the kernel: those there at the first wait, and all since */
    int64_t taken;              /* of them, by the client, at the last check */
    int64_t progress;           /* when it was last seen to take some */
};

/* `unsent`: bytes that the kernel still holds. */
static inline void data_rate_check(struct data_rate *of, int64_t unsent, int64_t now) {
    if (of->given - unsent > of->taken) {
        of->taken = of->given - unsent;
        of->progress = now;
    }
}

static inline int64_t data_rate_waited(const struct data_rate *of, int64_t now) {
    return of->waited + (of->since ? now - of->since : 0);
}

/* Whether its average counts by now; then a check decides. */
static inline int data_rate_counts(const struct data_rate *of, const struct limits *limits, int64_t now) {
    return limits->write_rate > 0 && data_rate_waited(of, now) > limits->write_grace_ns;
}

/* Whether the client has taken less than write_rate on average, for longer than write_grace_seconds. */
static inline int data_rate_is_too_slow(const struct data_rate *of, const struct limits *limits,
                                        int64_t now) {
    return data_rate_counts(of, limits, now) &&
           is_below_rate(of->taken, limits->write_rate, data_rate_waited(of, now));
}

/* Whether the server waits on, at a check: these are more frequent than write_seconds. */
static inline int data_rate_may_wait(const struct data_rate *of, const struct limits *limits, int64_t now) {
    return now - of->progress < limits->write_ns && !data_rate_is_too_slow(of, limits, now);
}

/* -- a request body -------------------------------------------------------------------------------------- */

enum { FAST_ENOUGH, TOO_LONG, TOO_SLOW };

/* After `waited` ns in all, in which `bytes` have come. */
static inline int body_data_rate(int64_t waited, int64_t bytes, const struct limits *limits) {
    if (limits->body_total_ns && waited > limits->body_total_ns)
        return TOO_LONG;
    if (waited > limits->body_grace_ns && is_below_rate(bytes, limits->body_rate, waited))
        return TOO_SLOW;
    return FAST_ENOUGH;
}

/* -- a lingering connection ------------------------------------------------------------------------------ */

/* Whether it may go on until the next check. `checks`: this one counted, below 256; `progressed`: bytes have
   come since the last; `bytes`: in all. */
static inline int may_linger_on(int checks, int progressed, int64_t bytes, const struct limits *limits) {
    int64_t ns = checks * limits->linger_check_ns;
    return progressed && checks < 255 && ns < limits->linger_ns &&
           !is_below_rate(bytes, limits->body_rate, ns);
}

#endif
