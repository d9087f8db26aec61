/* Interposers of poll, select and epoll_wait. Each asks without waiting, parks, and asks again. */

#include "interpose.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READS = POLLIN | POLLRDNORM,
    WRITES = POLLOUT | POLLWRNORM,
    ALWAYS = POLLERR | POLLHUP | POLLNVAL /* reported without being asked for */
};

/* -- waiting for several descriptors -- */

/* Tells the epoll descriptor of all of them. Those bits of epoll that poll has too are the same numbers. */
static int watch_all(int watcher, const struct pollfd *fds, nfds_t count) {
    for (nfds_t i = 0; i < count; i++) {
        struct epoll_event event = {.events = (unsigned short)(fds[i].events & ~ALWAYS)};
        if (fds[i].fd < 0 || epoll_ctl(watcher, EPOLL_CTL_ADD, fds[i].fd, &event) == 0)
            continue;
        for (nfds_t k = 0; k < i && errno == EEXIST; k++) /* it stands there several times */
            if (fds[k].fd == fds[i].fd)
                event.events |= (unsigned short)(fds[k].events & ~ALWAYS);
        if (errno == EEXIST && epoll_ctl(watcher, EPOLL_CTL_MOD, fds[i].fd, &event) == 0)
            continue;
        if (errno != EPERM) /* a regular file is always ready */
            return -1;
    }
    return 0;
}

/* Parks until one of them may be ready: a PARK_ number. */
static int await_any(const struct pollfd *fds, nfds_t count, int64_t deadline, int insists) {
    short asked = count == 1 ? (short)(fds[0].events & ~ALWAYS) : 0;
    if (count == 0 || (count == 1 && fds[0].fd < 0))
        return interpose_wait(-1, 0, deadline, insists);
    if (asked && !(asked & ~READS))
        return interpose_wait(fds[0].fd, INTERPOSE_READ, deadline, insists);
    if (asked && !(asked & ~WRITES))
        return interpose_wait(fds[0].fd, INTERPOSE_WRITE, deadline, insists);
    int watcher = epoll_create1(EPOLL_CLOEXEC);
    int outcome;
    if (watcher >= 0 && watch_all(watcher, fds, count) == 0)
        outcome = interpose_wait(watcher, INTERPOSE_READ, deadline, insists);
    else
        outcome = interpose_wait_unwatched(deadline, insists);
    if (watcher >= 0)
        close(watcher);
    return outcome;
}

/* Which sockets they are, on the heap; NULL: none of them will be shut down. */
static ino_t *known_sockets(const struct pollfd *fds, nfds_t count) {
    ino_t *known = count ? malloc(count * sizeof *known) : NULL;
    for (nfds_t i = 0; known != NULL && i < count; i++)
        known[i] = fds[i].fd < 0 ? 0 : interpose_socket(fds[i].fd);
    return known;
}

static void shut_down_all(const struct pollfd *fds, nfds_t count, const ino_t *known) {
    for (nfds_t i = 0; known != NULL && i < count; i++)
        interpose_shut_down(fds[i].fd, known[i]);
}

static int milliseconds_left(int64_t deadline) {
    if (deadline == INTERPOSE_NEVER)
        return -1;
    int64_t left = (interpose_left(deadline) + 999999) / 1000000;
    return left > INT_MAX ? INT_MAX : (int)left;
}

/* -- poll -- */

static int poll_until(struct pollfd *fds, nfds_t count, int64_t deadline) {
    int insists = 0, before = errno;
    int found = poll(fds, count, 0);
    if (found > 0)
        interpose_succeeded(before);
    if (found != 0)
        return found;
    ino_t *known = known_sockets(fds, count);
    int outcome = PARK_WOKEN;
    while (found == 0 && outcome != PARK_OVER) {
        outcome = await_any(fds, count, deadline, insists);
        if (outcome == PARK_REFUSED)
            break;
        if (outcome == PARK_BROKEN) {
            shut_down_all(fds, count, known);
            insists = 1; /* where nothing could be shut down, the wait goes on */
        }
        errno = before;
        found = poll(fds, count, 0);
    }
    int error = errno;
    free(known);
    errno = error;
    return outcome == PARK_REFUSED ? poll(fds, count, milliseconds_left(deadline)) : found;
}

