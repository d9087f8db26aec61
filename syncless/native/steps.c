/* Requests that are answered in steps: a function is called again and again, with the next piece of the body,
   when the client takes more of the response, or when a time is over. See server.h and syncless/native.h.

   The head of the request is kept, because its bytes go when the handler returns. */

#include "server.h"

struct steps *begin_steps(struct conn *c, struct call *call, size_t head_size) {
    const struct head *head = call->head;
    const syncless_bytes *path = &call->request.path;
    size_t fields = HEAD_BEFORE_HEADERS + head->header_count * sizeof(struct head_header);
    struct steps *steps = calloc(1, sizeof *steps + fields + head_size + path->size);
    char *data;
    if (!steps)
        return NULL;
    steps->head = (struct head *)(steps + 1);
    memcpy(steps->head, head, fields);
    data = (char *)steps->head + fields;
    memcpy(data, call->data, head_size);
    steps->data = data;
    steps->size = head_size;
    if (path->size)
        memcpy(data + head_size, path->data, path->size);
    steps->path.data = data + head_size;
    steps->path.size = path->size;
    steps->match = *call->match;
    steps->step = call->step;
    steps->state = call->state;
    steps->release = call->release;
    steps->began = call->began;
    steps->length = -1;
    body_begin(&steps->body, head->chunked, head->content_length);
    if (!call->unread)                          /* it has come as a whole, or there is none */
        steps->body.ended = 1;
    call->release = NULL;
    c->steps = steps;
    return steps;
}

/* They are over: the response is complete, or the connection ends. */
void drop_steps(struct thread *t, struct conn *c) {
    struct steps *steps = c->steps;
    int64_t ns;
    if (!steps)
        return;
    c->steps = NULL;
    if (steps->begun) {
        ns = steps->began ? clock_ns() - steps->began : -1;
        count_request(t, steps->status, ns);
        if (t->server->logs)
            record(t, c, steps->status, 0, steps->sent, ns, steps->closes, steps->data, steps->size,
                   &steps->fields);
    }
    if (steps->release)
        steps->release(steps->state);
    block_free(&steps->fields);
    free(steps);
    c->continued = 0;
    if (c->time == HEAD_TIME || c->time == BODY_TIME || c->time == PAUSE_TIME)
        start_time(t, c, IDLE_TIME);
}

/* -- the response in pieces ----------------------------------------------------------------------------- */

/* The head. FAILED, or SENT. */
static int begin_response(struct thread *t, struct steps *steps, struct call *call) {
    int status = call->response.status ? call->response.status : 200;
    struct reply reply = reply_frame(status, call->head->minor, is_head(call), call->response.length, 1);
    steps->length = reply.length;
    steps->framing = reply.framing;
    steps->closes = !call->head->keep_alive || reply.framing == BY_CLOSE ||
                    (reply.framing == NO_BODY && call->unread) ||
                    atomic_load_explicit(&t->server->stopping, memory_order_relaxed);
    steps->status = status;
    steps->begun = 1;
    tell_fields(t, call, &steps->fields);
    return put_head(t, call, status, &reply, steps->closes);
}

static int put_piece(struct thread *t, struct conn *c, const syncless_bytes *piece) {
    struct steps *steps = c->steps;
    int chunked = steps->framing == CHUNKED;
    char line[REPLY_CHUNK];
    if (!piece->size)
        return SENT;
    steps->sent += piece->size;
    if (chunked && block_append(&t->out, line, reply_chunk(line, piece->size)))
        return FAILED;
    if (block_append(&t->out, piece->data, piece->size) || (chunked && block_append(&t->out, "\r\n", 2)))
        return FAILED;
    return t->out.size >= OUT_HIGH ? send_out(t, c) : SENT;
}

/* The response is complete. */
static long end_response(struct thread *t, struct conn *c, struct call *call) {
    struct steps *steps = c->steps;
    int closes = steps->closes || !steps->body.ended;
    if (steps->framing == CHUNKED && block_append(&t->out, REPLY_LAST_CHUNK, sizeof REPLY_LAST_CHUNK - 1)) {
        conn_close(t, c, 1);
        return GONE;
    }
    drop_steps(t, c);
    if (c->sent_before < 2)
        c->sent_before++;
    if (closes)
        c->closing = 1;
    return closes ? ENOUGH : (long)call->size;
}

