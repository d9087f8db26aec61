/* The bodies of requests as a whole, for handlers that want them so; those that take pieces: steps.c. */

#include "server.h"

struct chunks {                 /* a chunked body, as far as it has come */
    size_t at;                  /* bytes of the request that have been read */
    struct framing framing;
    struct block body;
};

void drop_chunks(struct conn *c) {
    if (c->chunks)
        block_free(&c->chunks->body);
    free(c->chunks);
    c->chunks = NULL;
}

/* Reads on. > 0: the bytes of the request, whose body is complete. MORE, PYTHON, or minus a status. */
static long read_chunks(struct thread *t, struct conn *c, const char *data, size_t size,
                        const struct head *head, size_t used) {
    struct chunks *chunks = c->chunks;
    if (!chunks) {
        chunks = c->chunks = calloc(1, sizeof *chunks);
        if (!chunks)
            return PYTHON;
        chunks->at = used;
        body_begin(&chunks->framing, head->chunked, head->content_length);
    }
    while (!chunks->framing.ended) {
        size_t piece;
        long n = body_next(&chunks->framing, &t->server->limits, data + chunks->at, size - chunks->at,
                           &piece);
        if (n <= 0)
            return n;
        if (block_append(&chunks->body, data + chunks->at, piece))
            return PYTHON;
        chunks->at += n;
        if (chunks->framing.left > 0 && chunks->at + chunks->framing.left > BODY_MOST)
            return PYTHON;
    }
    return (long)chunks->at;
}

/* The client is to send its body, and has begun to be waited for. `size`: bytes of the request that are
   there, `used` of which are its head. */
void wait_for_body(struct thread *t, struct conn *c, const struct head *head, size_t size, size_t used) {
    int begun = c->steps && c->steps->begun;    /* then it would stand inside the response */
    if (head->expect_continue && !c->continued && !begun && size == used) {
        block_append(&t->out, REPLY_CONTINUE, sizeof REPLY_CONTINUE - 1);
        c->continued = 1;
    }
    if (c->time != BODY_TIME) {
        c->body_since = t->now;
        c->lingered = 0;
        c->checks = c->progressed = 0;
        start_time(t, c, BODY_TIME);
    }
}

long read_body(struct thread *t, struct conn *c, const char *data, size_t size, const struct head *head,
               size_t used, syncless_bytes *body) {
    long whole;
    if (head->chunked) {
        whole = read_chunks(t, c, data, size, head, used);
        if (whole > 0) {
            body->data = c->chunks->body.data;
            body->size = c->chunks->body.size;
        }
    } else {
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
