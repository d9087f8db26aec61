/* The bodies of requests: as a whole, for handlers that want them so, or piece by piece as they come. See
   server.h. */

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

/* -- pieces --------------------------------------------------------------------------------------------- */

enum { BEHIND_DATA = -1, IN_TRAILERS = -2 };    /* framing.left: in front of the CRLF of a chunk, and so on */

void begin_body(struct framing *framing, const struct head *head) {
    memset(framing, 0, sizeof *framing);
    framing->chunked = head->chunked;
    framing->left = head->chunked || head->content_length < 0 ? 0 : head->content_length;
    framing->ended = !head->chunked && !framing->left;
}

long next_piece(const struct limits *limits, struct framing *framing, const char *data, size_t size,
                syncless_bytes *piece) {
    long n;
    piece->data = data;
    piece->size = 0;
    if (framing->left > 0) {
        piece->size = (int64_t)size < framing->left ? size : (size_t)framing->left;
        framing->left -= piece->size;
        framing->size += piece->size;
        if (!framing->left && framing->chunked)
            framing->left = BEHIND_DATA;
        else if (!framing->left)
            framing->ended = 1;
        return (long)piece->size;
    }
    if (framing->left == BEHIND_DATA) {
        if (size && data[0] != '\r')
            return -400;
        if (size < 2)
            return MORE;
        if (data[1] != '\n')
            return -400;
        framing->left = 0;
        return 2;
    }
    if (framing->left == IN_TRAILERS) {
        n = head_trailers(data, size, limits->trailer_bytes);
        if (n > 0)
            framing->ended = 1;
        return n;
    }
    n = head_chunk_line(data, size, limits->chunk_line, &framing->left);
    if (n == 0 && size > (size_t)limits->chunk_line)
        return -413;
    if (n <= 0)
        return n;
    if (framing->left > limits->body_bytes - framing->size)
        return -413;
    if (!framing->left)
        framing->left = IN_TRAILERS;
    return n;
}

/* -- as a whole ----------------------------------------------------------------------------------------- */

/* Reads on. > 0: the bytes of the request, whose body is complete. MORE, PYTHON, or minus a status. */
static long read_chunks(struct thread *t, struct conn *c, const char *data, size_t size,
                        const struct head *head, size_t used) {
    struct chunks *chunks = c->chunks;
    if (!chunks) {
        chunks = c->chunks = calloc(1, sizeof *chunks);
        if (!chunks)
            return PYTHON;
        chunks->at = used;
        begin_body(&chunks->framing, head);
    }
    while (!chunks->framing.ended) {
        syncless_bytes piece;
        long n = next_piece(&t->server->limits, &chunks->framing, data + chunks->at, size - chunks->at,
                            &piece);
        if (n <= 0)
            return n;
        if (block_append(&chunks->body, piece.data, piece.size))
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
