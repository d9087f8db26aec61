/* The interposer of getaddrinfo: an OS thread asks libc while the tasklet is parked.

   The tasklet may be killed meanwhile, and its stack may lie elsewhere, so all that the thread reads and
   writes is on the heap and has two owners. The last one frees it. */

#include "interpose.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MOST_AT_ONCE = 64, PAUSE_NS = 5000000 };

typedef struct {
    char *host, *service; /* service: or NULL */
    struct addrinfo hints;
    struct addrinfo *found;
    int outcome;
    int error; /* errno, for EAI_SYSTEM */
    int done; /* an eventfd */
    int owners;
} lookup;

static int under_way;

static void forget_all(void) {
    under_way = 0; /* a child has none of the threads */
}

static void reset_in_children(void) {
    pthread_atfork(NULL, NULL, forget_all);
}

static void drop(lookup *one) {
    if (__atomic_sub_fetch(&one->owners, 1, __ATOMIC_ACQ_REL))
        return;
    if (one->found)
        freeaddrinfo(one->found);
    if (one->done >= 0)
        close(one->done);
    free(one->host);
    free(one->service);
    free(one);
}

static void *ask(void *argument) {
    lookup *one = argument;
    uint64_t number = 1;
    one->outcome = getaddrinfo(one->host, one->service, &one->hints, &one->found);
    one->error = errno;
    if (one->outcome)
        one->found = NULL;
    if (write(one->done, &number, sizeof number) < 0) {
        /* it has room for it */
    }
    __atomic_sub_fetch(&under_way, 1, __ATOMIC_RELAXED);
    drop(one);
    return NULL;
}

/* In a thread that takes no signals: they are for the program's own threads. */
static int start(lookup *one) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;
    pthread_once(&once, reset_in_children);
    if (pthread_attr_init(&detached))
        return -1;
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    one->owners++;
    __atomic_add_fetch(&under_way, 1, __ATOMIC_RELAXED);
    int error = pthread_create(&thread, &detached, ask, one);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    if (error) {
        __atomic_sub_fetch(&under_way, 1, __ATOMIC_RELAXED);
        one->owners--;
    }
    return error;
}

static lookup *new_lookup(const char *host, const char *service, const struct addrinfo *hints) {
    lookup *one = calloc(1, sizeof *one);
    if (one == NULL)
        return NULL;
    one->owners = 1;
    one->done = eventfd(0, EFD_CLOEXEC);
    one->host = strdup(host);
    one->service = service ? strdup(service) : NULL;
    if (hints)
        one->hints = *hints;
    else
        one->hints.ai_flags = AI_V4MAPPED | AI_ADDRCONFIG; /* the same as no hints */
    if (one->done >= 0 && one->host && (one->service || !service))
        return one;
    drop(one);
    return NULL;
}

static int interposed_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                              struct addrinfo **found) {
    struct addrinfo numeric = {.ai_flags = AI_NUMERICHOST};
    if (host == NULL || !interpose_has_loop())
        return getaddrinfo(host, service, hints, found);
    if (hints) {
        numeric = *hints;
        numeric.ai_flags |= AI_NUMERICHOST;
    }
    int outcome = getaddrinfo(host, service, &numeric, found);
    if (outcome != EAI_NONAME || (hints && hints->ai_flags & AI_NUMERICHOST))
        return outcome;
    while (__atomic_load_n(&under_way, __ATOMIC_RELAXED) >= MOST_AT_ONCE) {
        switch (interpose_wait(-1, 0, interpose_after(PAUSE_NS), 0)) {
        case PARK_REFUSED: return getaddrinfo(host, service, hints, found);
        case PARK_BROKEN: return EAI_AGAIN;
        }
    }
    lookup *one = new_lookup(host, service, hints);
    if (one == NULL)
        return EAI_MEMORY;
    if (start(one)) {
        drop(one);
        return getaddrinfo(host, service, hints, found);
    }
    int waited = interpose_wait(one->done, INTERPOSE_READ | INTERPOSE_ENDS, INTERPOSE_NEVER, 0);
    if (waited == PARK_REFUSED) {
        uint64_t number;
        while (read(one->done, &number, sizeof number) < 0)
            continue; /* interrupted by a signal */
    }
    int error = errno;
    if (waited == PARK_BROKEN)
        outcome = EAI_AGAIN;
    else {
        outcome = one->outcome;
        error = outcome == EAI_SYSTEM ? one->error : error;
        *found = one->found;
        one->found = NULL;
    }
    drop(one);
    errno = error;
    return outcome;
}

const interposer name_calls[] = {
    {"getaddrinfo", interposed_getaddrinfo, getaddrinfo},
    {NULL, NULL, NULL},
};
