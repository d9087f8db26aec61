/* The life of a connection in its thread. conn_live() tells it.

       READING ---- a refusal, or the last answer, is sent ----> LINGERING ----> CLOSED
          |
          +---- a request for Python ----> handed over; comes back as a message (thread.c)

   It has a deadline at any moment. Requests are answered where their bytes lie: in the thread's receive
   buffer if they come in one piece, else in `in`. An idle connection is one struct and an entry in the
   epoll set, where it is entered when it first has to wait. A struct that is closed is freed at the end of
   the turn, because events of the same turn may point to it. */

#define _GNU_SOURCE
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"


/* -- its bytes ------------------------------------------------------------------------------------------ */

/* Room for further bytes behind those in `in`. */
static int hold_room(struct thread *t, struct conn *c, size_t more) {
    uint32_t before = c->in.room;
    if (c->in_start) {
        c->in.size -= c->in_start;
        memmove(c->in.data, c->in.data + c->in_start, c->in.size);
        c->in_start = 0;
    }
    if (block_reserve(&c->in, more))
        return -1;
    bump(&t->counts.held, (int64_t)c->in.room - before);
    return 0;
}

int conn_hold(struct thread *t, struct conn *c, const char *data, size_t size) {
    return hold_room(t, c, size) ? -1 : block_append(&c->in, data, size);
}

void conn_drop_input(struct thread *t, struct conn *c) {
    bump(&t->counts.held, -(int64_t)c->in.room);
    block_free(&c->in);
    c->in_start = c->need = 0;
}

/* As recv(2): 0 where the client has closed or failed, -1 where nothing is there now. */
ssize_t conn_receive(struct thread *t, struct conn *c, char *into, size_t room) {
    ssize_t n;
    if (c->ended)
        return 0;
    do
        n = recv(c->fd, into, room, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        if ((size_t)n < room && !c->peer_shutdown)
            c->readable = 0;                    /* drained; the next byte makes an event */
        bump(&t->counts.received, n);
        c->progressed = 1;
        return n;
    }
    if (n < 0 && errno == EAGAIN) {
        c->readable = c->peer_shutdown = 0;
        return -1;
    }
    c->ended = 1;
    return 0;
}

static int may_receive(const struct conn *c) {
    return c->readable || c->peer_shutdown;
}

/* -- its requests --------------------------------------------------------------------------------------- */

/* Serves the requests, or pieces of a body, in the bytes, *left at most. *used: bytes of those that are
   answered. */
static long serve_all(struct thread *t, struct conn *c, const char *data, size_t size, size_t *used,
                      int *left) {
    long outcome = MORE;
    *used = 0;
    c->need = 0;
    while (*left && *used < size) {
        outcome = c->steps ? feed_steps(t, c, data + *used, size - *used)
                           : serve_request(t, c, data + *used, size - *used);
        if (outcome <= 0)
            break;
        --*left;
        *used += outcome;
        outcome = MORE;
        if (!c->steps && (c->time == HEAD_TIME || c->time == BODY_TIME))
            start_time(t, c, IDLE_TIME);        /* that of the next request begins when its bytes come */
        if (has_unsent(c) || (c->steps && !reads_body(c)))
            break;
    }
    if (outcome == MORE && !c->need && *left && !has_unsent(c) && (!c->steps || reads_body(c)))
        c->need = (uint32_t)(size - *used) + 1;
    return outcome;
}

/* The next requests that have come, from `in` or from the socket; how that ended. GONE, too, where it is
   handed over. */
static long serve_some(struct thread *t, struct conn *c, int *left) {
    size_t have = c->in.size - c->in_start, used;
    char *data = have ? c->in.data + c->in_start : t->scratch;
    long outcome;
    if (!have || have < c->need) {
        ssize_t n;
        if (!may_receive(c))
            return ENOUGH;
        if (have && hold_room(t, c, LITTLE)) {
            conn_close(t, c, 1);
            return GONE;
        }
        n = have ? conn_receive(t, c, c->in.data + c->in.size, c->in.room - c->in.size)
                 : conn_receive(t, c, t->scratch, RECEIVE);
        if (n < 0)
            return ENOUGH;
        if (n == 0) {
            c->closing = 1;
            return ENOUGH;
        }
        if (have) {
            c->in.size += (uint32_t)n;
            data = c->in.data + c->in_start;
        }
        have += n;
        if (have < c->need)
            return MORE;
    }
    outcome = serve_all(t, c, data, have, &used, left);
    if (outcome == GONE)
        return GONE;
    if (outcome == PYTHON) {
        int sent = send_out(t, c);
        if (sent == SENT) {
            conn_hand_over(t, c, data + used, have - used);
            return GONE;
        }
        if (sent == FAILED) {
            conn_close(t, c, 0);
            return GONE;
        }
        drop_chunks(c);                         /* it is looked at again when that is sent */
        outcome = ENOUGH;
    }
    if (data != t->scratch) {
        c->in_start += (uint32_t)used;
        if (c->in_start == c->in.size) {
            uint32_t need = c->need;
            conn_drop_input(t, c);
            c->need = need;
        }
    } else if (have > used && conn_hold(t, c, data + used, have - used)) {
        conn_close(t, c, 1);
        return GONE;
    }
    return outcome;
}

