/* Hello in lthread: one of its threads for each connection, which looks for the ends of heads and parses nothing
   else. lthread PORT. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lthread.h"

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";

static void serve(void *argument) {
    int fd = (int)(size_t)argument;
    char data[8192];
    ssize_t n;
    lthread_detach();
    while ((n = lthread_recv(fd, data, sizeof data, 0, 0)) > 0) {
        char *at = data, *end = data + n;
        for (; (at = memmem(at, end - at, "\r\n\r\n", 4)); at += 4)
            if (lthread_send(fd, answer, sizeof answer - 1, 0) < 0)
                break;
    }
    lthread_close(fd);
}

static void take(void *argument) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(size_t)argument)};
    struct sockaddr_in from;
    int listener = lthread_socket(AF_INET, SOCK_STREAM, 0), on = 1, fd;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024))
        exit(1);
    for (;;) {
        socklen_t size = sizeof from;
        lthread_t *new;
        if ((fd = lthread_accept(listener, (struct sockaddr *)&from, &size)) >= 0)
            lthread_create(&new, (void *)serve, (void *)(size_t)fd);
    }
}

int main(int argc, char **argv) {
    lthread_t *first;
    lthread_create(&first, (void *)take, (void *)(size_t)(argc > 1 ? atoi(argv[1]) : 8000));
    lthread_run();
    return 1;
}
