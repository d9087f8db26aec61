/* Calls of the C library that wait at a gate: gate_set() gives a descriptor that is told of each call, and one
   from which each call reads a byte before it is made. One that waits longer than GATE_MS goes on, and counts
   as held. For LD_PRELOAD. */

#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <grp.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <shadow.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <syslog.h>
#include <termios.h>
#include <unistd.h>

#define GATE_MS 3000

static int told = -1, gate = -1, held = 0;

void gate_set(int to_tell, int to_pass) { told = to_tell; gate = to_pass; }

int gate_held(void) { return held; }

static void pass(void) {
    struct pollfd asked = {gate, POLLIN, 0};
    char byte = 0;
    if (gate < 0)
        return;
    if (write(told, &byte, 1) < 1 || poll(&asked, 1, GATE_MS) < 1 || read(gate, &byte, 1) < 1)
        held++;
}

#define GATED(result, name, parameters, arguments)                  \
    result name parameters {                                        \
        static result(*original) parameters = NULL;                 \
        if (!original)                                              \
            original = dlsym(RTLD_NEXT, #name);                     \
        pass();                                                     \
        return original arguments;                                  \
    }

GATED(int, getpwnam_r, (const char *n, struct passwd *p, char *b, size_t s, struct passwd **r), (n, p, b, s, r))
GATED(int, getpwuid_r, (uid_t n, struct passwd *p, char *b, size_t s, struct passwd **r), (n, p, b, s, r))
GATED(int, getgrnam_r, (const char *n, struct group *p, char *b, size_t s, struct group **r), (n, p, b, s, r))
GATED(int, getgrgid_r, (gid_t n, struct group *p, char *b, size_t s, struct group **r), (n, p, b, s, r))
GATED(void, setpwent, (void), ())
GATED(void, setgrent, (void), ())
GATED(void, setspent, (void), ())
GATED(struct spwd *, getspnam, (const char *n), (n))
GATED(int, getgrouplist, (const char *n, gid_t g, gid_t *all, int *count), (n, g, all, count))
GATED(struct servent *, getservbyname, (const char *n, const char *p), (n, p))
GATED(struct servent *, getservbyport, (int n, const char *p), (n, p))
GATED(struct protoent *, getprotobyname, (const char *n), (n))
GATED(int, isatty, (int f), (f))
GATED(int, tcdrain, (int f), (f))
GATED(int, tcflow, (int f, int a), (f, a))
GATED(int, tcflush, (int f, int q), (f, q))
GATED(int, tcsendbreak, (int f, int d), (f, d))

int tcsetattr(int fd, int when, const struct termios *wanted) {
    int (*original)(int, int, const struct termios *) = dlsym(RTLD_NEXT, "tcsetattr");
    if (when != TCSANOW)
        pass();
    return original(fd, when, wanted);
}

int ioctl(int fd, unsigned long request, ...) {
    int (*original)(int, unsigned long, void *) = dlsym(RTLD_NEXT, "ioctl");
    va_list rest;
    va_start(rest, request);
    if (request == TCSBRK || request == SIOCGIFCONF)
        pass();
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return original(fd, request, argument);
}

/* As the C library does, a message holds a lock that the others need. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void log_one(void) {
    pthread_mutex_lock(&lock);
    pass();
    pthread_mutex_unlock(&lock);
}

void syslog(int priority, const char *format, ...) { (void) priority, (void) format; log_one(); }

void __syslog_chk(int priority, int flag, const char *format, ...) {
    (void) priority, (void) flag, (void) format;
    log_one();
}

void closelog(void) {
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
}

void openlog(const char *name, int options, int facility) { (void) name, (void) options, (void) facility; closelog(); }

int setlogmask(int mask) {
    closelog();
    return mask;
}