static int interposed_poll(struct pollfd *fds, nfds_t count, int timeout) {
    if (timeout == 0 || !interpose_has_loop())
        return poll(fds, count, timeout);
    return poll_until(fds, count,
                      timeout < 0 ? INTERPOSE_NEVER : interpose_after((int64_t)timeout * 1000000));
}

/* The deadline of a timespec: INTERPOSE_NEVER without one. Returns 0 if it is none that can be waited for. */
static int deadline_of(const struct timespec *timeout, int64_t *deadline) {
    *deadline = INTERPOSE_NEVER;
    if (timeout == NULL)
        return 1;
    if (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec > 999999999)
        return 0;
    if (timeout->tv_sec == 0 && timeout->tv_nsec == 0)
        return 0;
    if (timeout->tv_sec < INT64_MAX / 2000000000)
        *deadline = interpose_after((int64_t)timeout->tv_sec * 1000000000 + timeout->tv_nsec);
    return 1;
}

static int interposed_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                        const sigset_t *mask) {
    int64_t deadline;
    if (mask != NULL || !interpose_has_loop() || !deadline_of(timeout, &deadline))
        return ppoll(fds, count, timeout, mask);
    return poll_until(fds, count, deadline);
}

INTERPOSE_MAY_LACK int __poll_chk(struct pollfd *, nfds_t, int, size_t);
INTERPOSE_MAY_LACK int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *,
                                   size_t);

static int interposed_poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room) {
    if (count > room / sizeof *fds)
        return __poll_chk(fds, count, timeout, room); /* which ends the process */
    return interposed_poll(fds, count, timeout);
}

static int interposed_ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                            const sigset_t *mask, size_t room) {
    if (count > room / sizeof *fds)
        return __ppoll_chk(fds, count, timeout, mask, room);
    return interposed_ppoll(fds, count, timeout, mask);
}

/* -- select -- */

/* The descriptors of three sets, on the heap. */
static struct pollfd *listed(int count, const fd_set *reads, const fd_set *writes, const fd_set *urgent,
                             nfds_t *found) {
    struct pollfd *fds = malloc((size_t)(count ? count : 1) * sizeof *fds);
    *found = 0;
    for (int fd = 0; fds != NULL && fd < count; fd++) {
        int events = 0;
        if (reads && FD_ISSET(fd, reads))
            events |= POLLIN;
        if (writes && FD_ISSET(fd, writes))
            events |= POLLOUT;
        if (urgent && FD_ISSET(fd, urgent))
            events |= POLLPRI;
        if (events)
            fds[(*found)++] = (struct pollfd){fd, (short)events, 0};
    }
    return fds;
}

typedef struct {
    int count;
    fd_set *sets[3]; /* the caller's, or NULL */
    fd_set asked[3];
} selection;

/* A set may be smaller than fd_set: the kernel touches whole words, as many as `count` needs, and no more. */
static void copy_set(fd_set *to, const fd_set *from, int count) {
    size_t words = ((size_t)count + NFDBITS - 1) / NFDBITS;
    memcpy(to, from, words * sizeof(fd_mask));
}

/* select() without waiting. */
static int select_now(selection *of) {
    struct timeval zero = {0, 0};
    for (int i = 0; i < 3; i++)
        if (of->sets[i])
            copy_set(of->sets[i], &of->asked[i], of->count);
    return select(of->count, of->sets[0], of->sets[1], of->sets[2], &zero);
}

/* Returns as select(), or -2: libc must wait, for the sets as they were. */
static int select_until(selection *of, int64_t deadline) {
    nfds_t count;
    int insists = 0, before = errno;
    for (int i = 0; i < 3; i++)
        if (of->sets[i])
            copy_set(&of->asked[i], of->sets[i], of->count);
    int found = select_now(of);
    if (found > 0)
        interpose_succeeded(before);
    if (found != 0)
        return found;
    struct pollfd *fds = listed(of->count, of->sets[0] ? &of->asked[0] : NULL,
                                of->sets[1] ? &of->asked[1] : NULL, of->sets[2] ? &of->asked[2] : NULL,
                                &count);
    ino_t *known = fds == NULL ? NULL : known_sockets(fds, count);
    int outcome = fds == NULL ? PARK_REFUSED : PARK_WOKEN;
    while (found == 0 && outcome != PARK_OVER && outcome != PARK_REFUSED) {
        outcome = await_any(fds, count, deadline, insists);
        if (outcome == PARK_BROKEN) {
            shut_down_all(fds, count, known);
            insists = 1;
        }
        found = select_now(of);
    }
    int error = found < 0 ? errno : before;
    free(known);
    free(fds);
    errno = error;
    if (found == 0 && outcome == PARK_REFUSED) {
        for (int i = 0; i < 3; i++)
            if (of->sets[i])
                copy_set(of->sets[i], &of->asked[i], of->count);
        return -2;
    }
    return found;
}

