/* A thread that answers: its turns, and what others send to it. See server.h. */

#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server.h"

enum { EVENTS = 256 };
#define DAY_NS 86400000000000LL

int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* For a child after a fork, which closes what its parent's threads have. */
void own(struct server *server, int fd, int is_ours) {
    if (fd < server->owned_size)
        atomic_store_explicit(&server->owned[fd], is_ours, memory_order_relaxed);
}

/* -- messages from other threads ------------------------------------------------------------------------- */

static void take_back(struct thread *t, struct message *message) {
    struct conn *c = conn_open(t, message->fd, &message->address);
    if (c && message->size) {
        c->sent_before = 1;
        if (conn_hold(t, c, message->data, message->size)) {
            conn_close(t, c, 1);
            return;
        }
    }
    if (c)
        conn_live(t, c);
}

static void read_messages(struct thread *t) {
    struct message *message = take_messages(&t->inbox), *next;
    for (; message; message = next) {
        next = message->next;
        take_back(t, message);
        free(message);
    }
}

static void close_all(struct thread *t) {
    int time;
    for (time = 0; time < TIMES; time++)
        while (first_of(t, time))
            conn_close(t, first_of(t, time), 1);
}

/* Those between two requests, but for new ones, whose first request may be on its way. */
static void close_idle(struct thread *t) {
    static const int kinds[] = {IDLE_TIME, HEAD_TIME};
    struct conn *c, *next;
    int i;
    for (i = 0; i < 2; i++)
        for (c = first_of(t, kinds[i]); c; c = next) {
            next = next_of(t, c, kinds[i]);
            if (c->in.size == c->in_start && !has_unsent(c) && !c->queued &&
                (c->sent_before || t->now - c->since >= JUST_COME_NS))
                conn_close_idle(t, c);
        }
}

/* Follows the instructions to the server as a whole. */
static void apply_orders(struct thread *t) {
    struct server *server = t->server;
    int closings = atomic_load(&server->closings), i;
    if (atomic_load(&server->draining) && !atomic_load_explicit(&t->drained, memory_order_relaxed)) {
        int rounds = 0;
        for (i = 0; i < server->listener_count; i++)
            while (accept_some(t, i) && rounds++ < LAST_BATCHES)
                ;
        listen_to(t, 0);
        atomic_store(&t->drained, 1);
    }
    if (closings != t->closed_idle) {
        t->closed_idle = closings;
        close_idle(t);
    }
    if (atomic_load(&server->abort))
        close_all(t);
}

/* -- its turns ------------------------------------------------------------------------------------------ */

static void free_dead(struct thread *t) {
    struct conn *c;
    while ((c = t->dead)) {
        t->dead = c->ready_next;
        free(c);
    }
}

static void run_ready(struct thread *t) {
    struct conn *c = t->ready, *next;
    t->ready = NULL;
    for (; c; c = next) {
        next = c->ready_next;
        c->queued = 0;
        if (c->phase == CLOSED)
            free(c);
        else
            conn_live(t, c);
    }
}

