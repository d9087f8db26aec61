/* The functions that stand in the place of libc's waiting calls in patched libraries.

   Each does what the call does by its manual, with one difference: where the call would wait in a tasklet,
   the tasklet parks and others run. So each first tries without waiting, asks park() only when it must wait,
   and tries again afterwards. Everything that is not for us goes to libc: other threads, callers that hold
   the GIL, callbacks of the loop, descriptors with O_NONBLOCK. errno is set last.

   While a tasklet is parked, its C stack may be copied elsewhere. So nothing that others see during a wait
   (the kernel, a helper thread) points into the stack of a hook.

   An exception that is thrown at a parked tasklet cannot be raised in C. The wait is broken off: a socket is
   shut down, so that the library meets the end of its connection and cleans up by itself, and Python raises
   the exception afterwards. No error is invented where the library could believe that its connection is
   still good. parking.pyx knows tasklets; these files know only this header. */

#ifndef SYNCLESS_HOOKS_H
#define SYNCLESS_HOOKS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef struct {
    const char *name; /* of libc's function */
    void *hook;
    void *original;
} hook_row;

/* The row of a function of libc; NULL if it is not replaced, or if this C library lacks it. */
const hook_row *hook_find(const char *name);

/* Each ends with a row without a name. A C library that lacks a function has NULL as its original. */
extern const hook_row transfer_hooks[], connecting_hooks[], polling_hooks[], pause_hooks[], name_hooks[],
    loading_hooks[];

#define HOOK_MAY_LACK extern __attribute__((weak))

/* -- given by parking.pyx -- */

enum {
    HOOK_READ = 1,
    HOOK_WRITE = 2,
    HOOK_ENDS = 4 /* soon, whatever happens: only the first call after an exception is broken off */
};

enum {
    PARK_WOKEN = 0,
    PARK_OVER,   /* the deadline has passed */
    PARK_BROKEN, /* something was thrown at the tasklet: the call should end soon */
    PARK_REFUSED, /* the caller must wait by itself */
    PARK_UNWATCHED /* epoll does not take the descriptor; hook_wait() makes a pause of it */
};

/* The GIL is not held. */
extern int (*hook_has_loop)(void);
/* fd -1: only for the time, and HOOK_ENDS. `insists`: an exception does not end the wait. */
extern int (*hook_park)(int fd, int bits, int64_t deadline, int insists);
/* Lets others run if it is time. */
extern void (*hook_give_way)(void);
/* A patched library has loaded another object. */
extern void (*hook_loaded)(void);

/* -- shared by the files of hooks -- */

#define HOOK_NEVER ((int64_t)-1)

typedef struct {
    unsigned long long waits;       /* a tasklet parked */
    unsigned long long with_lock;   /* while it held a mutex of a patched library */
    unsigned long long broken;      /* something was thrown at it meanwhile */
    unsigned long long holding_gil; /* the caller keeps the GIL: the thread waited */
    unsigned long long no_tasklet;  /* the caller is no tasklet, or waited in the loop: the thread waited */
    unsigned long long lock_waits;  /* for a mutex that another tasklet holds */
} hook_counts;
extern hook_counts hook_stats;

static inline void hook_count(unsigned long long *count) {
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

static inline int64_t hook_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The deadline that is `ns` nanoseconds away. */
static inline int64_t hook_after(int64_t ns) {
    int64_t now = hook_now();
    return ns > INT64_MAX - now ? HOOK_NEVER : now + ns;
}

static inline int64_t hook_left(int64_t deadline) {
    int64_t left = deadline - hook_now();
    return left > 0 ? left : 0;
}

/* A patched library may have loaded another object: the next wait calls hook_loaded(). */
extern int hook_look_is_due;

/* How many mutexes of patched libraries the running tasklet or thread holds. */
extern __thread int hook_held_locks;

/* hook_park(), counted. */
int hook_wait(int fd, int bits, int64_t deadline, int insists);
/* A short pause in the place of a wait for descriptors.

   Fact: epoll has limits: of descriptors and of what a user watches, and at most some 500 epoll descriptors
   that are watched themselves may watch the same one. Danger: the call would have to stop the thread.
   Decision: the tasklet looks again and again. Guarded by
   tests/patches/test_native.py::test_more_tasklets_poll_a_descriptor_than_epoll_takes. */
int hook_wait_unwatched(int64_t deadline, int insists);
/* An exception has broken off a wait: the connection of the descriptor ends. A listening socket is left
   alone: others accept from it, too. */
void hook_shut_down(int fd);
/* A call has succeeded: errno is as before it. Every so often others get a turn. */
void hook_succeeded(int error);

#endif
