/* What the floors begin with. */

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

/* A listener on loopback. With `defer` the kernel keeps a connection until it has sent something. */
static int listening(const char *port, int flags, int defer) {
    int listener = socket(AF_INET, SOCK_STREAM | flags, 0), one = 1, seconds = 30;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(atoi(port)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (defer)
        setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024))
        exit(1);
    return listener;
}
