/* The next request of a connection: its head, the route, the body unless it is taken in pieces; then its
   handler. All other requests are for Python, which gets the bytes as they came. */

#include <sys/socket.h>

#include "server.h"

/* -- heads that are remembered -------------------------------------------------------------------------- */

void forget_head(struct thread *t, struct conn *c) {
    if (c->memory)
        t->memories--;
    free(c->memory);
    c->memory = NULL;
}

/* A client sends the same head again and again: the next one is compared with it, not read. */
static void remember_head(struct thread *t, struct conn *c, const char *data, size_t size,
                          const struct head *head, const struct match *match) {
    size_t fields = head->header_count * sizeof(struct head_header);
    size_t before = offsetof(struct memory, head) + HEAD_BEFORE_HEADERS + fields;
    struct memory *memory;
    forget_head(t, c);
    if (size > MEMORY_MOST || t->memories * t->server->thread_count >= t->server->limits.remembered)
        return;
    memory = malloc(before + size);
    if (!memory)
        return;
    memory->size = size;
    memory->match = *match;
    memcpy(&memory->head, head, HEAD_BEFORE_HEADERS + fields);
    memcpy((char *)memory + before, data, size);
    memory->bytes = (char *)memory + before;
    c->memory = memory;
    t->memories++;
}

/* -- the request ---------------------------------------------------------------------------------------- */

/* > 0: the bytes of a request that has been answered. MORE: the client has to send more, at least c->need
   bytes in all. PYTHON: the request is for Python. ENOUGH: nothing more is answered on this connection.
   GONE. */
long serve_request(struct thread *t, struct conn *c, const char *data, size_t size) {
    const struct memory *memory = c->memory;
    struct head *head = &t->head;
    syncless_bytes path, body = {NULL, 0};
    char *decoded = NULL;
    long used, whole;
    int pieces = 0;
    if (memory && memory->size <= size && !memcmp(data, memory->bytes, memory->size)) {
        path.data = data + memory->head.path;
        path.size = memory->head.path_size;
        return run_handler(t, c, &memory->match, data, memory->size, memory->size, &memory->head, path, body);
    }
    used = head_scan(data, size, &t->server->limits.head, head);
    if (used < 0) {
        refuse(t, c, (int)-used, NO_REQUEST, data, size);
        return ENOUGH;
    }
    if (used == 0)
        return MORE;
    if (head->escaped && !(decoded = arena_alloc(&t->arena, head->path_size)))
        return PYTHON;
    whole = used;
    if (!routes_find_head(t->server->routes, data, head, decoded, &path, &t->match))
        whole = PYTHON;
    else if (!head->chunked && head->content_length > t->server->limits.body_bytes)
        whole = -R_BODY_TOO_LARGE;
    else if (head->chunked || head->content_length > 0)
        whole = (pieces = t->match.route->pieces) ? used
                                                  : read_body(t, c, data, size, head, used, &body);
    else if (c->sent_before && !head->escaped && head->path_size && !head->expect_continue)
        remember_head(t, c, data, used, head, &t->match);
    if (whole > 0)
        whole = run_handler(t, c, &t->match, data, whole, used, head, path, body);
    else
        arena_reset(&t->arena);
    if (whole < 0 && whole > GONE - 1)
        return whole;
    if (whole < 0) {
        refuse(t, c, (int)-whole, NOT_MEASURED, data, size);
        return ENOUGH;
    }
    if (whole <= 0)
        return whole;
    drop_chunks(c);
    if (pieces && reads_body(c))
        wait_for_body(t, c, head, size, used);
    else
        c->continued = 0;
    return whole;
}
