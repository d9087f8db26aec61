/* Shared by the files of hooks. The manual is hooks.h. */

#include "hooks.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { CALLS_IN_A_ROW = 64, UNWATCHED_PAUSE_NS = 20000000 };

int (*hook_has_loop)(void);
int (*hook_park)(int, int, int64_t, int);
void (*hook_give_way)(void);
void (*hook_loaded)(void);
hook_counts hook_stats;
int hook_look_is_due;
__thread int hook_held_locks;

int hook_wait(int fd, int bits, int64_t deadline, int insists) {
    int held = hook_held_locks;
    if (__atomic_load_n(&hook_look_is_due, __ATOMIC_RELAXED)) {
        hook_look_is_due = 0;
        hook_loaded();
    }
    hook_held_locks = 0; /* others run meanwhile, which hold their own */
    int outcome = hook_park(fd, bits, deadline, insists);
    hook_held_locks = held;
    if (outcome == PARK_UNWATCHED)
        return hook_wait_unwatched(deadline, insists);
    if (outcome != PARK_REFUSED) {
        hook_count(&hook_stats.waits);
        if (held > 0)
            hook_count(&hook_stats.with_lock);
        if (outcome == PARK_BROKEN)
            hook_count(&hook_stats.broken);
    }
    return outcome;
}

int hook_wait_unwatched(int64_t deadline, int insists) {
    int64_t pause = hook_after(UNWATCHED_PAUSE_NS);
    int is_last = deadline != HOOK_NEVER && deadline <= pause;
    int outcome = hook_wait(-1, 0, is_last ? deadline : pause, insists);
    return outcome == PARK_OVER && !is_last ? PARK_WOKEN : outcome;
}

void hook_shut_down(int fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && !listens)
        shutdown(fd, SHUT_RDWR);
}

void hook_succeeded(int error) {
    static __thread unsigned calls;
    if (++calls % CALLS_IN_A_ROW == 0)
        hook_give_way();
    errno = error;
}

const hook_row *hook_find(const char *name) {
    const hook_row *tables[] = {transfer_hooks, connecting_hooks, polling_hooks,
                                pause_hooks, name_hooks, loading_hooks};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const hook_row *row = tables[i]; row->name; row++)
            if (strcmp(row->name, name) == 0)
                return row->original ? row : NULL;
    return NULL;
}
