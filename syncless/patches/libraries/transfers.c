/* Interposers of calls that move bytes: recv, send, read, write and their kin. */

#include "interpose.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FEW_PIECES = 16 };

static int would_wait(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK;
}

static int is_stream(int fd) {
    int type = 0;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/* The result of a call that has moved `done` bytes and then failed. */
static ssize_t so_far(size_t done) {
    return done ? (ssize_t)done : -1;
}

/* -- receiving -- */

static ssize_t receive(int fd, void *data, size_t size, int flags, struct sockaddr *address,
                       socklen_t *length) {
    transfer wait = {.fd = fd, .bits = INTERPOSE_READ, .option = SO_RCVTIMEO};
    int before = errno;
    size_t done = 0;
    int all = flags & MSG_WAITALL, peeks = flags & MSG_PEEK;
    if (!interpose_has_loop() || flags & (MSG_DONTWAIT | MSG_ERRQUEUE))
        return recvfrom(fd, data, size, flags, address, length);
    for (;;) {
        ssize_t n = recvfrom(fd, (char *)data + done, size - done, flags | MSG_DONTWAIT, address, length);
        int is_short = n > 0 && all && done + (size_t)n < size && is_stream(fd);
        if (n >= 0 && !(is_short && peeks)) {
            done += (size_t)n;
            if (is_short)
                continue;
            interpose_succeeded(before);
            return (ssize_t)done;
        }
        if (n < 0 && !would_wait())
            return so_far(done);
        switch (n < 0 ? transfer_wait(&wait) : transfer_wait_for_more(&wait)) {
        case TRANSFER_ENDS:
            if (n < 0)
                return so_far(done);
            errno = before;
            return n;
        case TRANSFER_REFUSED:
            n = recvfrom(fd, (char *)data + done, size - done, flags, address, length);
            return n < 0 ? so_far(done) : n + (ssize_t)done;
        }
    }
}

static ssize_t interposed_recvfrom(int fd, void *data, size_t size, int flags, struct sockaddr *address,
                               socklen_t *length) {
    return receive(fd, data, size, flags, address, length);
}

static ssize_t interposed_recv(int fd, void *data, size_t size, int flags) {
    return receive(fd, data, size, flags, NULL, NULL);
}

static ssize_t interposed_recvmsg(int fd, struct msghdr *message, int flags) {
    transfer wait = {.fd = fd, .bits = INTERPOSE_READ, .option = SO_RCVTIMEO};
    int before = errno;
    socklen_t name = message->msg_namelen;
    size_t control = message->msg_controllen;
    if (!interpose_has_loop() || flags & (MSG_DONTWAIT | MSG_ERRQUEUE | MSG_WAITALL))
        return recvmsg(fd, message, flags);
    for (;;) {
        ssize_t n = recvmsg(fd, message, flags | MSG_DONTWAIT);
        if (n >= 0)
            interpose_succeeded(before);
        if (n >= 0 || !would_wait())
            return n;
        message->msg_namelen = name;
        message->msg_controllen = control;
        switch (transfer_wait(&wait)) {
        case TRANSFER_ENDS: return -1;
        case TRANSFER_REFUSED: return recvmsg(fd, message, flags);
        }
    }
}

/* Parks until something that is no socket is ready for the call. Returns 0, with errno, if it has been closed
   meanwhile. One with O_NONBLOCK says EAGAIN by itself. */
static int await_other(transfer *wait) {
    struct pollfd one = {wait->fd, wait->bits == INTERPOSE_READ ? POLLIN : POLLOUT, 0};
    int next = TRANSFER_AGAIN;
    while (next == TRANSFER_AGAIN && poll(&one, 1, 0) == 0)
        next = transfer_wait(wait);
    return next != TRANSFER_ENDS || errno != EBADF;
}

static ssize_t interposed_read(int fd, void *data, size_t size) {
    transfer wait = {.fd = fd, .bits = INTERPOSE_READ, .option = SO_RCVTIMEO};
    int before = errno;
    if (!interpose_has_loop() || size == 0)
        return read(fd, data, size);
    for (;;) {
        ssize_t n = recv(fd, data, size, MSG_DONTWAIT);
        if (n < 0 && errno == ENOTSOCK) {
            if (!await_other(&wait))
                return -1;
            errno = before;
            return read(fd, data, size);
        }
        if (n >= 0)
            interpose_succeeded(before);
        if (n >= 0 || !would_wait())
            return n;
        switch (transfer_wait(&wait)) {
        case TRANSFER_ENDS: return -1;
        case TRANSFER_REFUSED: return read(fd, data, size);
        }
    }
}

static ssize_t interposed_readv(int fd, const struct iovec *pieces, int count) {
    struct msghdr message;
    struct stat kind;
    transfer wait = {.fd = fd, .bits = INTERPOSE_READ, .option = SO_RCVTIMEO};
    if (!interpose_has_loop() || fstat(fd, &kind) < 0)
        return readv(fd, pieces, count);
    if (!S_ISSOCK(kind.st_mode)) {
        return await_other(&wait) ? readv(fd, pieces, count) : -1;
    }
    memset(&message, 0, sizeof message);
    message.msg_iov = (struct iovec *)pieces;
    message.msg_iovlen = (size_t)count;
    return interposed_recvmsg(fd, &message, 0);
}

/* -- sending -- */

static ssize_t transmit(int fd, const void *data, size_t size, int flags, const struct sockaddr *address,
                        socklen_t length) {
    transfer wait = {.fd = fd, .bits = INTERPOSE_WRITE, .option = SO_SNDTIMEO};
    int before = errno;
    size_t done = 0;
    if (!interpose_has_loop() || flags & MSG_DONTWAIT)
        return sendto(fd, data, size, flags, address, length);
    for (;;) {
        ssize_t n = sendto(fd, (const char *)data + done, size - done, flags | MSG_DONTWAIT, address, length);
        if (n >= 0) {
            done += (size_t)n;
            if (done >= size || !is_stream(fd)) {
                interpose_succeeded(before);
                return (ssize_t)done;
            }
            continue;
        }
        if (!would_wait())
            return so_far(done);
        switch (transfer_wait(&wait)) {
        case TRANSFER_ENDS: return so_far(done);
        case TRANSFER_REFUSED:
            n = sendto(fd, (const char *)data + done, size - done, flags, address, length);
            return n < 0 ? so_far(done) : n + (ssize_t)done;
        }
    }
}

static ssize_t interposed_sendto(int fd, const void *data, size_t size, int flags,
                             const struct sockaddr *address, socklen_t length) {
    return transmit(fd, data, size, flags, address, length);
}

static ssize_t interposed_send(int fd, const void *data, size_t size, int flags) {
    return transmit(fd, data, size, flags, NULL, 0);
}

/* A pipe or terminal that poll() calls writable takes PIPE_BUF bytes without waiting. */
static ssize_t write_in_parts(int fd, const void *data, size_t size) {
    transfer wait = {.fd = fd, .bits = INTERPOSE_WRITE, .option = SO_SNDTIMEO};
    struct pollfd one = {fd, POLLOUT, 0};
    size_t done = 0;
    while (done < size) {
        size_t part = size - done < PIPE_BUF ? size - done : PIPE_BUF;
        if (poll(&one, 1, 0) == 0) {
            int next = transfer_wait(&wait);
            if (next == TRANSFER_AGAIN)
                continue;
            if (next == TRANSFER_ENDS && errno == EBADF)
                return so_far(done);
            part = size - done;
        }
        ssize_t n = write(fd, (const char *)data + done, part);
        if (n < 0)
            return so_far(done);
        done += (size_t)n;
        if ((size_t)n < part)
            break;
    }
    return (ssize_t)done;
}

static ssize_t interposed_write(int fd, const void *data, size_t size) {
    struct stat kind;
    if (!interpose_has_loop() || size == 0 || fstat(fd, &kind) < 0)
        return write(fd, data, size);
    if (S_ISSOCK(kind.st_mode))
        return transmit(fd, data, size, 0, NULL, 0);
    if (S_ISFIFO(kind.st_mode) || S_ISCHR(kind.st_mode))
        return write_in_parts(fd, data, size);
    return write(fd, data, size);
}

/* Takes the first `count` bytes off the pieces of a message. */
static void skip(struct msghdr *message, size_t count) {
    while (message->msg_iovlen && count >= message->msg_iov->iov_len) {
        count -= message->msg_iov->iov_len;
        message->msg_iov++;
        message->msg_iovlen--;
    }
    if (message->msg_iovlen) {
        message->msg_iov->iov_base = (char *)message->msg_iov->iov_base + count;
        message->msg_iov->iov_len -= count;
    }
}

static ssize_t transmit_pieces(int fd, const struct msghdr *asked, int flags) {
    transfer wait = {.fd = fd, .bits = INTERPOSE_WRITE, .option = SO_SNDTIMEO};
    int before = errno;
    struct iovec few[FEW_PIECES], *pieces = few;
    struct msghdr message = *asked;
    size_t done = 0, total = 0;
    ssize_t result = -1;
    if (asked->msg_iovlen > FEW_PIECES)
        pieces = malloc(asked->msg_iovlen * sizeof *pieces);
    if (pieces == NULL)
        return sendmsg(fd, asked, flags);
    memcpy(pieces, asked->msg_iov, asked->msg_iovlen * sizeof *pieces);
    message.msg_iov = pieces;
    for (size_t i = 0; i < asked->msg_iovlen; i++)
        total += pieces[i].iov_len;
    for (;;) {
        ssize_t n = sendmsg(fd, &message, flags | MSG_DONTWAIT);
        if (n < 0 && would_wait()) {
            int next = transfer_wait(&wait);
            if (next == TRANSFER_AGAIN)
                continue;
            if (next == TRANSFER_REFUSED)
                n = sendmsg(fd, &message, flags);
            result = n < 0 ? so_far(done) : n + (ssize_t)done;
            break;
        }
        if (n < 0) {
            result = so_far(done);
            break;
        }
        done += (size_t)n;
        result = (ssize_t)done;
        errno = before;
        if (done >= total || !is_stream(fd))
            break;
        skip(&message, (size_t)n);
        message.msg_control = NULL; /* descriptors went with the first part */
        message.msg_controllen = 0;
    }
    if (pieces != few) {
        int error = errno;
        free(pieces);
        errno = error;
    }
    return result;
}

static ssize_t interposed_sendmsg(int fd, const struct msghdr *message, int flags) {
    if (!interpose_has_loop() || flags & MSG_DONTWAIT)
        return sendmsg(fd, message, flags);
    return transmit_pieces(fd, message, flags);
}

static ssize_t interposed_writev(int fd, const struct iovec *pieces, int count) {
    struct msghdr message;
    struct stat kind;
    if (!interpose_has_loop() || count < 0 || fstat(fd, &kind) < 0)
        return writev(fd, pieces, count);
    if (S_ISSOCK(kind.st_mode)) {
        memset(&message, 0, sizeof message);
        message.msg_iov = (struct iovec *)pieces;
        message.msg_iovlen = (size_t)count;
        return transmit_pieces(fd, &message, 0);
    }
    if (S_ISFIFO(kind.st_mode) || S_ISCHR(kind.st_mode)) {
        transfer wait = {.fd = fd, .bits = INTERPOSE_WRITE, .option = SO_SNDTIMEO};
        if (!await_other(&wait))
            return -1;
    }
    return writev(fd, pieces, count);
}

/* -- those of a fortified build -- */

INTERPOSE_MAY_LACK ssize_t __recv_chk(int, void *, size_t, size_t, int);
INTERPOSE_MAY_LACK ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
INTERPOSE_MAY_LACK ssize_t __read_chk(int, void *, size_t, size_t);

static ssize_t interposed_recv_chk(int fd, void *data, size_t size, size_t room, int flags) {
    if (size > room)
        return __recv_chk(fd, data, size, room, flags); /* which ends the process */
    return receive(fd, data, size, flags, NULL, NULL);
}

static ssize_t interposed_recvfrom_chk(int fd, void *data, size_t size, size_t room, int flags,
                                   struct sockaddr *address, socklen_t *length) {
    if (size > room)
        return __recvfrom_chk(fd, data, size, room, flags, address, length);
    return receive(fd, data, size, flags, address, length);
}

static ssize_t interposed_read_chk(int fd, void *data, size_t size, size_t room) {
    return size > room ? __read_chk(fd, data, size, room) : interposed_read(fd, data, size);
}

const interposer transfer_calls[] = {
    {"recv", interposed_recv, recv},
    {"recvfrom", interposed_recvfrom, recvfrom},
    {"recvmsg", interposed_recvmsg, recvmsg},
    {"read", interposed_read, read},
    {"readv", interposed_readv, readv},
    {"send", interposed_send, send},
    {"sendto", interposed_sendto, sendto},
    {"sendmsg", interposed_sendmsg, sendmsg},
    {"write", interposed_write, write},
    {"writev", interposed_writev, writev},
    {"__recv_chk", interposed_recv_chk, __recv_chk},
    {"__recvfrom_chk", interposed_recvfrom_chk, __recvfrom_chk},
    {"__read_chk", interposed_read_chk, __read_chk},
    {NULL, NULL, NULL},
};
