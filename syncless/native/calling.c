/* The call of a handler or of one of its steps, and what follows from the result. See server.h. */

#include <stdio.h>
#include <unistd.h>

#include "server.h"

static void set_request(struct call *call, const syncless_bytes *path, const syncless_bytes *body) {
    syncless_request *request = &call->request;
    const struct head *head = call->head;
    const char *data = call->data;
    request->context = call->match->route->context;
    request->method.data = data + head->method;
    request->method.size = head->method_size;
    request->path = *path;
    request->query.data = data + head->query;
    request->query.size = head->query_size;
    request->target.data = data + head->target;
    request->target.size = head->target_size;
    request->body = *body;
    request->minor = head->minor;
    request->field_count = head->header_count;
    memset(&call->response.status, 0, sizeof call->response - offsetof(syncless_response, status));
    call->response.length = -1;
}

static void begin_call(struct thread *t, struct conn *c, const struct match *match, const char *data,
                       size_t size, const struct head *head) {
    struct call *call = &t->call;
    call->conn = c;
    call->match = match;
    call->data = data;
    call->size = size;
    call->head = head;
    call->file = -1;
    call->step = NULL;
    call->release = NULL;
    bump(&t->calls, 1);
    atomic_store_explicit(&t->busy_with, match->route, memory_order_relaxed);
}

/* The fault of a response, perhaps in `words`; NULL if it is sound. */
const char *fault_of(const struct call *call, char *words, size_t room) {
    const syncless_response *response = &call->response;
    if (!response->status && !response->body.size && !response->type.size && !call->fields.size &&
        call->file < 0)
        return "returned SYNCLESS_DONE without a response";
    if (response->status && (response->status < 200 || response->status >= CODES)) {
        snprintf(words, room, "gave the status %d, which is not between 200 and 599", response->status);
        return words;
    }
    if (!head_is_value(response->type.data, response->type.size))
        return "gave a Content-Type with bytes that a header field cannot have";
    if (call->file >= 0 && response->body.size)
        return "gave a file and other bytes: a response is one or the other";
    if (response->body.size >= BLOCK_MOST) {
        snprintf(words, room, "gave a body of %zu bytes, and %d is the most: send a file, or pieces",
                 response->body.size, BLOCK_MOST - 1);
        return words;
    }
    return NULL;
}

/* Sends a response that is complete. */
static long respond_now(struct thread *t, struct conn *c, struct call *call) {
    const struct head *head = call->head;
    int closes = !head->keep_alive || call->unread ||
                 atomic_load_explicit(&t->server->stopping, memory_order_relaxed);
    int64_t size = call->file >= 0 ? call->file_size : (int64_t)call->response.body.size;
    int status = call->response.status = call->response.status ? call->response.status : 200, outcome;
    struct block fields = {0};
    tell_fields(t, call, &fields);              /* which sending may give away */
    outcome = answer(t, c, call, closes);
    count_request(t, status, call->began ? clock_ns() - call->began : -1);
    if (t->server->logs)
        record(t, c, status, 0, is_head(call) ? 0 : size, clock_ns() - call->began, closes, call->data,
               call->size, &fields);
    block_free(&fields);
    if (outcome == FAILED) {
        conn_close(t, c, 1);
        return GONE;
    }
    if (c->sent_before < 2)
        c->sent_before++;
    if (closes)
        c->closing = 1;
    return closes ? ENOUGH : (long)call->size;
}

/* The request cannot be answered: a 500, or the connection is cut off if a part of the response is out. */
static long respond_fault(struct thread *t, struct conn *c, struct call *call) {
    const struct head *head = call->head;
    if (c->steps && c->steps->begun) {
        conn_close(t, c, 1);
        return GONE;
    }
    refuse(t, c, R_FAILED, call->began ? clock_ns() - call->began : NOT_MEASURED, call->data + head->method,
           call->size - head->method);
    drop_steps(t, c);
    return ENOUGH;
}

/* > 0: the connection goes on; PYTHON: the handler does not answer; ENOUGH: the connection closes once all is
   sent; GONE: it is closed. `head_size`: bytes of the request's head. */
static long conclude(struct thread *t, struct conn *c, int result, size_t head_size) {
    struct call *call = &t->call;
    const struct route *route = call->match->route;
    const char *fault;
    char words[160];
    long outcome = 0;
    int begun = c->steps && c->steps->begun;
    atomic_store_explicit(&t->busy_with, NULL, memory_order_relaxed);
    if (result == SYNCLESS_DONE && !begun) {
        fault = fault_of(call, words, sizeof words);
        if (!fault) {
            outcome = respond_now(t, c, call);
            if (outcome != GONE)
                drop_steps(t, c);
        }
    } else if (result == SYNCLESS_PASS && !c->steps) {
        fault = NULL;
        outcome = PYTHON;
    } else if (result == SYNCLESS_PASS) {
        fault = "returned SYNCLESS_PASS from a step";
    } else if (result != SYNCLESS_DONE && (result < SYNCLESS_READ || result > SYNCLESS_WAIT)) {
        snprintf(words, sizeof words, "returned %d", result);
        fault = words;
    } else if (!c->steps && !call->step) {
        fault = "asked for another step without syncless_begin()";
    } else if (!c->steps && !begin_steps(c, call, head_size)) {
        fault = "found no memory";
    } else {
        fault = take_step(t, c, call, result, &outcome, words, sizeof words);
    }
    if (call->file >= 0 && call->close_file)
        close(call->file);
    if (call->release)
        call->release(call->state);
    if (fault) {
        tell_fault(t, route, fault);
        outcome = respond_fault(t, c, call);
    }
    call->fields.size = 0;
    block_reset(&call->body, RECEIVE);
    arena_reset(&t->arena);
    return outcome;
}

/* `size`: bytes of the request that are the handler's, `head_size` of its head. */
long run_handler(struct thread *t, struct conn *c, const struct match *match, const char *data, size_t size,
                 size_t head_size, const struct head *head, syncless_bytes path, syncless_bytes body) {
    struct call *call = &t->call;
    int result;
    call->began = t->server->counts_time || t->server->logs ? clock_ns() : 0;
    call->unread = match->route->pieces && (head->chunked || head->content_length > 0);
    begin_call(t, c, match, data, size, head);
    set_request(call, &path, &body);
    result = match->route->handler(&call->request, &call->response);
    return conclude(t, c, result, head_size);
}

long run_step(struct thread *t, struct conn *c, syncless_bytes piece) {
    struct steps *steps = c->steps;
    struct call *call = &t->call;
    int result;
    call->began = steps->began;
    call->unread = !steps->body.ended;
    begin_call(t, c, &steps->match, steps->data, steps->size, steps->head);
    set_request(call, &steps->path, &piece);
    result = steps->step(&call->request, &call->response, steps->state);
    return conclude(t, c, result, steps->size);
}
