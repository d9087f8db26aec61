/* Sends bytes to a client: at once as far as it goes, the rest as fast as the client takes it. */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "server.h"

static int unsent_bytes(int fd) {
    int bytes = 0;
    return ioctl(fd, SIOCOUTQ, &bytes) < 0 ? 0 : bytes;
}

int has_unsent(const struct conn *c) {
    return c->out.size || c->tail;
}

/* As sendmsg(2) of a and then b; 0 where the client takes nothing now. */
static ssize_t send2(struct thread *t, int fd, const char *a, size_t na, const char *b, size_t nb, int more) {
    struct iovec parts[2] = {{(void *)a, na}, {(void *)b, nb}};
    struct msghdr message = {.msg_iov = parts + !na, .msg_iovlen = !!na + !!nb};
    int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
    ssize_t n;
    do
        n = nb ? sendmsg(fd, &message, flags) : send(fd, a, na, flags);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? 0 : -1;
    atomic_store_explicit(&t->counts.sent, atomic_load_explicit(&t->counts.sent, memory_order_relaxed) + n,
                          memory_order_relaxed);
    return n;
}

/* The client takes no more now, after `more` bytes. */
static int stall(struct thread *t, struct conn *c, int64_t more) {
    if (!c->rate) {
        c->rate = calloc(1, sizeof *c->rate);
        if (!c->rate)
            return FAILED;
        c->rate->given = unsent_bytes(c->fd);
        c->rate->progress = t->now;
    } else {
        c->rate->given += more;
    }
    if (!c->rate->since)
        c->rate->since = t->now;
    c->stalled = 1;
    start_time(t, c, WRITE_TIME);
    return STALLED;
}

static struct tail *new_tail(struct conn *c) {
    c->tail = calloc(1, sizeof *c->tail);
    if (c->tail)
        c->tail->fd = -1;
    return c->tail;
}

int send_out(struct thread *t, struct conn *c) {
    ssize_t n;
    if (!t->out.size)
        return SENT;
    if (c->out.size) {                          /* a piece is on its way: these bytes are behind it */
        int kept = block_append(&c->out, t->out.data, t->out.size);
        block_reset(&t->out, RECEIVE * 2);
        return kept < 0 ? FAILED : STALLED;
    }
    n = send2(t, c->fd, t->out.data, t->out.size, NULL, 0, c->tail != NULL);
    if (n >= 0 && n < t->out.size && block_append(&c->out, t->out.data + n, t->out.size - n))
        n = -1;
    if (n < 0)
        return FAILED;
    if (n < t->out.size) {
        block_reset(&t->out, RECEIVE * 2);
        return stall(t, c, n);
    }
    block_reset(&t->out, RECEIVE * 2);
    return SENT;
}

/* The answers that wait and, behind them, a large body that the caller may free afterwards. */
int send_large(struct thread *t, struct conn *c, const char *body, size_t size, int permanent) {
    size_t head = t->out.size;
    ssize_t n = send2(t, c->fd, t->out.data, head, body, size, 0);
    if (n < 0)
        return FAILED;
    if ((size_t)n < head && block_append(&c->out, t->out.data + n, head - n))
        return FAILED;
    block_reset(&t->out, RECEIVE * 2);
    if ((size_t)n == head + size)
        return SENT;
    if ((size_t)n > head) {
        body += n - head;
        size -= n - head;
    }
    if (!permanent) {
        if (block_append(&c->out, body, size))
            return FAILED;
    } else {
        if (!new_tail(c))
            return FAILED;
        c->tail->data = body;
        c->tail->size = size;
    }
    return stall(t, c, n);
}

/* The answers that wait and, behind them, a part of a file. */
int send_part(struct thread *t, struct conn *c, struct call *call) {
    if (!new_tail(c)) {
        if (call->close_file)
            close(call->file);
        return FAILED;
    }
    c->tail->fd = call->file;
    c->tail->close_it = call->close_file;
    c->tail->offset = call->file_offset;
    c->tail->left = call->file_size;
    if (send_out(t, c) == FAILED)
        return FAILED;
    return c->stalled ? STALLED : send_more(t, c);
}

static void drop_tail(struct conn *c) {
    if (c->tail && c->tail->fd >= 0 && c->tail->close_it)
        close(c->tail->fd);
    free(c->tail);
    c->tail = NULL;
}

void drop_unsent(struct thread *t, struct conn *c) {
    drop_tail(c);
    block_free(&c->out);
    c->out_sent = 0;
    free(c->rate);
    c->rate = NULL;
}

/* Sends what has been kept, as far as the client takes it. */
int send_more(struct thread *t, struct conn *c) {
    int64_t before = 0;
    ssize_t n;
    while (c->out.size) {
        struct tail *tail = c->tail;
        size_t left = c->out.size - c->out_sent, behind = tail && tail->fd < 0 ? tail->size : 0;
        n = send2(t, c->fd, c->out.data + c->out_sent, left, tail ? tail->data : NULL, behind,
                  tail && tail->fd >= 0);
        if (n <= 0)
            return n < 0 ? FAILED : stall(t, c, before);
        before += n;
        if ((size_t)n < left) {
            c->out_sent += (uint32_t)n;
            continue;
        }
        block_free(&c->out);
        c->out_sent = 0;
        if (behind) {
            tail->data += n - left;
            tail->size -= n - left;
        }
    }
    while (c->tail && c->tail->fd < 0 && c->tail->size) {
        n = send2(t, c->fd, c->tail->data, c->tail->size, NULL, 0, 0);
        if (n <= 0)
            return n < 0 ? FAILED : stall(t, c, before);
        before += n;
        c->tail->data += n;
        c->tail->size -= n;
    }
    while (c->tail && c->tail->fd >= 0 && c->tail->left) {
        off_t offset = c->tail->offset;
        n = sendfile(c->fd, c->tail->fd, &offset, c->tail->left < 1 << 20 ? c->tail->left : 1 << 20);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return stall(t, c, before);
        if (n <= 0)
            return FAILED;                      /* the file is shorter than it was: the client must see it */
        before += n;
        c->tail->offset = offset;
        c->tail->left -= n;
        atomic_fetch_add_explicit(&t->counts.sent, n, memory_order_relaxed);
    }
    drop_unsent(t, c);
    c->stalled = 0;
    return SENT;
}

/* Whether the client has taken too little; asks the kernel where that may be so. */
int too_slow(struct thread *t, struct conn *c) {
    if (!c->rate || !data_rate_counts(c->rate, &t->server->limits, t->now))
        return 0;
    data_rate_check(c->rate, unsent_bytes(c->fd), t->now);
    return data_rate_is_too_slow(c->rate, &t->server->limits, t->now);
}

int may_wait(struct thread *t, struct conn *c) {
    if (!c->rate)
        return 0;
    data_rate_check(c->rate, unsent_bytes(c->fd), t->now);
    return data_rate_may_wait(c->rate, &t->server->limits, t->now);
}
