/* The next request of a connection: its head, the route, the body as a whole; then its handler. All other
   requests are for Python, which gets the bytes as they came. */

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

/* -- bodies --------------------------------------------------------------------------------------------- */

struct chunks {                 /* a chunked body, as far as it has come */
    size_t at;                  /* bytes of the request that have been read */
    int64_t left;               /* bytes of the chunk; -1: behind its data, -2: in the trailers */
    struct block body;
};

void drop_chunks(struct conn *c) {
    if (c->chunks)
        block_free(&c->chunks->body);
    free(c->chunks);
    c->chunks = NULL;
}

/* Reads on. > 0: the bytes of the request, whose body is complete. MORE, PYTHON, or minus a status. */
static long read_chunks(struct thread *t, struct conn *c, const char *data, size_t size, size_t head) {
    const struct limits *limits = &t->server->limits;
    struct chunks *chunks = c->chunks;
    if (!chunks) {
        chunks = c->chunks = calloc(1, sizeof *chunks);
        if (!chunks)
            return PYTHON;
        chunks->at = head;
    }
    for (;;) {
        const char *p = data + chunks->at;
        size_t here = size - chunks->at;
        long n;
        if (chunks->left > 0) {
            size_t part = (int64_t)here < chunks->left ? here : (size_t)chunks->left;
            if (block_append(&chunks->body, p, part))
                return PYTHON;
            chunks->at += part;
            chunks->left -= part;
            if (chunks->left)
                return MORE;
            chunks->left = -1;
            continue;
        }
        if (chunks->left == -1) {               /* the CRLF behind the data of a chunk */
            if (here && p[0] != '\r')
                return -400;
            if (here < 2)
                return MORE;
            if (p[1] != '\n')
                return -400;
            chunks->at += 2;
            chunks->left = 0;
            continue;
        }
        if (chunks->left == -2) {
            n = head_trailers(p, here, limits->trailer_bytes);
            if (n < 0)
                return -400;                    /* as http/body.pyx says it */
            if (n == 0)
                return MORE;
            chunks->at += n;
            return (long)chunks->at;
        }
        n = head_chunk_line(p, here, limits->chunk_line, &chunks->left);
        if (n == 0 && here > (size_t)limits->chunk_line)
            return -413;
        if (n <= 0)
            return n;
        chunks->at += n;
        if ((int64_t)chunks->body.size + chunks->left > limits->body_bytes)
            return -413;
        if (chunks->at + chunks->left > BODY_MOST)
            return PYTHON;
        if (chunks->left == 0)
            chunks->left = -2;
    }
}

static void wait_for_body(struct thread *t, struct conn *c, const struct head *head, size_t size,
                          size_t used) {
    if (head->expect_continue && !c->continued && size == used) {
        block_append(&t->out, "HTTP/1.1 100 Continue\r\n\r\n", 25);
        c->continued = 1;
    }
    if (c->time != BODY_TIME) {
        c->body_since = t->now;
        c->lingered = 0;
        c->looks = c->heard = 0;
        start_time(t, c, BODY_TIME);
    }
}

/* As read_chunks(), whatever the framing; *body is set where it is complete. */
static long read_body(struct thread *t, struct conn *c, const char *data, size_t size,
                      const struct head *head, size_t used, syncless_bytes *body) {
    long whole;
    if (head->chunked) {
        whole = read_chunks(t, c, data, size, used);
        if (whole > 0) {
            body->data = c->chunks->body.data;
            body->size = c->chunks->body.size;
        }
    } else {
        if (head->content_length > t->server->limits.body_bytes)
            return -413;
        if (head->content_length > BODY_MOST)
            return PYTHON;
        whole = (long)(used + head->content_length);
        body->data = data + used;
        body->size = head->content_length;
        if ((size_t)whole > size) {
            c->need = (uint32_t)whole;
            whole = MORE;
        }
    }
    if (whole == MORE)
        wait_for_body(t, c, head, size, used);
    return whole;
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
    if (memory && memory->size <= size && !memcmp(data, memory->bytes, memory->size)) {
        path.data = data + memory->head.path;
        path.size = memory->head.path_size;
        return run_handler(t, c, &memory->match, data, memory->size, &memory->head, path, body);
    }
    used = head_scan(data, size, &t->server->head_limits, head);
    if (used < 0) {
        refuse(t, c, (int)-used, data, size);
        return ENOUGH;
    }
    if (used == 0)
        return MORE;
    if (head->escaped && !(decoded = arena_alloc(&t->arena, head->path_size)))
        return PYTHON;
    whole = used;
    if (!routes_find_head(t->server->routes, data, head, decoded, &path, &t->match))
        whole = PYTHON;
    else if (head->chunked || head->content_length > 0)
        whole = read_body(t, c, data, size, head, used, &body);
    else if (c->sent_before && !head->escaped && head->path_size && !head->expect_continue)
        remember_head(t, c, data, used, head, &t->match);
    if (whole > 0)
        whole = run_handler(t, c, &t->match, data, whole, head, path, body);
    else
        arena_reset(&t->arena);
    if (whole < 0 && whole > GONE - 1)
        return whole;
    if (whole < 0) {
        refuse(t, c, (int)-whole, data, size);
        return ENOUGH;
    }
    if (whole > 0) {
        drop_chunks(c);
        c->continued = 0;
    }
    return whole;
}
