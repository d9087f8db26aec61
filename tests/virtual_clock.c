/* A clock for tests: it stands still while any thread of the process runs, and jumps to the earliest deadline when all of them wait.
 *
 * Takes: calls that wait with a deadline and calls that read a clock, because it is preloaded. Gives: virtual_clock_start() and
 * virtual_clock_stop(), which tests/virtualtime.py calls. Between stop and start time is the system's, moved by what the jumps came to,
 * so that the monotonic clock never goes back; CLOCK_MONOTONIC_RAW is the system's always. Knows nothing of Python or syncless.
 *
 * A thread that waits with a deadline is in `waiters`, and tries its call again and again for SLICE ns. The one with the earliest deadline
 * may move the clock there if everybody waits: it looks at all threads (/proc/self/task), tries its own call once more and looks again.
 * Every other thread must sleep both times without a switch in between, or be a waiter whose call has failed since the first look.
 * So at some moment between the two nothing ran and nothing was ready, and but for other processes and the kernel that stays so. The
 * kernel may still have packets on their way: with an internet socket the last try takes GRACE ns, and ksoftirqd must sleep, too.
 *
 * Nagle's algorithm waits for an acknowledgement that the kernel delays by its own clock: it is switched off.
 *
 * A child process counts as a thread that runs, until it ends. The interpreter waits for its own lock (pthread_cond_timedwait) in real
 * time. Code that reads the clock until it has moved would never end, so after READINGS without a jump each reading takes a microsecond.
 * Not covered are alarm(), setitimer(), terminals, for which the kernel has threads of its own, and a child that lives on while its
 * parent waits for a time: such a test cannot run on this clock. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#define SECOND 1000000000LL
#define SLICE 200000LL
#define GRACE 1000000LL
#define PERIOD 5000000LL
#define THREADS 256
#define READINGS 100000

#define REAL(name, ...) \
    static __typeof__(&name) real; \
    if (!real) \
        real = (__typeof__(&name))find(#name, "" __VA_ARGS__)

static void *find(const char *name, const char *version) {
    void *found = *version ? dlvsym(RTLD_NEXT, name, version) : NULL; /* of two versions dlsym may find the old one */
    return found ? found : dlsym(RTLD_NEXT, name);
}

static atomic_int on, internet;      /* internet: a socket that needs the kernel's network was made since the start */
static atomic_llong now, offset;     /* ns: the monotonic clock while on; the offset to the system's clock while off */
static atomic_int readings;          /* since the last jump */
static long long wall;               /* CLOCK_REALTIME minus the monotonic clock, while on */

static struct waiter {
    atomic_int tid;                  /* 0: this place is free */
    atomic_llong deadline;
    atomic_uint waits, begun, ended; /* waits: changes with each wait; tries that were begun and that failed */
} waiters[THREADS];

static long long system_clock(clockid_t which) {
    struct timespec ts;
    REAL(clock_gettime);
    real(which, &ts);
    return ts.tv_sec * SECOND + ts.tv_nsec;
}

static struct timespec spec(long long ns) {
    if (ns < 0)
        ns = 0;
    return (struct timespec){ns / SECOND, ns % SECOND};
}

static long long nanoseconds(const struct timespec *ts) {
    return ts->tv_sec * SECOND + ts->tv_nsec;
}

static long long monotonic(void) {
    return on ? now : system_clock(CLOCK_MONOTONIC) + offset;
}

static void forget_others(void) {
    memset(waiters, 0, sizeof waiters);
}

void virtual_clock_start(void) {
    static int once;
    if (!once++)
        pthread_atfork(NULL, NULL, forget_others);
    now = monotonic();
    wall = system_clock(CLOCK_REALTIME) - now;
    internet = readings = 0;
    on = 1;
}

/* As virtual_clock_start(), from fixed times of both clocks on, later than all that were: for runs that must be equal. */
void virtual_clock_start_at(long long monotonic_ns, long long real_ns) {
    virtual_clock_start();
    now = monotonic_ns;
    wall = real_ns - now;
}

/* Time passes while something runs, as on a busy machine. */
void virtual_clock_pass(long long ns) {
    now += ns;
}

void virtual_clock_stop(void) {
    offset = now - system_clock(CLOCK_MONOTONIC);
    on = 0;
}

/* The system's time is set, which moves the monotonic clock at no time. */
void virtual_clock_set(long long ns) {
    wall += ns;
}

/* -- whether everybody waits ---------------------------------------------------------------------------------------------------- */

