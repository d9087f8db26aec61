/* Hello in libtask: a task for each connection, which looks for the ends of heads and parses nothing else. libtask
   PORT. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "task.h"

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";

static void serve(void *argument) {
    int fd = (int)(size_t)argument, n;
    char data[8192];
    while ((n = fdread(fd, data, sizeof data)) > 0) {
        char *at = data, *end = data + n;
        for (; (at = memmem(at, end - at, "\r\n\r\n", 4)); at += 4)
            if (fdwrite(fd, (void *)answer, sizeof answer - 1) < 0)
                break;
        if (memmem(data, n, "HTTP/1.0", 8) || memmem(data, n, "Connection: close", 17))
            break;
    }
    close(fd);
}

void taskmain(int argc, char **argv) {
    int listener, fd, port;
    char remote[16];
    listener = netannounce(TCP, "127.0.0.1", argc > 1 ? atoi(argv[1]) : 8000);
    if (listener < 0)
        taskexitall(1);
    fdnoblock(listener);
    while ((fd = netaccept(listener, remote, &port)) >= 0) {
        fdnoblock(fd);
        taskcreate(serve, (void *)(size_t)fd, 32768);
    }
}
