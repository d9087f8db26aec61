/* The floor of large bodies: a single-threaded epoll server that answers each request head with 1 MB from one
   buffer. It parses nothing, and has one request of a connection at a time.

   floor_big PORT [zerocopy]: with `zerocopy`, by MSG_ZEROCOPY, whose notifications it reads. */

#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loopback.h"

enum { BODY = 1000000, SLICE = 512 << 10, MOST = 4096 };
static char *answer;
static size_t size, left[MOST]; /* by descriptor: bytes of the answer that are not sent yet */
static int flags = MSG_DONTWAIT | MSG_NOSIGNAL;

static void send_more(int fd) {
    while (left[fd]) {
        ssize_t n = send(fd, answer + size - left[fd], left[fd] < SLICE ? left[fd] : SLICE, flags);
        if (n < 0)
            return;
        left[fd] -= (size_t)n;
    }
}

/* -1 when the connection is to be closed. */
static int serve(int fd, unsigned events) {
    char data[4096], control[128];
    ssize_t n;
    while (events & EPOLLERR) { /* it is told that memory is free, which means nothing here */
        struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
        if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
            break;
    }
    while ((n = recv(fd, data, sizeof data, MSG_DONTWAIT)) > 0)
        if (memmem(data, (size_t)n, "\r\n\r\n", 4))
            left[fd] += size;
    if (n == 0 || (n < 0 && errno != EAGAIN))
        return -1;
    send_more(fd);
    return 0;
}

int main(int argc, char **argv) {
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                               "Content-Length: 1000000\r\n\r\n";
    int listener = listening(argv[1], SOCK_NONBLOCK, 0), poller = epoll_create1(0), one = 1, i;
    int zerocopy = argc > 2 && !strcmp(argv[2], "zerocopy");
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[256];
    size = sizeof head - 1 + BODY;
    answer = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(answer, 'x', size);
    memcpy(answer, head, sizeof head - 1);
    if (zerocopy)
        flags |= MSG_ZEROCOPY;
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(poller, events, 256, -1);
        for (i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd != listener) {
                if (serve(fd, events[i].events) < 0)
                    close(fd);
                continue;
            }
            while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                if (fd >= MOST) {
                    close(fd);
                    continue;
                }
                left[fd] = 0;
                if (zerocopy)
                    setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one);
                event.events = EPOLLIN | EPOLLOUT | EPOLLET;
                event.data.fd = fd;
                epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
            }
        }
    }
}