struct look {
    int count;
    struct {
        int tid;
        struct waiter *waiter;
        unsigned waits, mark; /* of a waiter: its tries so far; of another thread: its switches */
    } seen[THREADS];
};

static ssize_t contents(const char *path, char *text, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, room - 1);
    if (fd >= 0)
        close(fd);
    text[size < 0 ? 0 : size] = 0;
    return size;
}

static unsigned after(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at ? strtoul(at + strlen(name), NULL, 10) : 0;
}

/* 1: a child of this thread has not ended. Children that have ended and are not reaped are there, too. */
static int has_living_child(const char *tid) {
    char path[64], children[4096], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%.20s/children", tid);
    contents(path, children, sizeof children);
    for (char *at = children, *end; strtol(at, &end, 10); at = end) {
        snprintf(path, sizeof path, "/proc/%ld/stat", strtol(at, NULL, 10));
        char *state = contents(path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
        if (state && state[2] != 'Z' && state[2] != 'X')
            return 1;
    }
    return 0;
}

static int children_live(void) {
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return 0;
    if (info.si_pid == 0)
        return 1;
    DIR *folder = opendir("/proc/self/task"); /* one has ended; waitid() would tell of it again and again */
    int live = 0;
    for (struct dirent *entry; folder && !live && (entry = readdir(folder));)
        live = atoi(entry->d_name) && has_living_child(entry->d_name);
    if (folder)
        closedir(folder);
    return live;
}

/* Whether this thread of ours is off the processor, and in *mark its switches so far. One that is about to sleep, or reaps a child, is
 * in state S while it still runs, so the state does not tell: the kernel names the system call of one that does not run. The switches
 * are read after that: if they are still the same, it has not run since they were read before. */
static int sleeps(int tid, unsigned *mark) {
    char path[64], text[4096], *state;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
    if (contents(path, text, sizeof text) > 0 && !strncmp(text, "running", 7))
        return 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    if (contents(path, text, sizeof text) <= 0 || !(state = strstr(text, "\nState:\t")) || state[8] != 'S')
        return 0;
    *mark = after(text, "\nvoluntary_ctxt_switches:\t") + after(text, "\nnonvoluntary_ctxt_switches:\t");
    return 1;
}

/* Whether all threads but `me` wait, and what tells later that they did all the time. */
static int all_wait(struct look *look, struct waiter *me) {
    struct stat tasks;
    look->count = 0;
    if (children_live())
        return 0;
    if (stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3) /* . and .. and this thread */
        return 1;
    DIR *folder = opendir("/proc/self/task");
    int wait = folder != NULL;
    for (struct dirent *entry; wait && (entry = readdir(folder));) {
        int tid = atoi(entry->d_name), i = look->count;
        if (!tid || tid == me->tid)
            continue;
        if (look->count++ == THREADS) {
            wait = 0;
            break;
        }
        look->seen[i].tid = tid;
        look->seen[i].waiter = NULL;
        for (struct waiter *each = waiters; each < waiters + THREADS; each++)
            if (each->tid == tid) {
                look->seen[i].waiter = each;
                look->seen[i].waits = each->waits;
                look->seen[i].mark = each->begun;
            }
        if (!look->seen[i].waiter)
            wait = sleeps(tid, &look->seen[i].mark);
    }
    if (folder)
        closedir(folder);
    return wait;
}

/* 1: all have waited since `before`. 0: some waiter has not tried again since. -1: somebody ran. */
static int still_wait(struct look *before, struct waiter *me) {
    static _Thread_local struct look again;
    int tried = 1;
    if (!all_wait(&again, me) || again.count != before->count)
        return -1;
    for (int i = 0; i < again.count; i++) {
        struct waiter *waiter = again.seen[i].waiter;
        if (again.seen[i].tid != before->seen[i].tid || waiter != before->seen[i].waiter)
            return -1;
        if (!waiter && again.seen[i].mark != before->seen[i].mark)
            return -1;
        if (waiter) {
            int failed = (int)(waiter->ended - before->seen[i].mark); /* is read first: it may leave its wait now, and begin another */
            if (waiter->tid != again.seen[i].tid || waiter->waits != before->seen[i].waits)
                return -1;
            if (failed < 1)
                tried = 0;
        }
    }
    return tried;
}

/* Whether the kernel has put off the delivery of packets. */
static int packets_on_their_way(void) {
    static int known = -1, daemons[64];
    char path[300], text[512];
    if (known < 0) {
        DIR *folder = opendir("/proc");
        known = 0;
        for (struct dirent *entry; folder && known < 64 && (entry = readdir(folder));) {
            snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
            if (atoi(entry->d_name) && contents(path, text, sizeof text) > 0 && !strncmp(text, "ksoftirqd/", 10))
                daemons[known++] = atoi(entry->d_name);
        }
        if (folder)
            closedir(folder);
    }
    for (int i = 0; i < known; i++) {
        snprintf(path, sizeof path, "/proc/%d/stat", daemons[i]);
        char *end = contents(path, text, sizeof text) > 0 ? strchr(text, ')') : NULL;
        if (end && end[2] == 'R')
            return 1;
    }
    return 0;
}

/* -- waiting -------------------------------------------------------------------------------------------------------------------- */

/* A system call that waits for at most so many ns: 0 if it waited in vain, else its result, with errno. */
typedef int attempt(void *arguments, long long ns);

static struct waiter *enter(long long deadline) {
    int tid = syscall(SYS_gettid);
    for (struct waiter *each = waiters; each < waiters + THREADS; each++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&each->tid, &none, -tid)) { /* negative: not yet to be counted on */
            each->waits++;
            each->ended = each->begun;
            each->deadline = deadline;
            each->tid = tid;
            return each;
        }
    }
    abort();
}

