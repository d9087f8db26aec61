/* Hello in libdill: a coroutine for each connection, which looks for the ends of heads and parses nothing else.
   libdill PORT. Its sockets wait through fdin(), so that a block of any size can be received. */

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libdill.h"

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";

static coroutine void serve(int fd) {
    char data[8192];
    for (;;) {
        char *at = data, *end;
        ssize_t n = recv(fd, data, sizeof data, MSG_DONTWAIT);
        if (n < 0 && !fdin(fd, -1))
            continue;
        if (n <= 0)
            break;
        end = data + n;
        for (; (at = memmem(at, end - at, "\r\n\r\n", 4)); at += 4)
            if (send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL) < 0)
                break;
    }
    fdclean(fd);
    close(fd);
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 8000)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1, connections = bundle();
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (connections < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024))
        return 1;
    while (!fdin(listener, -1)) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0)
            bundle_go(connections, serve(fd));
    }
    return 1;
}
