/* A clock that stands still while a program runs, and jumps when it waits for events and none comes. Preloaded by test_model.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

static long long now = 1000000000000; /* ns */

int clock_gettime(clockid_t which, struct timespec *ts) {
    static int (*real)(clockid_t, struct timespec *);
    if (which == CLOCK_MONOTONIC) {
        ts->tv_sec = now / 1000000000;
        ts->tv_nsec = now % 1000000000;
        return 0;
    }
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    return real(which, ts);
}

int epoll_wait(int fd, struct epoll_event *events, int room, int milliseconds) {
    static int (*real)(int, struct epoll_event *, int, int);
    if (!real)
        real = dlsym(RTLD_NEXT, "epoll_wait");
    int found = real(fd, events, room, milliseconds > 0 ? 0 : milliseconds);
    if (found == 0 && milliseconds > 0)
        now += milliseconds * 1000000LL;
    return found;
}

long syscall(long number, ...) { /* the engine waits by epoll_pwait2, by its number */
    static long (*real)(long, ...);
    long a[6];
    va_list arguments;
    if (!real)
        real = dlsym(RTLD_NEXT, "syscall");
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    if (number != SYS_epoll_pwait2 || !a[3])
        return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    const struct timespec *wait = (const struct timespec *)a[3], none = {0, 0};
    long found = real(number, a[0], a[1], a[2], &none, a[4], a[5]);
    if (found == 0)
        now += wait->tv_sec * 1000000000LL + wait->tv_nsec;
    return found;
}