static int interposed_select(int count, fd_set *reads, fd_set *writes, fd_set *urgent,
                             struct timeval *timeout) {
    selection of = {.count = count, .sets = {reads, writes, urgent}};
    struct timespec limit;
    int64_t deadline;
    if (count < 0 || count > FD_SETSIZE || !interpose_has_loop())
        return select(count, reads, writes, urgent, timeout);
    if (timeout != NULL)
        limit = (struct timespec){timeout->tv_sec + timeout->tv_usec / 1000000,
                                  timeout->tv_usec % 1000000 * 1000};
    if (!deadline_of(timeout ? &limit : NULL, &deadline))
        return select(count, reads, writes, urgent, timeout);
    int found = select_until(&of, deadline);
    if (timeout != NULL && deadline != INTERPOSE_NEVER) { /* Linux says how much is left */
        int64_t left = interpose_left(deadline) / 1000;
        timeout->tv_sec = left / 1000000;
        timeout->tv_usec = left % 1000000;
    }
    return found == -2 ? select(count, reads, writes, urgent, timeout) : found;
}

static int interposed_pselect(int count, fd_set *reads, fd_set *writes, fd_set *urgent,
                          const struct timespec *timeout, const sigset_t *mask) {
    selection of = {.count = count, .sets = {reads, writes, urgent}};
    int64_t deadline;
    if (mask != NULL || count < 0 || count > FD_SETSIZE || !interpose_has_loop()
        || !deadline_of(timeout, &deadline))
        return pselect(count, reads, writes, urgent, timeout, mask);
    int found = select_until(&of, deadline);
    return found == -2 ? pselect(count, reads, writes, urgent, timeout, mask) : found;
}

/* -- epoll -- */

static int interposed_epoll_wait(int watcher, struct epoll_event *events, int room, int timeout) {
    int insists = 0, before = errno;
    if (timeout == 0 || !interpose_has_loop())
        return epoll_wait(watcher, events, room, timeout);
    int64_t deadline = timeout < 0 ? INTERPOSE_NEVER : interpose_after((int64_t)timeout * 1000000);
    int found = epoll_wait(watcher, events, room, 0);
    if (found > 0)
        interpose_succeeded(before);
    while (found == 0) {
        int outcome = interpose_wait(watcher, INTERPOSE_READ, deadline, insists);
        if (outcome == PARK_REFUSED)
            return epoll_wait(watcher, events, room, milliseconds_left(deadline));
        errno = before;
        insists = insists || outcome == PARK_BROKEN; /* which of its sockets to shut down is not known */
        found = epoll_wait(watcher, events, room, 0);
        if (outcome == PARK_OVER)
            return found;
    }
    return found;
}

static int interposed_epoll_pwait(int watcher, struct epoll_event *events, int room, int timeout,
                              const sigset_t *mask) {
    if (mask != NULL)
        return epoll_pwait(watcher, events, room, timeout, mask);
    return interposed_epoll_wait(watcher, events, room, timeout);
}

const interposer polling_calls[] = {
    {"poll", interposed_poll, poll},
    {"ppoll", interposed_ppoll, ppoll},
    {"__poll_chk", interposed_poll_chk, __poll_chk},
    {"__ppoll_chk", interposed_ppoll_chk, __ppoll_chk},
    {"select", interposed_select, select},
    {"pselect", interposed_pselect, pselect},
    {"epoll_wait", interposed_epoll_wait, epoll_wait},
    {"epoll_pwait", interposed_epoll_pwait, epoll_pwait},
    {NULL, NULL, NULL},
};