/* The sooner of two waits, of which -1 is for ever. */
static int64_t sooner(int64_t a, int64_t b) {
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

/* Fact: a program may close all its descriptors, as daemons do, and have others at their numbers. Danger: a
   thread that waits for nothing turns without end, follows a pointer out of another epoll, or closes files of
   the program. Decision: it ends, and leaves all numbers alone. Price: a comparison for each event. Guarded
   by tests/native/test_native_faults.py. */
static void lose(struct thread *t) {
    t->lost = 1;
    t->epoll = t->inbox.event = -1;
    close_all(t);
    atomic_store(&t->drained, 1);
    atomic_store(&t->ended, 1);
}

/* Waits for events, `timeout` ns at most (-1: as long as it takes), and sees to them. */
void thread_turn(struct thread *t, int64_t timeout) {
    struct epoll_event events[EVENTS];
    int i, n;
    t->now = clock_ns();
    timeout = sooner(timeout, sooner(expire(t), records_wait(t)));
    if (t->ready)                               /* perhaps since a time was over */
        timeout = 0;
    if (t->retry_at)
        timeout = sooner(timeout, t->retry_at > t->now ? t->retry_at - t->now : 0);
    free_dead(t);
    if (timeout > DAY_NS)
        timeout = DAY_NS;
    n = epoll_wait(t->epoll, events, EVENTS, timeout < 0 ? -1 : (int)((timeout + 999999) / 1000000));
    t->now = clock_ns();
    if (n < 0 && errno != EINTR) {
        lose(t);
        return;
    }
    reader_begin(t->reader);
    atomic_store_explicit(&t->calls_before, t->calls, memory_order_relaxed);
    atomic_store_explicit(&t->busy_since, t->now, memory_order_relaxed);
    for (i = 0; i < n; i++) {
        uint64_t data = events[i].data.u64 ^ MARK;
        if (data >> 48) {
            lose(t);
            break;
        }
        if (data & 1) {
            accept_some(t, (int)(data >> 1));
        } else if (data == (uintptr_t)&t->inbox) {
            read_messages(t);
            apply_orders(t);
            if (t->retry_at)
                t->retry_at = t->now;           /* perhaps there is room */
        } else {
            conn_event(t, (struct conn *)(uintptr_t)data, events[i].events);
        }
    }
    run_ready(t);
    if (t->counts.held > t->server->limits.buffered_bytes / t->server->thread_count)
        conn_shed(t);
    if (t->retry_at && t->now >= t->retry_at && !atomic_load_explicit(&t->drained, memory_order_relaxed)) {
        t->retry_at = 0;
        listen_to(t, 1);
    }
    atomic_store_explicit(&t->busy_since, 0, memory_order_relaxed);
    reader_end(t->reader);
}

/* For the watchdog alone: ns for which the thread has been in the turn or, if it has called several handlers
   in it, in the last one, as far as looks up to now can tell. 0: in none. So a handler costs no look at the
   clock. */
int64_t thread_busy_ns(struct thread *t) {
    int64_t since = atomic_load_explicit(&t->busy_since, memory_order_relaxed), now = clock_ns();
    int64_t calls = atomic_load_explicit(&t->calls, memory_order_relaxed);
    int64_t before = atomic_load_explicit(&t->calls_before, memory_order_relaxed);
    if (calls != t->calls_seen) {
        t->calls_seen = calls;
        t->seen_at = now;
    }
    if (!since)
        return 0;
    if (calls - before > 1 && t->seen_at > since)
        since = t->seen_at;
    return now > since ? now - since : 1;
}

static void *run(void *argument) {
    struct thread *t = argument;
    pthread_setname_np(pthread_self(), "syncless native");
    listen_to(t, 1);
    while (!atomic_load(&t->server->quit) && !t->lost)
        thread_turn(t, -1);
    t->now = clock_ns();
    close_all(t);
    if (!t->lost)
        send_records(t);
    free_dead(t);
    atomic_store(&t->ended, 1);
    return NULL;
}

/* NULL, and errno. */
struct thread *thread_new(struct server *server, int index) {
    struct thread *t = calloc(1, sizeof *t);
    struct epoll_event event = {.events = 0};
    int i;
    if (!t)
        return NULL;
    t->server = server;
    t->index = index;
    t->now = clock_ns();
    t->epoll = t->inbox.event = -1;
    t->call.thread = t;
    t->call.request.calls = t->call.response.calls = &CALLS;
    for (i = 0; i < PAUSE_TIME; i++)
        t->lists[i].next = t->lists[i].previous = &t->lists[i];
    t->inbox.of = t;
    event.data.u64 = MARKED((uintptr_t)&t->inbox);
    if ((t->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
        (t->inbox.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 || !(t->scratch = malloc(RECEIVE)) ||
        !(t->reader = reader_new()) || epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->inbox.event, &event) < 0) {
        int error = errno;
        thread_free(t);
        errno = error;
        return NULL;
    }
    return t;
}

/* Begins to run; 0, or an error number. Signals are Python's, but for those of a crash: the kernel ends the
   process without a word where they are blocked, and faulthandler has no part in it. */
int thread_start(struct thread *t) {
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    size_t i;
    sigset_t all, before;
    int error;
    sigfillset(&all);
    for (i = 0; i < sizeof crashes / sizeof *crashes; i++)
        sigdelset(&all, crashes[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&t->id, NULL, run, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* It has ended, or has never begun. */
void thread_free(struct thread *t) {
    drop_messages(&t->inbox);
    free_dead(t);
    run_ready(t);
    reader_free(t->reader);
    if (t->epoll >= 0)
        close(t->epoll);
    if (t->inbox.event >= 0)
        close(t->inbox.event);
    free(t->scratch);
    free(t->pauses);
    free(t->arena.base);
    block_free(&t->out);
    block_free(&t->records);
    block_free(&t->call.fields);
    block_free(&t->call.body);
    free(t);
}
