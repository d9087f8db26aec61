/* A hook's wait for one descriptor. The manual is transfers.h. */

#include "transfers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/time.h>

enum { PEEK_PAUSE_NS = 2000000 };

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
    wait->deadline = HOOK_NEVER;
    if (getsockopt(wait->fd, SOL_SOCKET, wait->option, &limit, &size) == 0 && (limit.tv_sec || limit.tv_usec))
        wait->deadline = hook_after((int64_t)limit.tv_sec * 1000000000 + (int64_t)limit.tv_usec * 1000);
    return TRANSFER_AGAIN;
}

int transfer_wait(transfer *wait) {
    struct stat before, after;
    int may = decide(wait);
    if (may != TRANSFER_AGAIN)
        return may;
    if (fstat(wait->fd, &before) < 0)
        return TRANSFER_REFUSED;
    int outcome = hook_wait(wait->fd, wait->bits, wait->deadline, wait->insists);
    if (outcome == PARK_REFUSED)
        return TRANSFER_REFUSED;
    if (fstat(wait->fd, &after) < 0 || after.st_ino != before.st_ino || after.st_dev != before.st_dev)
        return ends_with(EBADF);
    switch (outcome) {
    case PARK_OVER: return ends_with(EAGAIN);
    case PARK_BROKEN:
        hook_shut_down(wait->fd);
        wait->insists = 1; /* without a connection, the wait goes on to its end */
    }
    return TRANSFER_AGAIN;
}

int transfer_wait_for_more(transfer *wait) {
    struct pollfd end = {wait->fd, POLLRDHUP, 0};
    int64_t pause = hook_after(PEEK_PAUSE_NS);
    int may = decide(wait);
    if (may != TRANSFER_AGAIN)
        return may;
    if (poll(&end, 1, 0) != 0) /* no more will come */
        return TRANSFER_ENDS;
    int is_last = wait->deadline != HOOK_NEVER && wait->deadline <= pause;
    switch (hook_wait(-1, 0, is_last ? wait->deadline : pause, wait->insists)) {
    case PARK_REFUSED: return TRANSFER_REFUSED;
    case PARK_BROKEN: hook_shut_down(wait->fd); wait->insists = 1;
    }
    return is_last ? TRANSFER_ENDS : TRANSFER_AGAIN;
}
