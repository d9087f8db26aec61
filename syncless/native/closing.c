/* The end of a connection: when all is sent, when a deadline is over, or for another one. */

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"

/* Fact: the child of a fork may have a copy of the descriptor, and then closing ours takes nothing out of
   the epoll set. Danger: a later event points to a struct that is freed. Decision: it is taken out first.
   Price: a system call for each connection that had to wait. Guarded by
   tests/native/test_native_operating.py. */
void conn_close(struct thread *t, struct conn *c, int reset) {
    struct epoll_event event;
    int fd = c->fd;
    if (c->phase == CLOSED)
        return;
    if (reset && !t->lost) {
        struct linger hard = {1, 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
    if (c->armed)
        epoll_ctl(t->epoll, EPOLL_CTL_DEL, fd, &event);
    conn_release(t, c);
    atomic_fetch_sub(&t->server->connections, 1);
    if (!t->lost)
        close(fd);
}

void conn_close_when_sent(struct thread *t, struct conn *c) {
    const struct limits *limits = &t->server->limits;
    c->closing = 1;
    if (c->phase == CLOSED || has_unsent(c))
        return;
    if (c->ended || !conn_has_input(c)) {
        conn_close(t, c, 0);
        return;
    }
    /* closing with bytes unread would reset the connection, and perhaps destroy the answer; see
       http/connection.pyx */
    if (limits->linger_connections && first_of(t, LINGER_TIME) &&
        t->counts.lingering * t->server->thread_count >= limits->linger_connections)
        conn_close(t, first_of(t, LINGER_TIME), 0);
    c->phase = LINGERING;
    bump(&t->counts.lingering, 1);
    conn_drop_input(t, c);
    c->lingered = 0;
    c->checks = 0;
    c->progressed = 1;
    start_time(t, c, LINGER_TIME);
    shutdown(c->fd, SHUT_WR);
    conn_read_away(t, c);
}

void conn_read_away(struct thread *t, struct conn *c) {
    char waste[WASTE];
    int i;
    for (i = 0; i < ROUNDS; i++) {
        ssize_t n = conn_receive(t, c, waste, sizeof waste);
        if (n < 0) {
            conn_arm(t, c);
            return;
        }
        c->lingered += n;
        if (n == 0 || c->lingered > t->server->limits.linger_bytes) {
            conn_close(t, c, 0);
            return;
        }
    }
    conn_push(t, c);
}

static int may_linger(struct thread *t, struct conn *c) {
    int progressed = c->progressed;
    c->progressed = 0;
    return !atomic_load(&t->server->stopping) &&
           may_linger_on(++c->checks, progressed, c->lingered, &t->server->limits);
}

/* Whether the client sends its body fast enough; looked at once in a while. */
static int may_send_body(struct thread *t, struct conn *c) {
    const struct limits *limits = &t->server->limits;
    int64_t waited = t->now - c->body_since, bytes = (int64_t)c->in.size - c->in_start;
    if (c->steps)
        bytes += c->steps->body.size;
    c->checks = c->progressed ? 0 : c->checks + 1;
    c->progressed = 0;
    return c->checks * limits->body_check_ns < limits->body_ns && c->checks < 255 &&
           body_data_rate(waited, bytes, limits) == FAST_ENOUGH;
}

static void refuse_late(struct thread *t, struct conn *c) {
    if (c->steps && c->steps->begun) {
        conn_close(t, c, 1);
        return;
    }
    if (c->steps)
        refuse(t, c, R_TOO_SLOW, NOT_MEASURED, c->steps->data, c->steps->size);
    else
        refuse(t, c, R_TOO_SLOW, c->time == BODY_TIME ? NOT_MEASURED : NO_REQUEST, c->in.data + c->in_start,
               c->in.size - c->in_start);
    drop_steps(t, c);
    if (send_out(t, c) == FAILED)
        conn_close(t, c, 0);
    else
        conn_close_when_sent(t, c);
}

/* The time of its deadline is over. One that is left alone gets as much again. */
void conn_expired(struct thread *t, struct conn *c) {
    switch (c->time) {
    case WRITE_TIME:
        if (!may_wait(t, c))
            conn_close(t, c, 1);
        return;
    case BODY_TIME:
        if (!may_send_body(t, c))
            refuse_late(t, c);
        return;
    case LINGER_TIME:
        if (!may_linger(t, c))
            conn_close(t, c, 0);
        return;
    case HEAD_TIME:
        if (c->in.size > c->in_start) {
            refuse_late(t, c);
            return;
        }
    }
    conn_close_idle(t, c);
}

/* Closes it between requests, unless bytes have come of which epoll has not told yet. Whether that is so. */
int conn_close_idle(struct thread *t, struct conn *c) {
    char byte;
    if (recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
        c->readable = 1;
        conn_push(t, c);
        return 0;
    }
    conn_close(t, c, 0);
    return 1;
}

/* Closes a connection for another one; the order: wire.h. */
int conn_evict_one(struct thread *t) {
    static const int kinds[] = {IDLE_TIME, HEAD_TIME};
    struct conn *c = first_of(t, LINGER_TIME), *next;
    int i, asked;
    if (c) {
        conn_close(t, c, 0);
        return 1;
    }
    for (i = 0; i < 2; i++)
        for (c = first_of(t, kinds[i]), asked = 0; c && asked < ASKED; c = next, asked++) {
            next = next_of(t, c, kinds[i]);
            if (!c->readable && !has_unsent(c) && conn_close_idle(t, c))
                return 1;
        }
    return 0;
}

/* Too much is buffered: cuts off the connections that have taken the longest for a request. */
void conn_shed(struct thread *t) {
    static const int kinds[] = {HEAD_TIME, BODY_TIME};
    int64_t most = t->server->limits.buffered_bytes / t->server->thread_count;
    struct conn *c, *next;
    int i;
    for (i = 0; i < 2; i++)
        for (c = first_of(t, kinds[i]); c && t->counts.held > most; c = next) {
            next = next_of(t, c, kinds[i]);
            if (c->in.size)
                conn_close(t, c, 0);
        }
}
