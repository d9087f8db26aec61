/* Preloaded: calls of the system fail as they do where the system is short of something. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

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

#define FAILING(call, parameters, ...) FAILING_IF(1, call, parameters, __VA_ARGS__)
#define FAILING_IF(possible, call, parameters, ...)                 \
    int call parameters {                                           \
        static int(*original) parameters;                           \
        if (possible && fails(#call))                               \
            return -1;                                              \
        if (!original)                                              \
            original = (int(*) parameters)dlsym(RTLD_NEXT, #call);  \
        return original(__VA_ARGS__);                               \
    }

FAILING(accept4, (int fd, struct sockaddr *address, socklen_t *size, int flags), fd, address, size, flags)
FAILING(epoll_create1, (int flags), flags)
/* what is there can always be taken away: that needs no memory */
FAILING_IF(action != EPOLL_CTL_DEL, epoll_ctl, (int epoll, int action, int fd, struct epoll_event *event), epoll,
           action, fd, event)
FAILING(eventfd, (unsigned int value, int flags), value, flags)
FAILING(pipe2, (int ends[2], int flags), ends, flags)
FAILING(socket, (int family, int type, int protocol), family, type, protocol)
