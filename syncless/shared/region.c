/* The mapping of a region, its mutex, and what is done after a process has died with it. See region.h.

   Fact: a process that is killed with a robust mutex leaves it to the next one, which is told (EOWNERDEAD).
   Danger: it may have been in the midst of a change. Decision: each change becomes visible by one store, and
   what that does not cover is made anew. Price: a walk over all cells, after such a death only. Guarded by
   tests/shared/test_workers.py::test_killed_worker_leaves_counter_and_store_whole. */

#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "region.h"

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

static uint32_t power_of_two(size_t least) {
    uint32_t n = 64;
    while (n < least && n < (1u << 30))
        n *= 2;
    return n;
}

static int make_mutex(pthread_mutex_t *mutex) {
    pthread_mutexattr_t how;
    int error = pthread_mutexattr_init(&how);
    if (!error) {
        error = pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
        if (!error)
            error = pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
        if (!error)
            error = pthread_mutex_init(mutex, &how);
        pthread_mutexattr_destroy(&how);
    }
    return error;
}

struct region *region_make(size_t value_bytes, size_t ring_bytes) {
    size_t cells = value_bytes / CELL_BYTES + 1, bytes;
    uint32_t buckets = power_of_two(cells / 2);
    struct region *r;
    int error;
    ring_bytes = (ring_bytes + 7) / 8 * 8;
    bytes = (sizeof *r + 63) / 64 * 64 + (size_t)buckets * 4 + cells * CELL_BYTES + ring_bytes;
    if (cells > UINT32_MAX) {
        errno = EINVAL;
        return NULL;
    }
    r = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r == MAP_FAILED)
        return NULL;
    r->bytes = bytes;
    r->buckets = buckets;
    r->cells = (uint32_t)cells;
    r->fresh = r->hand = 1;
    r->ring_bytes = ring_bytes;
    error = make_mutex(&r->mutex);
    if (error) {
        munmap(r, bytes);
        errno = error;
        return NULL;
    }
    return r;
}

void region_unmake(struct region *r) {
    munmap(r, r->bytes);
}

static int repair(struct region *r) {
    values_repair(r);
    ring_repair(r);
    r->repaired++;
    return pthread_mutex_consistent(&r->mutex);
}

int region_enter(struct region *r, int64_t ns) {
    struct timespec until;
    int error = pthread_mutex_trylock(&r->mutex);
    if (error == EBUSY && ns > 0) {
        clock_gettime(CLOCK_REALTIME, &until);
        ns += until.tv_nsec;
        until.tv_sec += (time_t)(ns / 1000000000);
        until.tv_nsec = (long)(ns % 1000000000);
        error = pthread_mutex_timedlock(&r->mutex, &until);
    }
    if (error == EOWNERDEAD)
        error = repair(r);
    return error == EBUSY ? ETIMEDOUT : error;
}

void region_leave(struct region *r) {
    pthread_mutex_unlock(&r->mutex);
}
