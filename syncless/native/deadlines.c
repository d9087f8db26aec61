/* Connections by the start of their times: all of a list have equally long, so the first is over first.
   Pauses are of any length, so they are a heap. */

#include "server.h"

int64_t time_length(struct server *server, int time) {
    const struct limits *limits = &server->limits;
    switch (time) {
    case HEAD_TIME:
        return limits->head_ns;
    case IDLE_TIME:
        return limits->idle_ns;
    case BODY_TIME:
        return limits->body_check_ns;
    case WRITE_TIME:
        return limits->write_check_ns;
    default:
        return limits->linger_check_ns;
    }
}

/* -- pauses --------------------------------------------------------------------------------------------- */

static void set_place(struct thread *t, struct conn *c, uint32_t at) {
    t->pauses[at] = c;
    c->place = at;
}

/* Puts it where it belongs, from the empty place `at`. */
static void settle(struct thread *t, struct conn *c, uint32_t at) {
    struct conn **pauses = t->pauses;
    uint32_t child;
    for (; at && pauses[(at - 1) / 2]->since > c->since; at = (at - 1) / 2)
        set_place(t, pauses[(at - 1) / 2], at);
    while ((child = 2 * at + 1) < t->paused) {
        if (child + 1 < t->paused && pauses[child + 1]->since < pauses[child]->since)
            child++;
        if (pauses[child]->since >= c->since)
            break;
        set_place(t, pauses[child], at);
        at = child;
    }
    set_place(t, c, at);
}

static void stop_pause(struct thread *t, struct conn *c) {
    struct conn *last = t->pauses[--t->paused];
    if (last != c)
        settle(t, last, c->place);
}

/* A step goes on then. The connection is closed where there is no memory. */
void start_pause(struct thread *t, struct conn *c, int64_t until) {
    stop_time(t, c);
    if (t->paused == t->pause_room) {
        uint32_t room = t->pause_room ? t->pause_room * 2 : 64;
        struct conn **grown = realloc(t->pauses, room * sizeof *grown);
        if (!grown) {
            conn_close(t, c, 1);
            return;
        }
        t->pauses = grown;
        t->pause_room = room;
    }
    c->time = PAUSE_TIME;
    c->since = until;
    settle(t, c, t->paused++);
}

/* Those that are over go on in this turn. */
static void end_pauses(struct thread *t) {
    while (t->paused && t->pauses[0]->since <= t->now) {
        struct conn *c = t->pauses[0];
        start_pause(t, c, INT64_MAX);           /* found by close_all() until then */
        conn_push(t, c);
    }
}

/* -- all of them ---------------------------------------------------------------------------------------- */

void stop_time(struct thread *t, struct conn *c) {
    if (c->time == PAUSE_TIME) {
        stop_pause(t, c);
    } else if (c->time != NO_TIME) {
        c->link.previous->next = c->link.next;
        c->link.next->previous = c->link.previous;
    }
    c->time = NO_TIME;
}

void start_time(struct thread *t, struct conn *c, int time) {
    struct link *list = &t->lists[time];
    stop_time(t, c);
    c->time = time;
    c->since = t->now;
    c->link.next = list;
    c->link.previous = list->previous;
    list->previous->next = &c->link;
    list->previous = &c->link;
}

struct conn *first_of(struct thread *t, int time) {
    if (time == PAUSE_TIME)
        return t->paused ? t->pauses[0] : NULL;
    return t->lists[time].next == &t->lists[time] ? NULL : (struct conn *)t->lists[time].next;
}

/* Of a list. */
struct conn *next_of(struct thread *t, struct conn *c, int time) {
    return c->link.next == &t->lists[time] ? NULL : (struct conn *)c->link.next;
}

/* Tells the connections whose time is over. Returns the ns until the next one's is, -1 for never. */
int64_t expire(struct thread *t) {
    int64_t next;
    int time;
    end_pauses(t);
    next = t->paused ? t->pauses[0]->since - t->now : -1;
    for (time = 0; time < PAUSE_TIME; time++) {
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
