/* Preloaded: calls of the system fail as they do where the system is short of something, or do half of what they could.
 *
 * Two ways: fail_calls() says which calls fail, of all descriptors. fail_at_random() lets a seed decide, for sockets: any call on them may
 * be interrupted, take or give less than it could, or find nothing yet. Then the kernel is told to look again, so that an edge-triggered
 * epoll tells of the rest, as if it had come later. Calls on connections whose client calls itself by a name that begins with "bad" may
 * fail for good. accept4() may, too; if there are no descriptors, a server closes connections to have some. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define REAL(call) \
    static __typeof__(&call) real; \
    if (!real) \
        real = (__typeof__(&call))dlsym(RTLD_NEXT, #call)

static char name[32];
static int error;
static atomic_long passing, failing;

/* The calls of that name: so many pass, then so many fail. */
void fail_calls(const char *call, long after, long count, int number) {
    name[0] = 0;
    error = number;
    atomic_store(&passing, after);
    atomic_store(&failing, count);
    strncpy(name, call, sizeof name - 1);
}

/* How many of those have not failed yet. */
long failures_left(void) { return atomic_load(&failing); }

static int fails(const char *call) {
    if (strcmp(name, call) || atomic_fetch_sub(&passing, 1) > 0)
        return 0;
    if (atomic_fetch_sub(&failing, 1) <= 0) {
        atomic_fetch_add(&failing, 1);
        return 0;
    }
    errno = error;
    return 1;
}

/* -- by a seed -------------------------------------------------------------------------------------------------------------------- */

#define DESCRIPTORS 4096
static uint64_t state; /* of the random numbers; 0: nothing fails */
static unsigned harmless_one_in, harmful_one_in, scarce_one_in;
static long injected;
static struct {
    char is_socket, is_bad;
    int epoll; /* in which it is, or 0, with this event */
    struct epoll_event event;
} descriptors[DESCRIPTORS];

/* One call in so many, or none if that is 0. In one thread. */
void fail_at_random(unsigned long long seed, unsigned harmless, unsigned harmful, unsigned scarce) {
    state = seed * 0x9E3779B97F4A7C15u | 1;
    harmless_one_in = harmless;
    harmful_one_in = harmful;
    scarce_one_in = scarce;
    injected = 0;
}

/* No more from now on. How many calls did not do all that they could. */
long stop_failing(void) {
    harmless_one_in = harmful_one_in = scarce_one_in = 0;
    return injected;
}

static unsigned any_of(unsigned count) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (unsigned)((state * 0x2545F4914F6CDD1Du) >> 33) % count;
}

static int happens(unsigned one_in) {
    if (!state || !one_in || any_of(one_in))
        return 0;
    injected++;
    return 1;
}

static int known(int fd) { return state && fd >= 0 && fd < DESCRIPTORS && descriptors[fd].is_socket; }

static void look_again(int fd) {
    REAL(epoll_ctl);
    if (descriptors[fd].epoll)
        real(descriptors[fd].epoll, EPOLL_CTL_MOD, fd, &descriptors[fd].event);
}

/* 1: the call fails, with errno. Else *size is what it may do. */
static int falls_short(int fd, size_t *size, const int *errors, unsigned count) {
    if (!known(fd))
        return 0;
    if (descriptors[fd].is_bad && happens(harmful_one_in)) {
        errno = errors[any_of(count)];
        return 1;
    }
    if (!happens(harmless_one_in))
        return 0;
    switch (any_of(4)) {
    case 0:
        errno = EINTR;
        return 1;
    case 1:
        look_again(fd);
        errno = EAGAIN;
        return 1;
    default:
        if (*size > 1) {
            *size = 1 + any_of(any_of(2) ? *size : *size < 16 ? *size : 16);
            look_again(fd);
        }
        return 0;
    }
}

static const int receiving[] = {ECONNRESET, ENOMEM, ETIMEDOUT}, sending[] = {ECONNRESET, EPIPE, ENOMEM, ENOBUFS};
#define FALLS_SHORT(fd, size, errors) falls_short(fd, size, errors, sizeof errors / sizeof *errors)

