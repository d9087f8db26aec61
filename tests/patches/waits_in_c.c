/* A C library that waits in every way that patch_native() knows; also an extension module. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

ssize_t w_recv(int fd, void *data, size_t size, int flags) { return recv(fd, data, size, flags); }
ssize_t w_read(int fd, void *data, size_t size) { return read(fd, data, size); }
ssize_t w_send(int fd, const void *data, size_t size, int flags) { return send(fd, data, size, flags); }
ssize_t w_write(int fd, const void *data, size_t size) { return write(fd, data, size); }

ssize_t w_recvfrom(int fd, void *data, size_t size, int flags) {
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    return recvfrom(fd, data, size, flags, (void *)&from, &length);
}

ssize_t w_recvmsg(int fd, void *data, size_t size, int flags) {
    struct iovec piece = {data, size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    return recvmsg(fd, &message, flags);
}

ssize_t w_readv(int fd, void *data, size_t size) {
    struct iovec pieces[2] = {{data, 1}, {(char *)data + 1, size - 1}};
    return readv(fd, pieces, 2);
}

ssize_t w_sendto(int fd, const void *data, size_t size, int flags) {
    return sendto(fd, data, size, flags, NULL, 0);
}

/* In twenty pieces, the last of which has the rest. */
static size_t cut(struct iovec *pieces, const void *data, size_t size) {
    for (size_t i = 0; i < 20; i++)
        pieces[i] = (struct iovec){(char *)data + i * (size / 20), size / 20};
    pieces[19].iov_len = size - 19 * (size / 20);
    return 20;
}

ssize_t w_sendmsg(int fd, const void *data, size_t size, int flags) {
    struct iovec pieces[20];
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = cut(pieces, data, size)};
    return sendmsg(fd, &message, flags);
}

ssize_t w_writev(int fd, const void *data, size_t size) {
    struct iovec pieces[20];
    return writev(fd, pieces, (int)cut(pieces, data, size));
}

int w_accept(int fd) { return accept(fd, NULL, NULL); }
int w_accept4(int fd) { return accept4(fd, NULL, NULL, SOCK_CLOEXEC); }
int w_connect(int fd, const void *address, unsigned size) { return connect(fd, address, size); }

int w_poll(struct pollfd *fds, unsigned long count, int timeout) { return poll(fds, count, timeout); }

int w_ppoll(struct pollfd *fds, unsigned long count, long ns) {
    struct timespec limit = {ns / 1000000000, ns % 1000000000};
    return ppoll(fds, count, ns < 0 ? NULL : &limit, NULL);
}

/* The highest bit of the result: the time that is left was told. */
int w_select(int fd, long microseconds) {
    fd_set set;
    struct timeval limit = {microseconds / 1000000, microseconds % 1000000};
    FD_ZERO(&set);
    FD_SET(fd, &set);
    int found = select(fd + 1, &set, NULL, NULL, microseconds < 0 ? NULL : &limit);
    int is_less = microseconds >= 0 && limit.tv_sec * 1000000 + limit.tv_usec < microseconds;
    return found < 0 ? found : found + 2 * (FD_ISSET(fd, &set) != 0) + 4 * is_less;
}

int w_pselect(int fd, long ns) {
    fd_set set;
    struct timespec limit = {ns / 1000000000, ns % 1000000000};
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return pselect(fd + 1, &set, NULL, NULL, ns < 0 ? NULL : &limit, NULL);
}

/* The microseconds may be more than a second. */
int w_select_pause(long microseconds) {
    struct timeval limit = {0, microseconds};
    return select(0, NULL, NULL, NULL, &limit);
}

/* A set may be of another size than fd_set, as libev's are. */
int w_select_set(int count, void *reads) {
    return select(count, reads, NULL, NULL, NULL);
}

int w_epoll(int fd, int timeout) {
    struct epoll_event event = {.events = EPOLLIN}, found;
    int watcher = epoll_create1(0);
    epoll_ctl(watcher, EPOLL_CTL_ADD, fd, &event);
    int count = epoll_wait(watcher, &found, 1, timeout);
    close(watcher);
    return count;
}

unsigned w_sleep(unsigned seconds) { return sleep(seconds); }
int w_usleep(unsigned us) { return usleep(us); }

