/* The head and the body of a response, and answers of the server's own. The framing is that of
   http/response.pyx: a native response always has a length. */

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "server.h"

static void put(struct thread *t, const char *data, size_t size) {
    block_append(&t->out, data, size);          /* the caller has reserved the room */
}

/* By the system's time, as in http/responseheads.pyx. */
static void put_dates(struct thread *t, time_t now) {
    if (t->dated != now || !t->dates_size) {
        static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        struct tm tm;
        gmtime_r(&now, &tm);
        t->dates_size = snprintf(
            t->dates, sizeof t->dates, "Server: syncless\r\nDate: %.3s, %02d %.3s %d %02d:%02d:%02d GMT\r\n",
            days + tm.tm_wday * 3, tm.tm_mday, months + tm.tm_mon * 3, tm.tm_year + 1900, tm.tm_hour,
            tm.tm_min, tm.tm_sec);
        t->dated = now;
    }
    put(t, t->dates, t->dates_size);
}

static size_t decimal(char *text, size_t number) {
    char reversed[24];
    size_t n = 0, i;
    do
        reversed[n++] = (char)('0' + number % 10);
    while (number /= 10);
    for (i = 0; i < n; i++)
        text[i] = reversed[n - 1 - i];
    return n;
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

int put_head(struct thread *t, struct call *call, int status, int64_t length, int chunked, int closes) {
    const syncless_bytes *type = &call->response.type;
    size_t start = t->out.size, fields = call->fields.size;
    time_t now = time(NULL);
    char number[24];
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
    if (length >= 0) {
        put(t, "Content-Length: ", 16);
        put(t, number, decimal(number, length));
        put(t, "\r\n", 2);
    }
    if (chunked)
        put(t, "Transfer-Encoding: chunked\r\n", 28);
    if (closes)
        put(t, "Connection: close\r\n\r\n", 21);
    else if (call->head->minor == 0)
        put(t, "Connection: keep-alive\r\n\r\n", 26);
    else
        put(t, "\r\n", 2);
    if (!fields && length >= 0)
        remember(t, call, status, length, closes, start);
    return SENT;
}

int is_head(const struct call *call) {
    return call->request.method.size == 4 && !memcmp(call->request.method.data, "HEAD", 4);
}

/* Sends the response, or puts it to those that are sent together. FAILED: the connection cannot go on. */
int answer(struct thread *t, struct conn *c, struct call *call, int closes) {
    int status = call->response.status, head_only = is_head(call);
    int without = status == 204 || status == 304;
    int64_t length = call->file >= 0 ? call->file_size : (int64_t)call->response.body.size;
    if (status == 205)
        length = 0;
    if (put_head(t, call, status, without || (head_only && !length) ? -1 : length, 0, closes) == FAILED)
        return FAILED;
    if (head_only || without || !length) {
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
void refuse(struct thread *t, struct conn *c, int status, int64_t ns, const char *data, size_t size) {
    const struct text *body = &t->server->refusals[status];
    char fields[160];
    c->closing = 1;
    if (ns != NO_REQUEST)
        count_request(t, status, ns);
    else
        atomic_fetch_add_explicit(&t->counts.refused[status], 1, memory_order_relaxed);
    if (block_reserve(&t->out, 512 + body->size))
        return;
    put(t, t->server->reasons[status].data, t->server->reasons[status].size);
    put_dates(t, time(NULL));
    put(t, fields, snprintf(fields, sizeof fields,
                            "Content-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
                            "Connection: close\r\n\r\n", body->size));
    if (!head_asks_by_head(data, size))
        put(t, body->data, body->size);
    if (t->server->logs)
        record(t, c, status, ns == NO_REQUEST, body->size, ns > 0 ? ns : 0, 1, data, size);
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
