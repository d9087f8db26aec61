/* The floor: a single-threaded epoll server that parses nothing. It counts the ends of request heads and answers with bytes made
   beforehand, of the same size as ours. All of its cost is the kernel: no server can be faster.

   floor PORT [defer]: with `defer`, TCP_DEFER_ACCEPT and a recv right after accept, as syncless does.
   floor PORT fib: fibonacci(10^6) in 32 bits for each of them, and its digits. */

#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "loopback.h"

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\nServer: syncless\r\n"
                             "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nHello, World!";
enum { SIZE = sizeof answer - 1, MOST = 512 };
static char answers[SIZE * MOST];
static int computes;

static const char *fibonacci(void) {
    static char text[200];
    char digits[16];
    unsigned a = 0, b = 1, t, i;
    for (i = 0; i < 1000000; i++) {
        t = a + b;
        a = b;
        b = t;
    }
    i = (unsigned)snprintf(digits, sizeof digits, "%u", a);
    snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %u\r\n\r\n%s", i, digits);
    return text;
}

/* Answers what has come: -1 when the connection is to be closed. */
static int serve(int fd) {
    char data[65536], *at = data, *end;
    ssize_t n = recv(fd, data, sizeof data, MSG_DONTWAIT);
    int heads = 0;
    if (n < 0)
        return errno == EAGAIN ? 0 : -1;
    if (n == 0)
        return -1;
    for (end = data + n; (at = memmem(at, end - at, "\r\n\r\n", 4)) && heads < MOST; at += 4)
        heads++;
    if (computes)
        while (heads--) {
            const char *text = fibonacci();
            send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
        }
    else
        send(fd, answers, (size_t)heads * SIZE, MSG_DONTWAIT | MSG_NOSIGNAL);
    return memmem(data, n < 64 ? n : 64, "HTTP/1.0", 8) ? -1 : 0;
}

int main(int argc, char **argv) {
    int defer = argc > 2 && !strcmp(argv[2], "defer");
    int listener = listening(argv[1], SOCK_NONBLOCK, defer), poller = epoll_create1(0), i;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[256];
    computes = argc > 2 && !strcmp(argv[2], "fib");
    for (i = 0; i < MOST; i++)
        memcpy(answers + i * SIZE, answer, SIZE);
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(poller, events, 256, -1);
        for (i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd != listener) {
                if (serve(fd) < 0)
                    close(fd);
                continue;
            }
            while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                if (defer && serve(fd) < 0) {
                    close(fd);
                    continue;
                }
                event.events = EPOLLIN | EPOLLET;
                event.data.fd = fd;
                epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
            }
        }
    }
}
