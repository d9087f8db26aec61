/* Hooks of calls that wait for the time or for a mutex.

   A mutex that a tasklet holds while it waits would stop the whole thread: the next tasklet that asks for it
   waits in the kernel for a holder that can never run. So a tasklet asks for the mutex again and again, with
   growing pauses. A recursive mutex is given twice to one thread, and so to two tasklets: libraries that have
   such a mutex around their waits must not be patched (known.py). */

#include "hooks.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

enum { FIRST_PAUSE_NS = 100000, LONGEST_PAUSE_NS = 2000000, BILLION = 1000000000 };

/* Returns the nanoseconds that are left, or -1 if libc must sleep. */
static int64_t pause_for(int64_t ns) {
    int64_t deadline = hook_after(ns);
    if (!hook_has_loop())
        return -1;
    switch (hook_wait(-1, 0, deadline, 0)) {
    case PARK_REFUSED: return -1;
    case PARK_BROKEN: return hook_left(deadline); /* it ends as after a signal */
    default: return 0;
    }
}

static unsigned hooked_sleep(unsigned seconds) {
    int64_t left = seconds ? pause_for((int64_t)seconds * BILLION) : -1;
    return left < 0 ? sleep(seconds) : (unsigned)((left + BILLION - 1) / BILLION);
}

static int hooked_usleep(useconds_t microseconds) {
    int64_t left = microseconds ? pause_for((int64_t)microseconds * 1000) : -1;
    if (left < 0)
        return usleep(microseconds);
    if (left > 0)
        errno = EINTR;
    return left > 0 ? -1 : 0;
}

static int is_usual(const struct timespec *asked) {
    return asked->tv_sec >= 0 && asked->tv_sec < INT64_MAX / 2000000000 && asked->tv_nsec >= 0
        && asked->tv_nsec < BILLION && (asked->tv_sec || asked->tv_nsec);
}

static int hooked_nanosleep(const struct timespec *asked, struct timespec *rest) {
    int64_t left = is_usual(asked) ? pause_for((int64_t)asked->tv_sec * BILLION + asked->tv_nsec) : -1;
    if (left < 0)
        return nanosleep(asked, rest);
    if (left == 0)
        return 0;
    if (rest)
        *rest = (struct timespec){left / BILLION, left % BILLION};
    errno = EINTR;
    return -1;
}

static int hooked_clock_nanosleep(clockid_t clock, int flags, const struct timespec *asked,
                                  struct timespec *rest) {
    struct timespec now;
    int64_t left = -1;
    if ((clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC) && is_usual(asked)) {
        int64_t ns = (int64_t)asked->tv_sec * BILLION + asked->tv_nsec;
        if (!(flags & TIMER_ABSTIME))
            left = pause_for(ns);
        else if (clock == CLOCK_MONOTONIC && clock_gettime(clock, &now) == 0) {
            ns -= (int64_t)now.tv_sec * BILLION + now.tv_nsec;
            left = ns > 0 ? pause_for(ns) : -1;
        }
    }
    if (left < 0)
        return clock_nanosleep(clock, flags, asked, rest);
    if (left > 0 && rest && !(flags & TIMER_ABSTIME))
        *rest = (struct timespec){left / BILLION, left % BILLION};
    return left > 0 ? EINTR : 0;
}

/* -- mutexes -- */

static int hooked_mutex_lock(pthread_mutex_t *mutex) {
    int64_t pause = FIRST_PAUSE_NS;
    int counted = 0, before = errno;
    if (!hook_has_loop())
        return pthread_mutex_lock(mutex);
    int error = pthread_mutex_trylock(mutex);
    while (error == EBUSY) {
        if (hook_wait(-1, 0, hook_after(pause), 1) == PARK_REFUSED) {
            error = pthread_mutex_lock(mutex);
            break;
        }
        if (!counted++)
            hook_count(&hook_stats.lock_waits);
        pause = pause * 2 < LONGEST_PAUSE_NS ? pause * 2 : LONGEST_PAUSE_NS;
        error = pthread_mutex_trylock(mutex);
    }
    if (error == 0)
        hook_held_locks++;
    errno = before; /* the error is returned */
    return error;
}

static int hooked_mutex_trylock(pthread_mutex_t *mutex) {
    int error = pthread_mutex_trylock(mutex);
    if (error == 0 && hook_has_loop())
        hook_held_locks++;
    return error;
}

static int hooked_mutex_unlock(pthread_mutex_t *mutex) {
    int error = pthread_mutex_unlock(mutex);
    if (error == 0 && hook_held_locks > 0)
        hook_held_locks--;
    return error;
}

const hook_row pause_hooks[] = {
    {"sleep", hooked_sleep, sleep},
    {"usleep", hooked_usleep, usleep},
    {"nanosleep", hooked_nanosleep, nanosleep},
    {"clock_nanosleep", hooked_clock_nanosleep, clock_nanosleep},
    {"pthread_mutex_lock", hooked_mutex_lock, pthread_mutex_lock},
    {"pthread_mutex_trylock", hooked_mutex_trylock, pthread_mutex_trylock},
    {"pthread_mutex_unlock", hooked_mutex_unlock, pthread_mutex_unlock},
    {NULL, NULL, NULL},
};