static int is_earliest(struct waiter *me) {
    for (struct waiter *each = waiters; each < waiters + THREADS; each++)
        if (each->tid && each != me && (each->deadline < me->deadline || (each->deadline == me->deadline && each < me)))
            return 0;
    return 1;
}

static int wait_until(long long deadline, attempt *try, void *arguments) {
    static _Thread_local struct look look;
    struct waiter *me = enter(deadline);
    int found, looked = 0;
    do {
        if (!on) { /* it was stopped meanwhile, and may be started again */
            long long left = deadline - monotonic();
            found = try(arguments, left < PERIOD ? left : PERIOD);
            looked = 0;
            continue;
        }
        if (!looked)
            looked = is_earliest(me) && all_wait(&look, me) && !(internet && packets_on_their_way());
        me->begun++;
        found = try(arguments, !looked ? SLICE : internet ? GRACE : look.count ? SLICE : 0);
        me->ended += !found;
        if (looked && !found && on && now < deadline) {
            int all = is_earliest(me) && !(internet && packets_on_their_way()) ? still_wait(&look, me) : -1;
            if (all > 0) {
                now = deadline;
                readings = 0;
            }
            looked = all == 0;
        }
    } while (!found && monotonic() < deadline);
    int error = errno;
    me->tid = 0;
    errno = error;
    return found;
}

/* -- the calls that are replaced ------------------------------------------------------------------------------------------------ */

int clock_gettime(clockid_t which, struct timespec *ts) {
    REAL(clock_gettime);
    switch (which) {
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
        if (on) {
            if (++readings > READINGS)
                now += 1000;
            *ts = spec(now);
        } else if (!offset)
            return real(which, ts);
        else
            *ts = spec(system_clock(which) + offset);
        return 0;
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        if (on) {
            *ts = spec(now + wall);
            return 0;
        }
    }
    return real(which, ts);
}

time_t time(time_t *result) {
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME_COARSE, &ts);
    if (result)
        *result = ts.tv_sec;
    return ts.tv_sec;
}

int socket(int domain, int type, int protocol) {
    REAL(socket);
    int fd = real(domain, type, protocol), yes = 1;
    if (domain == AF_INET || domain == AF_INET6) {
        internet = 1;
        if (on && fd >= 0 && (type & 15) == SOCK_STREAM)
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    }
    return fd;
}

struct polled {
    struct pollfd *fds;
    nfds_t count;
};

static int real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask) {
    REAL(ppoll);
    return real(fds, count, limit, mask);
}

static int try_poll(void *arguments, long long ns) {
    struct polled *polled = arguments;
    struct timespec limit = spec(ns);
    return real_ppoll(polled->fds, polled->count, &limit, NULL);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask) { /* libkqueue waits by it */
    if (!on || !limit || mask || !nanoseconds(limit))
        return real_ppoll(fds, count, limit, mask);
    struct polled polled = {fds, count};
    return wait_until(now + nanoseconds(limit), try_poll, &polled);
}

int poll(struct pollfd *fds, nfds_t count, int ms) {
    REAL(poll);
    if (!on || ms <= 0)
        return real(fds, count, ms);
    struct polled polled = {fds, count};
    return wait_until(now + ms * 1000000LL, try_poll, &polled);
}

