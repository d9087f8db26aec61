/* Connections by the start of their times: all of a list have equally long, so the first is over first. */

#include "server.h"

#define LOOK 5000000000LL       /* ns after which a client that makes us wait is looked at, at the latest */

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A client that makes us wait is looked at within its grace. */
static int64_t look(int64_t whole, int64_t grace) {
    int64_t often = least(grace, LOOK);
    return least(whole, often > 100000000 ? often : 100000000);
}

int64_t time_length(struct server *server, int time) {
    const struct limits *limits = &server->limits;
    switch (time) {
    case HEAD_TIME:
        return limits->head_ns;
    case IDLE_TIME:
        return limits->idle_ns;
    case BODY_TIME:
        return look(limits->body_ns, limits->body_grace_ns);
    case WRITE_TIME:
        return look(limits->write_ns, limits->write_grace_ns);
    case PAUSE_TIME:
        return 1;               /* the list is in the order of its ends */
    default:
        return least(limits->linger_idle_ns, limits->linger_ns);
    }
}

void stop_time(struct conn *c) {
    if (c->time == NO_TIME)
        return;
    c->link.previous->next = c->link.next;
    c->link.next->previous = c->link.previous;
    c->time = NO_TIME;
}

void start_time(struct thread *t, struct conn *c, int time) {
    struct link *list = &t->lists[time];
    stop_time(c);
    c->time = time;
    c->since = t->now;
    c->link.next = list;
    c->link.previous = list->previous;
    list->previous->next = &c->link;
    list->previous = &c->link;
}

/* A step goes on then. Most pauses are as long as the last one, so their place is near the end. */
void start_pause(struct thread *t, struct conn *c, int64_t until) {
    struct link *list = &t->lists[PAUSE_TIME], *before;
    stop_time(c);
    before = list->previous;
    while (before != list && ((struct conn *)before)->since > until)
        before = before->previous;
    c->time = PAUSE_TIME;
    c->since = until;
    c->link.previous = before;
    c->link.next = before->next;
    before->next->previous = &c->link;
    before->next = &c->link;
}

struct conn *first_of(struct thread *t, int time) {
    return t->lists[time].next == &t->lists[time] ? NULL : (struct conn *)t->lists[time].next;
}

struct conn *next_of(struct thread *t, struct conn *c, int time) {
    return c->link.next == &t->lists[time] ? NULL : (struct conn *)c->link.next;
}

/* Tells the connections whose time is over. Returns the ns until the next one's is, -1 for never. */
int64_t expire(struct thread *t) {
    int64_t next = -1;
    int time;
    for (time = 0; time < TIMES; time++) {
        int64_t length = time_length(t->server, time);
        struct conn *c;
        while ((c = first_of(t, time)) && c->since + length <= t->now) {
            int64_t since = c->since;
            conn_expired(t, c);
            if (c->time == time && c->since == since)
                start_time(t, c, time);         /* it goes on */
        }
        if ((c = first_of(t, time)) && (next < 0 || c->since + length - t->now < next))
            next = c->since + length - t->now;
    }
    return next;
}