int conn_has_input(const struct conn *c) {
    return c->in.size > c->in_start || may_receive(c);
}

void conn_arm(struct thread *t, struct conn *c) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.u64 = MARKED((uintptr_t)c)};
    if (c->armed || c->phase == CLOSED)
        return;
    if (epoll_ctl(t->epoll, EPOLL_CTL_ADD, c->fd, &event) < 0)
        conn_close(t, c, 0);
    else
        c->armed = 1;
}

/* Nothing more to do now: the next event makes it go on, with the deadline that fits. */
static void wait_for_client(struct thread *t, struct conn *c) {
    if (!c->stalled && c->steps) {
        steps_wait(t, c);
    } else if (!c->stalled) {
        if (c->in.size > c->in_start) {
            if (c->time != HEAD_TIME && c->time != BODY_TIME)
                start_time(t, c, HEAD_TIME);
        } else if (c->time != HEAD_TIME || c->sent_before) {
            start_time(t, c, IDLE_TIME);
        }
    }
    conn_arm(t, c);
}

/* Answers its requests as far as it gets now, then waits, lingers or closes. */
void conn_live(struct thread *t, struct conn *c) {
    int left = t->server->limits.pipelined;
    long outcome = MORE;
    if (c->phase == LINGERING)
        conn_read_away(t, c);
    if (c->phase != READING)
        return;
    while (left && !c->closing && !has_unsent(c) && outcome != ENOUGH) {
        if (is_due(t, c)) {
            outcome = go_on(t, c);
            left--;
        } else if (c->steps && !reads_body(c)) {
            break;
        } else {
            outcome = serve_some(t, c, &left);
        }
        if (outcome == GONE)
            return;
    }
    if (send_out(t, c) == FAILED) {
        conn_close(t, c, 0);
        return;
    }
    if (c->closing)
        conn_close_when_sent(t, c);
    else if (!left && !has_unsent(c) && conn_has_input(c) && (!c->steps || reads_body(c)))
        conn_push(t, c);                        /* others get a turn */
    if (c->phase == READING && !c->closing)
        wait_for_client(t, c);
    else if (c->phase != CLOSED)
        conn_arm(t, c);
}

/* It gets another turn soon. */
void conn_push(struct thread *t, struct conn *c) {
    if (c->queued)
        return;
    c->queued = 1;
    c->ready_next = NULL;
    if (t->ready)
        t->ready_last->ready_next = c;
    else
        t->ready = c;
    t->ready_last = c;
}

void conn_event(struct thread *t, struct conn *c, unsigned events) {
    if (c->phase == CLOSED)
        return;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        c->peer_shutdown = 1;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        c->readable = 1;
    if (events & (EPOLLHUP | EPOLLERR) && c->steps && !reads_body(c)) {
        conn_close(t, c, 0);                    /* no client is there to take the response */
        return;
    }
    if (c->stalled && events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) {
        int outcome = send_more(t, c);
        if (outcome == FAILED || too_slow(t, c)) {
            conn_close(t, c, outcome != FAILED);
            return;
        }
        if (outcome == STALLED)
            return;
        if (c->closing) {
            conn_close_when_sent(t, c);
            return;
        }
        start_time(t, c, IDLE_TIME);
    }
    if (!c->stalled)
        conn_live(t, c);
}

/* -- opened, handed over, taken back -------------------------------------------------------------------- */

/* It has been counted. NULL, and the descriptor is closed, where there is no memory. */
struct conn *conn_open(struct thread *t, int fd, const struct address *address) {
    struct conn *c = calloc(1, sizeof *c);
    if (!c) {
        atomic_fetch_sub(&t->counts.connections, 1);
        atomic_fetch_sub(&t->server->connections, 1);
        close(fd);
        return NULL;
    }
    c->fd = fd;
    c->address = *address;
    c->readable = 1;
    c->time = NO_TIME;
    own(t->server, fd, 1);
    start_time(t, c, HEAD_TIME);
    return c;
}

/* Nothing is left of it but the descriptor, which is the caller's. */
void conn_release(struct thread *t, struct conn *c) {
    own(t->server, c->fd, 0);
    t->out.size = 0;                            /* it ends in its own turn, or between two turns */
    conn_drop_input(t, c);
    drop_unsent(t, c);
    drop_chunks(c);
    drop_steps(t, c);
    stop_time(t, c);
    forget_head(t, c);
    if (c->phase == LINGERING)
        bump(&t->counts.lingering, -1);
    atomic_fetch_sub(&t->counts.connections, 1);
    c->phase = CLOSED;
    c->fd = -1;
    if (!c->queued) {                           /* else it is dead when its turn comes */
        c->ready_next = t->dead;
        t->dead = c;
    }
}

/* The connection is Python's from now on, with the bytes that it has not answered. */
void conn_hand_over(struct thread *t, struct conn *c, const char *data, size_t size) {
    struct message *message = message_new(CONNECTION_MESSAGE, size);
    struct epoll_event event;
    if (!message) {
        conn_close(t, c, 1);
        return;
    }
    message->fd = c->fd;
    message->address = c->address;
    memcpy(message->data, data, size);
    if (c->armed)
        epoll_ctl(t->epoll, EPOLL_CTL_DEL, c->fd, &event);
    bump(&t->counts.handed, 1);
    conn_release(t, c);
    send_message(&t->server->python, message);
}