int epoll_wait(int fd, struct epoll_event *events, int room, int ms) {
    REAL(epoll_wait);
    if (!on || ms <= 0)
        return real(fd, events, room, ms);
    struct pollfd one = {fd, POLLIN, 0};
    struct polled polled = {&one, 1};
    long long deadline = now + ms * 1000000LL;
    for (;;) {
        int found = wait_until(deadline, try_poll, &polled);
        if (found > 0)
            found = real(fd, events, room, 0);
        if (found || now >= deadline)
            return found;
    }
}

static long (*real_syscall)(long, ...);

static int try_pwait2(void *arguments, long long ns) {
    long *a = arguments;
    struct timespec limit = spec(ns);
    return real_syscall(SYS_epoll_pwait2, a[0], a[1], a[2], &limit, a[4], a[5]);
}

long syscall(long number, ...) { /* the engine calls epoll_pwait2 by its number */
    long a[6];
    va_list arguments;
    if (!real_syscall)
        real_syscall = find("syscall", "");
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    long long ns = number == SYS_epoll_pwait2 && a[3] ? nanoseconds((struct timespec *)a[3]) : 0;
    if (!on || ns <= 0)
        return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return wait_until(now + ns, try_pwait2, a);
}

struct selected {
    int count;
    fd_set *sets[3], wanted[3];
};

static int try_select(void *arguments, long long ns) {
    struct selected *selected = arguments;
    struct timespec limit = spec(ns);
    for (int i = 0; i < 3; i++)
        if (selected->sets[i])
            *selected->sets[i] = selected->wanted[i];
    return pselect(selected->count, selected->sets[0], selected->sets[1], selected->sets[2], &limit, NULL);
}

int select(int count, fd_set *readable, fd_set *writable, fd_set *failed, struct timeval *limit) {
    REAL(select);
    long long ns = limit ? limit->tv_sec * SECOND + limit->tv_usec * 1000LL : 0;
    if (!on || ns <= 0)
        return real(count, readable, writable, failed, limit);
    struct selected selected = {.count = count, .sets = {readable, writable, failed}};
    for (int i = 0; i < 3; i++)
        if (selected.sets[i])
            selected.wanted[i] = *selected.sets[i];
    return wait_until(now + ns, try_select, &selected);
}

static int try_sleep(void *arguments, long long ns) {
    (void)arguments;
    struct timespec limit = spec(ns);
    return real_ppoll(NULL, 0, &limit, NULL);
}

int clock_nanosleep(clockid_t which, int flags, const struct timespec *wanted, struct timespec *left) {
    REAL(clock_nanosleep);
    if (which != CLOCK_MONOTONIC || (!on && !(flags & TIMER_ABSTIME)))
        return real(which, flags, wanted, left);
    long long deadline = nanoseconds(wanted) + (flags & TIMER_ABSTIME ? 0 : now);
    if (!on)
        return real(which, flags, (struct timespec[]){spec(deadline - offset)}, left);
    if (deadline <= now || wait_until(deadline, try_sleep, NULL) == 0)
        return 0;
    if (left && !(flags & TIMER_ABSTIME))
        *left = spec(deadline - now);
    return errno;
}

int nanosleep(const struct timespec *wanted, struct timespec *left) {
    int error = clock_nanosleep(CLOCK_MONOTONIC, 0, wanted, left);
    if (error)
        errno = error;
    return error ? -1 : 0;
}

static int try_semaphore(void *semaphore, long long ns) {
    REAL(sem_clockwait);
    struct timespec until = spec(system_clock(CLOCK_MONOTONIC) + ns);
    return real(semaphore, CLOCK_MONOTONIC, &until) == 0 ? 1 : errno == ETIMEDOUT ? 0 : -1;
}

int sem_clockwait(sem_t *semaphore, clockid_t which, const struct timespec *until) { /* the interpreter's locks, with a timeout */
    REAL(sem_clockwait);
    if (which != CLOCK_MONOTONIC)
        return real(semaphore, which, until);
    long long deadline = nanoseconds(until);
    if (!on)
        return real(semaphore, which, (struct timespec[]){spec(deadline - offset)});
    int found = wait_until(deadline, try_semaphore, semaphore);
    if (found == 0)
        errno = ETIMEDOUT;
    return found > 0 ? 0 : -1;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    REAL(pthread_cond_timedwait, "GLIBC_2.3.2");
    long long moved = monotonic() - system_clock(CLOCK_MONOTONIC), deadline = nanoseconds(until);
    if (deadline < monotonic() + 1000000 * SECOND) /* of the monotonic clock; the other one is half a century ahead */
        deadline -= moved;
    return real(condition, mutex, (struct timespec[]){spec(deadline)});
}
