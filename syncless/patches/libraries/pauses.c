/* Interposers of calls that wait for the time or for a mutex.

   A mutex that a tasklet holds while it waits would stop the whole thread: the next tasklet that asks for it
   waits in the kernel for a holder that can never run. So a tasklet asks for the mutex again and again, with
   growing pauses. A recursive mutex is given twice to one thread, and so to two tasklets: libraries that have
   such a mutex around their waits must not be patched (tools/knownlibraries.py). */

#include "interpose.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

enum { FIRST_PAUSE_NS = 100000, LONGEST_PAUSE_NS = 2000000, BILLION = 1000000000 };

/* Returns the nanoseconds that are left, or -1 if libc must sleep. */
static int64_t pause_for(int64_t ns) {
    int64_t deadline = interpose_after(ns);
    if (!interpose_has_loop())
        return -1;
    switch (interpose_wait(-1, 0, deadline, 0)) {
    case PARK_REFUSED: return -1;
    case PARK_BROKEN: return interpose_left(deadline); /* it ends as after a signal */
    default: return 0;
    }
}

static unsigned interposed_sleep(unsigned seconds) {
    int64_t left = seconds ? pause_for((int64_t)seconds * BILLION) : -1;
    return left < 0 ? sleep(seconds) : (unsigned)((left + BILLION - 1) / BILLION);
}

static int interposed_usleep(useconds_t microseconds) {
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

static int interposed_nanosleep(const struct timespec *asked, struct timespec *rest) {
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

static int interposed_clock_nanosleep(clockid_t clock, int flags, const struct timespec *asked,
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

static int interposed_mutex_lock(pthread_mutex_t *mutex) {
    int64_t pause = FIRST_PAUSE_NS;
    int counted = 0, before = errno;
    if (!interpose_has_loop())
        return pthread_mutex_lock(mutex);
    int error = pthread_mutex_trylock(mutex);
    while (error == EBUSY) {
        if (interpose_wait(-1, 0, interpose_after(pause), 1) == PARK_REFUSED) {
            error = pthread_mutex_lock(mutex);
            break;
        }
        if (!counted++)
            interpose_count(&interpose_stats.lock_waits);
        pause = pause * 2 < LONGEST_PAUSE_NS ? pause * 2 : LONGEST_PAUSE_NS;
        error = pthread_mutex_trylock(mutex);
    }
    if (error == 0)
        interpose_held_locks++;
    errno = before; /* the error is returned */
    return error;
}

static int interposed_mutex_trylock(pthread_mutex_t *mutex) {
    int error = pthread_mutex_trylock(mutex);
    if (error == 0 && interpose_has_loop())
        interpose_held_locks++;
    return error;
}

static int interposed_mutex_unlock(pthread_mutex_t *mutex) {
    int error = pthread_mutex_unlock(mutex);
    if (error == 0 && interpose_held_locks > 0)
        interpose_held_locks--;
    return error;
}

const interposer pause_calls[] = {
    {"sleep", interposed_sleep, sleep},
    {"usleep", interposed_usleep, usleep},
    {"nanosleep", interposed_nanosleep, nanosleep},
    {"clock_nanosleep", interposed_clock_nanosleep, clock_nanosleep},
    {"pthread_mutex_lock", interposed_mutex_lock, pthread_mutex_lock},
    {"pthread_mutex_trylock", interposed_mutex_trylock, pthread_mutex_trylock},
    {"pthread_mutex_unlock", interposed_mutex_unlock, pthread_mutex_unlock},
    {NULL, NULL, NULL},
};
