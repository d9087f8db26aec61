/* Hello in State Threads: a thread of the library for each connection, which looks for the ends of heads and parses
   nothing else. statethreads PORT. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "st.h"

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";

static void *serve(void *connection) {
    char data[8192];
    ssize_t n;
    while ((n = st_read(connection, data, sizeof data, ST_UTIME_NO_TIMEOUT)) > 0) {
        char *at = data, *end = data + n;
        for (; (at = memmem(at, end - at, "\r\n\r\n", 4)); at += 4)
            if (st_write(connection, answer, sizeof answer - 1, ST_UTIME_NO_TIMEOUT) < 0)
                break;
    }
    st_netfd_close(connection);
    return NULL;
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 8000)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    st_netfd_t accepting, connection;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024))
        return 1;
    st_set_eventsys(ST_EVENTSYS_ALT);
    if (st_init() || !(accepting = st_netfd_open_socket(listener)))
        return 1;
    while ((connection = st_accept(accepting, NULL, NULL, ST_UTIME_NO_TIMEOUT)))
        st_thread_create(serve, connection, 0, 32768);
    return 1;
}
