/* Queues of messages between threads, and what the threads tell Python. See server.h.

   They tell of the requests that they have answered, for the access log, and of handlers that fail, for the
   error log. Any thread may send, one takes. A sender never waits. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "server.h"

struct message *message_new(int kind, size_t size) {
    struct message *message = malloc(sizeof *message + size);
    if (!message)
        return NULL;
    message->next = NULL;
    message->kind = kind;
    message->fd = -1;
    message->size = size;
    memset(&message->address, 0, sizeof message->address);
    return message;
}

/* A thread's eventfd is never written to: the kernel is made to look again at whether it can be, and a wrong
   epoll_ctl fails where the number has become a file of the program. */
void wake(struct inbox *it) {
    uint64_t one = 1;
    if (it->of) {
        struct epoll_event event = {.events = EPOLLOUT | EPOLLONESHOT, .data.u64 = MARKED((uintptr_t)it)};
        epoll_ctl(it->of->epoll, EPOLL_CTL_MOD, it->event, &event);
        return;
    }
    while (write(it->event, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void send_message(struct inbox *to, struct message *message) {
    struct message *first = atomic_load_explicit(&to->first, memory_order_relaxed);
    do
        message->next = first;
    while (!atomic_compare_exchange_weak_explicit(&to->first, &first, message, memory_order_release,
                                                  memory_order_relaxed));
    if (!first)                                 /* it may be asleep */
        wake(to);
}

/* In the order in which they were sent. */
struct message *take_messages(struct inbox *from) {
    struct message *message, *next, *turned = NULL;
    message = atomic_exchange_explicit(&from->first, NULL, memory_order_acquire);
    for (; message; message = next) {
        next = message->next;
        message->next = turned;
        turned = message;
    }
    return turned;
}

/* Closes the connections that nobody takes. */
void drop_messages(struct inbox *from) {
    struct message *message = take_messages(from), *next;
    for (; message; message = next) {
        next = message->next;
        if (message->kind == CONNECTION_MESSAGE)
            close(message->fd);
        free(message);
    }
}

/* -- the access log -------------------------------------------------------------------------------------- */

/* Each thread collects its records and sends them to Python in blocks, where handlers of the log make lines
   of them. Records that Python does not take are dropped and counted, as by http/log/loglines.pyx. */

enum { BLOCK = 65536, HEAD_SHOWN = 8192 };
#define RECORDS_NS 250000000    /* for which records are held back */

void record(struct thread *t, struct conn *c, int status, int refused, int64_t body, int64_t ns, int closes,
            const char *data, size_t size, const struct block *fields) {
    struct record r;
    if (atomic_load_explicit(&t->server->log_held, memory_order_relaxed) > LOG_HELD) {
        atomic_fetch_add_explicit(&t->counts.dropped, 1, memory_order_relaxed);
        return;
    }
    memset(&r, 0, sizeof r);
    r.size = (uint32_t)(size < HEAD_SHOWN ? size : HEAD_SHOWN);
    r.fields_size = (uint32_t)(fields->size < HEAD_SHOWN ? fields->size : HEAD_SHOWN);
    r.status = (uint16_t)status;
    r.refused = (uint8_t)refused;
    r.closes = (uint8_t)closes;
    r.address = c->address;
    r.body = body;
    r.ns = ns;
    if (block_reserve(&t->records, sizeof r + r.size + r.fields_size)) {
        atomic_fetch_add_explicit(&t->counts.dropped, 1, memory_order_relaxed);
        return;
    }
    if (!t->records.size)
        t->records_since = t->now;
    block_append(&t->records, (const char *)&r, sizeof r);
    block_append(&t->records, data, r.size);
    if (r.fields_size)
        block_append(&t->records, fields->data, r.fields_size);
    if (t->records.size >= BLOCK)
        send_records(t);
}

void tell_fields(struct thread *t, const struct call *call, struct block *into) {
    const syncless_bytes *type = &call->response.type;
    if (!t->server->logs_fields || block_reserve(into, 16 + type->size + call->fields.size))
        return;
    if (type->size) {
        block_append(into, "Content-Type: ", 14);
        block_append(into, type->data, type->size);
        block_append(into, "\r\n", 2);
    }
    if (call->fields.size)
        block_append(into, call->fields.data, call->fields.size);
}

static int64_t count_records(const struct block *records) {
    struct record one;
    int64_t count = 0;
    for (size_t at = 0; at < records->size; at += sizeof one + one.size + one.fields_size, count++)
        memcpy(&one, records->data + at, sizeof one);
    return count;
}

void send_records(struct thread *t) {
    struct message *message;
    if (!t->records.size)
        return;
    message = message_new(LOG_MESSAGE, t->records.size);
    if (message) {
        memcpy(message->data, t->records.data, t->records.size);
        atomic_fetch_add_explicit(&t->server->log_held, t->records.size, memory_order_relaxed);
        send_message(&t->server->python, message);
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

/* -- the error log: one line a second from each thread --------------------------------------------------- */

#define FAULT_NS 1000000000LL   /* between two lines */
enum { LINE = 512 };

void tell_fault(struct thread *t, const struct route *route, const char *words) {
    struct message *message;
    if (t->now < t->fault_at) {
        t->faults++;
        return;
    }
    message = message_new(FAULT_MESSAGE, LINE);
    if (!message)
        return;
    message->size = snprintf(message->data, LINE, "the native handler of '%.200s' %s", route->name, words);
    if (t->faults && message->size < LINE)
        message->size += snprintf(message->data + message->size, LINE - message->size,
                                 "; before that, %lld more requests have failed", (long long)t->faults);
    if (message->size >= LINE)
        message->size = LINE - 1;
    t->fault_at = t->now + FAULT_NS;
    t->faults = 0;
    send_message(&t->server->python, message);
}
