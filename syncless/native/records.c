/* Records of the requests that threads have answered, for the access log. Each thread collects them and sends
   them to Python in blocks, where handlers of the log make lines of them. Records that Python does not take
   are dropped and counted, as by http/loglines.pyx. */

#include <string.h>

#include "records.h"
#include "server.h"

enum { BLOCK = 65536, HEAD_SHOWN = 8192 };
#define RECORDS_NS 250000000    /* for which records are held back */

void record(struct thread *t, struct conn *c, int status, int refused, int64_t body, int64_t ns, int closes,
            const char *data, size_t size) {
    struct record r;
    if (atomic_load_explicit(&t->server->log_held, memory_order_relaxed) > LOG_HELD) {
        atomic_fetch_add_explicit(&t->counts.dropped, 1, memory_order_relaxed);
        return;
    }
    memset(&r, 0, sizeof r);
    r.size = (uint32_t)(size < HEAD_SHOWN ? size : HEAD_SHOWN);
    r.status = (uint16_t)status;
    r.refused = (uint8_t)refused;
    r.closes = (uint8_t)closes;
    r.address = c->address;
    r.body = body;
    r.ns = ns;
    if (block_reserve(&t->records, sizeof r + r.size)) {
        atomic_fetch_add_explicit(&t->counts.dropped, 1, memory_order_relaxed);
        return;
    }
    if (!t->records.size)
        t->records_since = t->now;
    block_append(&t->records, (const char *)&r, sizeof r);
    block_append(&t->records, data, r.size);
    if (t->records.size >= BLOCK)
        send_records(t);
}

static int64_t count_records(const struct block *records) {
    struct record one;
    int64_t count = 0;
    for (size_t at = 0; at < records->size; at += sizeof one + one.size, count++)
        memcpy(&one, records->data + at, sizeof one);
    return count;
}

void send_records(struct thread *t) {
    struct letter *letter;
    if (!t->records.size)
        return;
    letter = letter_new(LOG_LETTER, t->records.size);
    if (letter) {
        memcpy(letter->data, t->records.data, t->records.size);
        atomic_fetch_add_explicit(&t->server->log_held, t->records.size, memory_order_relaxed);
        send_letter(&t->server->python, letter);
    } else {
        atomic_fetch_add_explicit(&t->counts.dropped, count_records(&t->records), memory_order_relaxed);
    }
    block_reset(&t->records, BLOCK * 2);
}

int64_t records_wait(struct thread *t) {
    int64_t left;
    if (!t->records.size)
        return -1;
    left = t->records_since + RECORDS_NS - t->now;
    if (left > 0)
        return left;
    send_records(t);
    return -1;
}
