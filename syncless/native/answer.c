/* The head and the body of a response, and answers of the server's own. */

#include <time.h>
#include <unistd.h>

#include "server.h"

static void put(struct thread *t, const char *data, size_t size) {
    block_append(&t->out, data, size);          /* the caller has reserved the room */
}

/* By the system's time, as in http/listener/responseheads.pxi. */
static void put_dates(struct thread *t, time_t now) {
    if (t->dated != now || !t->dates_size) {
        t->dates_size = reply_dates(t->dates, now);
        t->dated = now;
    }
    put(t, t->dates, t->dates_size);
}

static int is_last(struct thread *t, const struct call *call, int status, size_t size, int closes,
                   time_t now) {
    const struct last_head *last = &t->last;
    const syncless_bytes *type = &call->response.type;
    return last->size && last->status == status && last->body_size == size && last->closes == closes &&
           last->minor == call->head->minor && last->type_size == type->size &&
           (!type->size || !memcmp(last->type, type->data, type->size)) &&
           last->dated == now;
}

static void remember(struct thread *t, const struct call *call, int status, size_t size, int closes,
                     size_t start) {
    struct last_head *last = &t->last;
    const syncless_bytes *type = &call->response.type;
    last->size = t->out.size - start;
    if (type->size > sizeof last->type || last->size > sizeof last->data) {
        last->size = 0;
        return;
    }
    memcpy(last->data, t->out.data + start, last->size);
    if (type->size)                     /* without one `data` may be NULL */
        memcpy(last->type, type->data, type->size);
    last->type_size = type->size;
    last->status = status;
    last->body_size = size;
    last->closes = closes;
    last->minor = call->head->minor;
    last->dated = t->dated;
}

int put_head(struct thread *t, struct call *call, int status, const struct reply *reply, int closes) {
    const syncless_bytes *type = &call->response.type;
    size_t start = t->out.size, fields = call->fields.size;
    int64_t length = reply->length;
    time_t now = time(NULL);
    if (block_reserve(&t->out, 512 + type->size + fields))
        return FAILED;
    if (!fields && length >= 0 && is_last(t, call, status, length, closes, now)) {
        put(t, t->last.data, t->last.size);
        return SENT;
    }
    put(t, t->server->reasons[status].data, t->server->reasons[status].size);
    put_dates(t, now);
    if (type->size) {
        put(t, "Content-Type: ", 14);
        put(t, type->data, type->size);
        put(t, "\r\n", 2);
    }
    if (fields)
        put(t, call->fields.data, fields);
    t->out.size += reply_framing(t->out.data + t->out.size, length, reply->framing == CHUNKED,
                                 call->head->minor, closes);
    if (!fields && length >= 0)
        remember(t, call, status, length, closes, start);
    return SENT;
}

int is_head(const struct call *call) {
    return call->request.method.size == 4 && !memcmp(call->request.method.data, "HEAD", 4);
}

/* Sends the response, or puts it to those that are sent together. FAILED: the connection cannot go on. */
int answer(struct thread *t, struct conn *c, struct call *call, int closes) {
    int64_t length = call->file >= 0 ? call->file_size : (int64_t)call->response.body.size;
    struct reply reply = reply_frame(call->response.status, call->head->minor, is_head(call), length, 0);
    if (put_head(t, call, call->response.status, &reply, closes) == FAILED)
        return FAILED;
    if (reply.framing == NO_BODY || !length) {
        if (call->file >= 0 && call->close_file)
            close(call->file);
        call->file = -1;
    } else if (call->file >= 0) {
        int outcome = send_part(t, c, call);
        call->file = -1;
        return outcome;
    } else if (length > COPIED) {
        return send_large(t, c, call->response.body.data, length, call->response.permanent);
    } else if (block_append(&t->out, call->response.body.data, length)) {
        return FAILED;
    }
    return t->out.size >= OUT_HIGH ? send_out(t, c) : SENT;
}

/* Answers bytes that are no request, or a request that has failed; the connection closes. `data`: the
   received bytes. `ns`: NO_REQUEST, or as for count_request(). */
void refuse(struct thread *t, struct conn *c, int reason, int64_t ns, const char *data, size_t size) {
    static char type[] = "Content-Type: text/plain; charset=utf-8\r\n";
    const struct block fields = {.data = type, .size = sizeof type - 1};
    const struct text *body = &t->server->refusals[reason];
    int status = refusal_status(reason);
    c->closing = 1;
    if (ns != NO_REQUEST)
        count_request(t, status, ns);
    else
        atomic_fetch_add_explicit(&t->counts.refused[status], 1, memory_order_relaxed);
    if (block_reserve(&t->out, 512 + body->size))
        return;
    put(t, t->server->reasons[status].data, t->server->reasons[status].size);
    put_dates(t, time(NULL));
    t->out.size += reply_refusal(t->out.data + t->out.size, body->size, -1);
    if (!head_asks_by_head(data, size))
        put(t, body->data, body->size);
    if (t->server->logs)
        record(t, c, status, ns == NO_REQUEST, body->size, ns > 0 ? ns : 0, 1, data, size, &fields);
}

/* `ns` < 0: it was not measured. */
void count_request(struct thread *t, int status, int64_t ns) {
    int bucket = 0;
    bump(&t->counts.requests[status], 1);
    if (ns < 0)
        return;
    while (ns > t->server->bounds[bucket])
        bucket++;
    bump(&t->counts.latency[bucket], 1);
    bump(&t->counts.latency_ns, ns);
}