int w_nanosleep(long ns) {
    struct timespec asked = {ns / 1000000000, ns % 1000000000}, rest;
    return nanosleep(&asked, &rest);
}

int w_clock_nanosleep(long ns) {
    struct timespec asked;
    clock_gettime(CLOCK_MONOTONIC, &asked);
    asked.tv_sec += (asked.tv_nsec + ns) / 1000000000;
    asked.tv_nsec = (asked.tv_nsec + ns) % 1000000000;
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &asked, NULL);
}

int w_getaddrinfo(const char *host) {
    struct addrinfo *found = NULL;
    int outcome = getaddrinfo(host, "80", NULL, &found);
    if (!outcome && found == NULL)
        return 1;
    if (!outcome)
        freeaddrinfo(found);
    return outcome;
}

/* Goes on until all of the time is over, as many libraries do. */
int w_nanosleep_all(long ns) {
    struct timespec left = {ns / 1000000000, ns % 1000000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        continue;
    return 0;
}

int w_sleep_all(unsigned seconds) {
    while ((seconds = sleep(seconds)) > 0)
        continue;
    return 0;
}

/* Asks again while the resolver says so. Returns how often it did; -1: the name is not known. */
int w_getaddrinfo_again(const char *host) {
    int tries = 0, outcome;
    while ((outcome = w_getaddrinfo(host)) == EAI_AGAIN)
        tries++;
    return outcome ? -1 : tries;
}

/* Tries to connect until the flag is set. Returns how often it tried. */
int w_reconnect(const void *address, unsigned size, volatile int *stop) {
    int tries = 0;
    for (; !*stop; tries++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        connect(fd, address, size);
        close(fd);
    }
    return tries;
}

/* Forks; the child pauses and reads a byte, which it gets after `ns`. Returns the child's exit code. */
int w_fork(long ns) {
    int ends[2], status;
    char byte;
    if (pipe(ends))
        return -1;
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        usleep(1000);
        _exit(read(ends[0], &byte, 1) == 1 ? 7 : 8);
    }
    struct timespec left = {ns / 1000000000, ns % 1000000000};
    nanosleep(&left, NULL);
    ssize_t written = write(ends[1], "x", 1);
    close(ends[0]);
    close(ends[1]);
    waitpid(child, &status, 0);
    return written == 1 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Holds a mutex while it waits. */
ssize_t w_locked_recv(int fd, void *data, size_t size) {
    pthread_mutex_lock(&mutex);
    ssize_t n = recv(fd, data, size, 0);
    int error = errno;
    pthread_mutex_unlock(&mutex);
    errno = error;
    return n;
}

/* Waits twice meanwhile. */
ssize_t w_locked_recv_twice(int fd, void *data) {
    pthread_mutex_lock(&mutex);
    ssize_t n = recv(fd, data, 1, 0) + recv(fd, data, 1, 0);
    pthread_mutex_unlock(&mutex);
    return n;
}

/* Returns errno after a mutex was waited for. */
int w_lock_errno(void) {
    errno = 77;
    pthread_mutex_lock(&mutex);
    int error = errno;
    pthread_mutex_unlock(&mutex);
    return error;
}

void *w_dlopen(const char *path) { return dlopen(path, RTLD_NOW); }

/* A table of functions in the data, as some libraries have one. */
static ssize_t (*reads)(int, void *, size_t, int) = recv;
ssize_t w_by_pointer(int fd, void *data, size_t size, int flags) { return reads(fd, data, size, flags); }

/* Returns whether errno is as it was before a wait that succeeds. */
int w_errno(int fd) {
    char byte;
    errno = 77;
    return recv(fd, &byte, 1, 0) == 1 && errno == 77;
}

#ifdef PYTHON
#include <Python.h>
static PyObject *receive(PyObject *self, PyObject *fd) {
    char byte;
    ssize_t got;
    int number = (int)PyLong_AsLong(fd);
    Py_BEGIN_ALLOW_THREADS
    got = recv(number, &byte, 1, 0);
    Py_END_ALLOW_THREADS
    return got == 1 ? Py_NewRef(Py_None) : PyErr_Format(PyExc_ConnectionError, "the library's own");
}

static PyMethodDef methods[] = {{"receive", receive, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "waits_in_c", NULL, -1, methods};
PyMODINIT_FUNC PyInit_waits_in_c(void) { return PyModule_Create(&definition); }
#endif