ssize_t recv(int fd, void *data, size_t size, int flags) {
    REAL(recv);
    return FALLS_SHORT(fd, &size, receiving) ? -1 : real(fd, data, size, flags);
}

ssize_t send(int fd, const void *data, size_t size, int flags) {
    REAL(send);
    return FALLS_SHORT(fd, &size, sending) ? -1 : real(fd, data, size, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    REAL(sendmsg);
    struct msghdr less = *message;
    struct iovec part = less.msg_iovlen ? less.msg_iov[0] : (struct iovec){0};
    size_t size = part.iov_len;
    if (FALLS_SHORT(fd, &size, sending))
        return -1;
    if (size < part.iov_len) {
        part.iov_len = size;
        less.msg_iov = &part;
        less.msg_iovlen = 1;
    }
    return real(fd, &less, flags);
}

int close(int fd) {
    REAL(close);
    if (fd >= 0 && fd < DESCRIPTORS)
        memset(&descriptors[fd], 0, sizeof descriptors[fd]);
    return real(fd);
}

/* Whether all of a file lies in memory must come from the seed as well. */
ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags) {
    REAL(preadv64v2);
    struct stat about;
    if (state && flags & RWF_NOWAIT && fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
        if (happens(harmless_one_in)) {
            errno = EAGAIN;
            return -1;
        }
        flags &= ~RWF_NOWAIT;
    }
    return real(fd, parts, count, offset, flags);
}

/* -- by name or by a seed --------------------------------------------------------------------------------------------------------- */

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
    REAL(accept4);
    static const int scarce[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS}, errors[] = {ECONNABORTED, EINTR};
    struct sockaddr_un from = {0};
    socklen_t length = sizeof from;
    if (fails("accept4"))
        return -1;
    int lack = happens(scarce_one_in);
    if (lack || happens(harmful_one_in)) {
        errno = lack ? scarce[any_of(4)] : errors[any_of(2)];
        if (fd < DESCRIPTORS)
            look_again(fd);
        return -1;
    }
    int accepted = real(fd, address, size, flags);
    if (accepted >= 0 && accepted < DESCRIPTORS && state) {
        int is_unix = getpeername(accepted, (struct sockaddr *)&from, &length) == 0 && from.sun_family == AF_UNIX;
        descriptors[accepted].is_socket = is_unix;
        descriptors[accepted].is_bad = is_unix && !strncmp(from.sun_path + 1, "bad", 3);
    }
    return accepted;
}

int socket(int family, int type, int protocol) {
    REAL(socket);
    if (fails("socket"))
        return -1;
    int fd = real(family, type, protocol);
    if (fd >= 0 && fd < DESCRIPTORS)
        descriptors[fd].is_socket = family == AF_UNIX;
    return fd;
}

int epoll_ctl(int epoll, int action, int fd, struct epoll_event *event) {
    REAL(epoll_ctl);
    int small = fd >= 0 && fd < DESCRIPTORS;
    /* what is there can always be taken away: that needs no memory */
    if (action != EPOLL_CTL_DEL && fails("epoll_ctl"))
        return -1;
    /* what is there already fails with EEXIST, and needs no memory either */
    if (action == EPOLL_CTL_ADD && small && descriptors[fd].is_bad && descriptors[fd].epoll != epoll && happens(harmful_one_in)) {
        errno = ENOMEM;
        return -1;
    }
    int result = real(epoll, action, fd, event);
    if (result == 0 && small) {
        descriptors[fd].epoll = action == EPOLL_CTL_DEL ? 0 : epoll;
        if (action != EPOLL_CTL_DEL)
            descriptors[fd].event = *event;
    }
    return result;
}

/* -- by name ---------------------------------------------------------------------------------------------------------------------- */

int epoll_create1(int flags) {
    REAL(epoll_create1);
    return fails("epoll_create1") ? -1 : real(flags);
}

int eventfd(unsigned int value, int flags) {
    REAL(eventfd);
    return fails("eventfd") ? -1 : real(value, flags);
}

int pipe2(int ends[2], int flags) {
    REAL(pipe2);
    return fails("pipe2") ? -1 : real(ends, flags);
}