/* Follows the result of a step that is not the whole response. NULL and *outcome as conclude(), or what is
   wrong, perhaps in `words`. */
const char *take_step(struct thread *t, struct conn *c, struct call *call, int result, long *outcome,
                      char *words, size_t room) {
    struct steps *steps = c->steps;
    const syncless_bytes *piece = &call->response.body;
    int64_t left;
    *outcome = (long)call->size;
    if (result == SYNCLESS_READ && steps->told_end)
        return "returned SYNCLESS_READ behind the end of the body";
    if (call->file >= 0)
        return "sent a file as a piece: only a whole response can be a file";
    steps->resume_at = result == SYNCLESS_WAIT ? t->now + call->response.wait_ms * 1000000 : 0;
    if (c->time == BODY_TIME && result != SYNCLESS_READ)
        steps->left_at = t->now;
    steps->wants = (char)result;
    if (result == SYNCLESS_READ && !piece->size)
        return NULL;
    if (!steps->begun) {
        const char *fault;
        if (!call->response.status)
            call->response.status = 200;
        fault = fault_of(call, words, room);
        if (fault)
            return fault;
        if (begin_response(t, steps, call) == FAILED)
            return "found no memory";
        if (steps->framing == NO_BODY) {
            *outcome = end_response(t, c, call);
            return NULL;
        }
    }
    left = steps->length - steps->sent - (int64_t)piece->size;
    if (steps->length >= 0 && (left < 0 || (result == SYNCLESS_DONE && left)))
        return "sent another number of bytes than it had told by syncless_set_length()";
    if (put_piece(t, c, piece) == FAILED) {
        conn_close(t, c, 1);
        *outcome = GONE;
    } else if (result == SYNCLESS_DONE) {
        *outcome = end_response(t, c, call);
    }
    return NULL;
}

/* -- going on ------------------------------------------------------------------------------------------- */

/* Whether a step is to be called without further bytes. */
int is_due(struct thread *t, const struct conn *c) {
    const struct steps *steps = c->steps;
    return steps && !reads_body(c) && (steps->wants != SYNCLESS_WAIT || steps->resume_at <= t->now);
}

/* Calls the step that is due. */
long go_on(struct thread *t, struct conn *c) {
    static const syncless_bytes none = {"", 0};
    if (c->steps->wants == SYNCLESS_READ)
        c->steps->told_end = 1;
    return run_step(t, c, none);
}

/* Gives a step the next piece of its body. As serve_request(). */
long feed_steps(struct thread *t, struct conn *c, const char *data, size_t size) {
    struct steps *steps = c->steps;
    syncless_bytes piece = {data, 0};
    size_t at = 0;
    long n, outcome;
    do {
        piece.data = data + at;
        n = body_next(&steps->body, &t->server->limits, data + at, size - at, &piece.size);
        if (n > 0)
            at += n;
    } while (n > 0 && !piece.size && !steps->body.ended);
    if (n < 0 && steps->begun) {
        conn_close(t, c, 1);
        return GONE;
    }
    if (n < 0) {
        refuse(t, c, (int)-n, NOT_MEASURED, steps->data, steps->size);
        drop_steps(t, c);
        return ENOUGH;
    }
    if (!piece.size)
        return at ? (long)at : MORE;
    outcome = run_step(t, c, piece);
    return outcome > 0 ? (long)at : outcome;
}

/* The client, or the time, is waited for: the deadline that fits. */
void steps_wait(struct thread *t, struct conn *c) {
    struct steps *steps = c->steps;
    if (!reads_body(c)) {
        start_pause(t, c, steps->resume_at > t->now ? steps->resume_at : t->now);
    } else if (c->time != BODY_TIME) {
        if (steps->left_at)
            c->body_since += t->now - steps->left_at;
        else
            c->body_since = t->now;
        steps->left_at = 0;
        c->checks = c->progressed = 0;
        start_time(t, c, BODY_TIME);
    }
}
