/* The functions that stand in the place of libc's waiting calls in patched libraries.

   Each does what the call does by its manual, with one difference: where the call would wait in a tasklet,
   the tasklet parks and others run. So each first tries without waiting, asks park() only when it must wait,
   and tries again afterwards. Everything that is not for us goes to libc: other threads, callers that hold
   the GIL, callbacks of the loop, descriptors with O_NONBLOCK. errno is set last.

   While a tasklet is parked, its C stack may be copied elsewhere. So nothing that others see during a wait
   (the kernel, a helper thread) points into the stack of an interposer.

   An exception that is thrown at a parked tasklet cannot be raised in C. The wait is broken off: a socket is
   shut down, so that the library meets the end of its connection and cleans up by itself, and Python raises
   the exception afterwards. No error is invented where the library could believe that its connection is
   still good. parking.pyx knows tasklets; these files know only this header. */

#ifndef SYNCLESS_INTERPOSE_H
#define SYNCLESS_INTERPOSE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

typedef struct {
    const char *name; /* of libc's function */
    void *function;
    void *original;
} interposer;

/* The row of a function of libc; NULL if it is not replaced, or if this C library lacks it. */
const interposer *interposer_find(const char *name);

/* Each ends with a row without a name. A C library that lacks a function has NULL as its original. */
extern const interposer transfer_calls[], connecting_calls[], polling_calls[], pause_calls[], name_calls[],
    loading_calls[];

#define INTERPOSE_MAY_LACK extern __attribute__((weak))

/* -- given by parking.pyx -- */

enum {
    INTERPOSE_READ = 1,
    INTERPOSE_WRITE = 2,
    INTERPOSE_ENDS = 4 /* soon, whatever happens: only the first call after an exception is broken off */
};

enum {
    PARK_WOKEN = 0,
    PARK_OVER,   /* the deadline has passed */
    PARK_BROKEN, /* something was thrown at the tasklet: the call should end soon */
    PARK_REFUSED, /* the caller must wait by itself */
    PARK_UNWATCHED /* epoll does not take the descriptor; interpose_wait() makes a pause of it */
};

/* The GIL is not held. */
extern int (*interpose_has_loop)(void);
/* fd -1: only for the time, and INTERPOSE_ENDS. `insists`: an exception does not end the wait. */
extern int (*interpose_park)(int fd, int bits, int64_t deadline, int insists);
/* Lets others run if it is time. */
extern void (*interpose_give_way)(void);
/* A patched library has loaded another object. */
extern void (*interpose_loaded)(void);

/* -- shared by the files of interposers -- */

#define INTERPOSE_NEVER ((int64_t)-1)

typedef struct {
    unsigned long long waits;       /* a tasklet parked */
    unsigned long long with_lock;   /* while it held a mutex of a patched library */
    unsigned long long broken;      /* something was thrown at it meanwhile */
    unsigned long long holding_gil; /* the caller keeps the GIL: the thread waited */
    unsigned long long no_tasklet;  /* the caller is no tasklet, or waited in the loop: the thread waited */
    unsigned long long lock_waits;  /* for a mutex that another tasklet holds */
} interpose_counts;
extern interpose_counts interpose_stats;

static inline void interpose_count(unsigned long long *count) {
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

static inline int64_t interpose_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The deadline that is `ns` nanoseconds away. */
static inline int64_t interpose_after(int64_t ns) {
    int64_t now = interpose_now();
    return ns > INT64_MAX - now ? INTERPOSE_NEVER : now + ns;
}

static inline int64_t interpose_left(int64_t deadline) {
    int64_t left = deadline - interpose_now();
    return left > 0 ? left : 0;
}

/* A patched library may have loaded another object: the next wait calls interpose_loaded(). */
extern int interpose_look_is_due;

/* How many mutexes of patched libraries the running tasklet or thread holds. */
extern __thread int interpose_held_locks;

/* interpose_park(), counted. */
int interpose_wait(int fd, int bits, int64_t deadline, int insists);
/* A short pause in the place of a wait for descriptors.

   Fact: epoll has limits: of descriptors and of what a user watches, and at most some 500 epoll descriptors
   that are watched themselves may watch the same one. Danger: the call would have to stop the thread.
   Decision: the tasklet looks again and again. Guarded by
   tests/patches/test_native.py::test_more_tasklets_poll_a_descriptor_than_epoll_takes. */
int interpose_wait_unwatched(int64_t deadline, int insists);
/* Which socket the descriptor is; 0: none. Others may close it during a wait; its number is given away. */
ino_t interpose_socket(int fd);
/* An exception has broken off a wait: the connection of the descriptor ends if it is still that socket. A
   listening socket is left alone: others accept from it, too. */
void interpose_shut_down(int fd, ino_t known);
/* A call has succeeded: errno is as before it. Every so often others get a turn. */
void interpose_succeeded(int error);

/* -- a wait for one descriptor -- */

typedef struct {
    int fd, bits;
    int option;       /* SO_RCVTIMEO or SO_SNDTIMEO: it bounds each wait */
    int insists;      /* an exception does not end the wait */
    int decided;      /* the deadline is known, and that the descriptor may wait */
    int64_t deadline; /* of the whole call */
} transfer;

enum {
    TRANSFER_AGAIN,  /* try once more */
    TRANSFER_ENDS,   /* with errno: EAGAIN, the time is over or the descriptor never waits; or EBADF */
    TRANSFER_REFUSED /* libc must wait */
};

/* Parks.

   Fact: others may close the descriptor meanwhile, and its number is given away again. Danger: the call would
   take the bytes of the new owner, or shut its connection down. Decision: the open file must be the same one
   after the wait. Price: two calls of fstat() for each wait. Guarded by
   tests/patches/test_native.py::test_call_does_not_touch_the_next_owner_of_its_descriptor. */
int transfer_wait(transfer *wait);
/* The same for more bytes than can be read, which the kernel does not tell of: parks for a short while.
   TRANSFER_ENDS: no more will come in time, or it is another's. */
int transfer_wait_for_more(transfer *wait);

#endif
