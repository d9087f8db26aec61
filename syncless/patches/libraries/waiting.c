/* Shared by the files of interposers: their waits, for one descriptor and for the time. The manual is
   interpose.h. */

#include "interpose.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

enum { CALLS_IN_A_ROW = 64, UNWATCHED_PAUSE_NS = 20000000, PEEK_PAUSE_NS = 2000000 };

int (*interpose_has_loop)(void);
int (*interpose_park)(int, int, int64_t, int);
void (*interpose_give_way)(void);
void (*interpose_loaded)(void);
interpose_counts interpose_stats;
int interpose_look_is_due;
__thread int interpose_held_locks;

int interpose_wait(int fd, int bits, int64_t deadline, int insists) {
    int held = interpose_held_locks;
    if (__atomic_load_n(&interpose_look_is_due, __ATOMIC_RELAXED)) {
        interpose_look_is_due = 0;
        interpose_loaded();
    }
    interpose_held_locks = 0; /* others run meanwhile, which hold their own */
    int outcome = interpose_park(fd, bits, deadline, insists);
    interpose_held_locks = held;
    if (outcome == PARK_UNWATCHED)
        return interpose_wait_unwatched(deadline, insists);
    if (outcome != PARK_REFUSED) {
        interpose_count(&interpose_stats.waits);
        if (held > 0)
            interpose_count(&interpose_stats.with_lock);
        if (outcome == PARK_BROKEN)
            interpose_count(&interpose_stats.broken);
    }
    return outcome;
}

int interpose_wait_unwatched(int64_t deadline, int insists) {
    int64_t pause = interpose_after(UNWATCHED_PAUSE_NS);
    int is_last = deadline != INTERPOSE_NEVER && deadline <= pause;
    int outcome = interpose_wait(-1, 0, is_last ? deadline : pause, insists);
    return outcome == PARK_OVER && !is_last ? PARK_WOKEN : outcome;
}

ino_t interpose_socket(int fd) {
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
}

void interpose_shut_down(int fd, ino_t known) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (known == 0 || interpose_socket(fd) != known)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && !listens)
        shutdown(fd, SHUT_RDWR);
}

void interpose_succeeded(int error) {
    static __thread unsigned calls;
    if (++calls % CALLS_IN_A_ROW == 0)
        interpose_give_way();
    errno = error;
}

const interposer *interposer_find(const char *name) {
    const interposer *tables[] = {transfer_calls, connecting_calls, polling_calls,
                                  pause_calls, name_calls, loading_calls};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const interposer *row = tables[i]; row->name; row++)
            if (strcmp(row->name, name) == 0)
                return row->original ? row : NULL;
    return NULL;
}

/* -- for one descriptor -- */

static int ends_with(int error) {
    errno = error;
    return TRANSFER_ENDS;
}

/* Whether the descriptor may wait, and how long: TRANSFER_AGAIN if so. */
static int decide(transfer *wait) {
    struct timeval limit = {0, 0};
    socklen_t size = sizeof limit;
    if (wait->decided)
        return TRANSFER_AGAIN;
    int flags = fcntl(wait->fd, F_GETFL);
    if (flags < 0)
        return TRANSFER_REFUSED;
    if (flags & O_NONBLOCK)
        return ends_with(EAGAIN);
    wait->decided = 1;
    wait->deadline = INTERPOSE_NEVER;
    if (getsockopt(wait->fd, SOL_SOCKET, wait->option, &limit, &size) == 0 && (limit.tv_sec || limit.tv_usec))
        wait->deadline = interpose_after((int64_t)limit.tv_sec * 1000000000 + (int64_t)limit.tv_usec * 1000);
    return TRANSFER_AGAIN;
}

int transfer_wait(transfer *wait) {
    struct stat before, after;
    int may = decide(wait);
    if (may != TRANSFER_AGAIN)
        return may;
    if (fstat(wait->fd, &before) < 0)
        return TRANSFER_REFUSED;
    int outcome = interpose_wait(wait->fd, wait->bits, wait->deadline, wait->insists);
    if (outcome == PARK_REFUSED)
        return TRANSFER_REFUSED;
    if (fstat(wait->fd, &after) < 0 || after.st_ino != before.st_ino || after.st_dev != before.st_dev)
        return ends_with(EBADF);
    switch (outcome) {
    case PARK_OVER: return ends_with(EAGAIN);
    case PARK_BROKEN:
        interpose_shut_down(wait->fd, after.st_ino);
        wait->insists = 1; /* without a connection, the wait goes on to its end */
    }
    return TRANSFER_AGAIN;
}

int transfer_wait_for_more(transfer *wait) {
    struct pollfd end = {wait->fd, POLLRDHUP, 0};
    int64_t pause = interpose_after(PEEK_PAUSE_NS);
    int may = decide(wait);
    if (may != TRANSFER_AGAIN)
        return may;
    if (poll(&end, 1, 0) != 0) /* no more will come */
        return TRANSFER_ENDS;
    ino_t known = interpose_socket(wait->fd);
    int is_last = wait->deadline != INTERPOSE_NEVER && wait->deadline <= pause;
    int outcome = interpose_wait(-1, 0, is_last ? wait->deadline : pause, wait->insists);
    if (outcome == PARK_REFUSED)
        return TRANSFER_REFUSED;
    if (interpose_socket(wait->fd) != known)
        return TRANSFER_ENDS;
    if (outcome == PARK_BROKEN) {
        interpose_shut_down(wait->fd, known);
        wait->insists = 1;
    }
    return is_last ? TRANSFER_ENDS : TRANSFER_AGAIN;
}
