/* Interposers of connect and accept. */

#include "interpose.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { FIRST_PAUSE_NS = 1000000, LONGEST_PAUSE_NS = 20000000 };

/* The mode belongs to the open file, which other processes may share: it is set for one call only, which does
   not wait. */
static int without_waiting(int fd, int flags, int (*call)(int, void *, void *, int), void *address,
                           void *length, int option) {
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    int result = call(fd, address, length, option);
    int error = errno;
    fcntl(fd, F_SETFL, flags);
    errno = error;
    return result;
}

static int call_connect(int fd, void *address, void *length, int option) {
    (void)option;
    return connect(fd, address, *(socklen_t *)length);
}

/* Whether the attempt that is under way has succeeded: as connect() returns. */
static int outcome_of_connect(int fd, int broken) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        return -1;
    if (error == 0 && broken)
        error = ECONNABORTED; /* we have shut it down */
    errno = error;
    return error ? -1 : 0;
}

static int interposed_connect(int fd, const struct sockaddr *address, socklen_t length) {
    transfer wait = {.fd = fd, .bits = INTERPOSE_WRITE, .option = SO_SNDTIMEO};
    int64_t pause = FIRST_PAUSE_NS;
    int flags = interpose_has_loop() ? fcntl(fd, F_GETFL) : -1;
    if (flags < 0 || flags & O_NONBLOCK)
        return connect(fd, address, length);
    for (;;) {
        int result = without_waiting(fd, flags, call_connect, (void *)address, &length, 0);
        if (result == 0 || (errno != EINPROGRESS && errno != EALREADY && errno != EAGAIN))
            return result;
        if (errno != EAGAIN)
            break; /* under way, perhaps since an earlier call */
        /* a UNIX socket whose listener has no room: the kernel tells of no event */
        ino_t known = interpose_socket(fd);
        int outcome = interpose_wait(-1, 0, interpose_after(pause), 0);
        if (outcome == PARK_REFUSED)
            return connect(fd, address, length);
        if (interpose_socket(fd) != known) { /* another tasklet has closed it */
            errno = EBADF;
            return -1;
        }
        if (outcome == PARK_BROKEN) {
            errno = EAGAIN; /* nothing has begun */
            return -1;
        }
        pause = pause * 2 < LONGEST_PAUSE_NS ? pause * 2 : LONGEST_PAUSE_NS;
    }
    for (;;) {
        struct pollfd one = {fd, POLLOUT, 0};
        if (poll(&one, 1, 0) != 0)
            return outcome_of_connect(fd, 0);
        switch (transfer_wait(&wait)) {
        case TRANSFER_ENDS: errno = errno == EAGAIN ? EINPROGRESS : errno; return -1;
        case TRANSFER_REFUSED: poll(&one, 1, -1); break;
        }
        if (wait.insists)
            return outcome_of_connect(fd, 1);
    }
}

static int call_accept(int fd, void *address, void *length, int option) {
    return accept4(fd, address, length, option);
}

static int interposed_accept4(int fd, struct sockaddr *address, socklen_t *length, int options) {
    /* a listening socket is not shut down: other tasklets accept from it, too */
    transfer wait = {.fd = fd, .bits = INTERPOSE_READ, .option = SO_RCVTIMEO, .insists = 1};
    int flags = interpose_has_loop() ? fcntl(fd, F_GETFL) : -1;
    if (flags < 0 || flags & O_NONBLOCK)
        return accept4(fd, address, length, options);
    for (;;) {
        int result = without_waiting(fd, flags, call_accept, address, length, options);
        if (result >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
            return result;
        switch (transfer_wait(&wait)) {
        case TRANSFER_ENDS: return -1;
        case TRANSFER_REFUSED: return accept4(fd, address, length, options);
        }
    }
}

static int interposed_accept(int fd, struct sockaddr *address, socklen_t *length) {
    return interposed_accept4(fd, address, length, 0);
}

const interposer connecting_calls[] = {
    {"connect", interposed_connect, connect},
    {"accept", interposed_accept, accept},
    {"accept4", interposed_accept4, accept4},
    {NULL, NULL, NULL},
};
