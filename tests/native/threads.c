/* The threads of native handlers without Python, for sanitizers: clients send good and bad bytes in random
   pieces while others publish, and the server is stopped in the midst of it. Built and run by
   test_native_sanitizers.py. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"

enum { THREADS = 2, CLIENTS = 3 };
static struct server server;
static _Atomic int over;
static struct sockaddr_in address;
static _Atomic long answers;

static int hello(syncless_request *request, syncless_response *response) {
    (void)request;
    return syncless_respond_static(response, 200, "text/plain", "Hello, World!", 13);
}

static int echo(syncless_request *request, syncless_response *response) {
    return syncless_respond(response, 200, "text/plain", request->body.data, request->body.size);
}

static int news(syncless_request *request, syncless_response *response) {
    syncless_bytes found;
    size_t i;
    if (!syncless_published(request, "news", &found))
        return syncless_respond(response, 404, "text/plain", "none", 4);
    for (i = 1; i < found.size; i++)
        if (found.data[i] != found.data[0])
            abort(); /* a mixture of two publications */
    return syncless_respond(response, 200, "text/plain", found.data, found.size);
}

static int pass(syncless_request *request, syncless_response *response) {
    (void)request, (void)response;
    return SYNCLESS_PASS;
}

/* In steps: sends each piece back, waits at the end, and fails now and then. */
static int mirror_step(syncless_request *request, syncless_response *response, void *state) {
    int *left = state;
    if (request->body.size)
        return syncless_append(response, request->body.data, request->body.size) ? -1 : SYNCLESS_READ;
    if (--*left <= 0)
        return request->query.size ? -1 : SYNCLESS_DONE;
    if (syncless_append(response, "more", 4))
        return -1;
    return *left % 2 ? SYNCLESS_WRITE : syncless_wait(response, 1);
}

static int mirror(syncless_request *request, syncless_response *response) {
    int *left = malloc(sizeof *left);
    (void)request;
    *left = 4;
    return syncless_begin(response, mirror_step, left, free) ? -1 : SYNCLESS_READ;
}

/* In steps: pieces that do not fit into a socket, the last one, too, with waits of 0 to 7 ms between them. */
static int large_step(syncless_request *request, syncless_response *response, void *state) {
    static char piece[300000];
    int *left = state;
    (void)request;
    if (syncless_append(response, piece, 1 + (size_t)*left * 70000))
        return -1;
    if (--*left <= 0)
        return SYNCLESS_DONE;
    return *left % 2 ? SYNCLESS_WRITE : syncless_wait(response, (intptr_t)state / 16 % 8);
}

static int large(syncless_request *request, syncless_response *response) {
    int *left = malloc(sizeof *left);
    (void)request;
    *left = 4;
    return syncless_begin(response, large_step, left, free) ? -1 : large_step(request, response, left);
}

static void set_route(struct route *route, const char *path, syncless_handler handler) {
    memset(route, 0, sizeof *route);
    route->path = path;
    route->path_size = strlen(path);
    route->name = path;
    route->handler = handler;
}

static void build(void) {
    struct route *routes = calloc(6, sizeof *routes);
    static const struct text text = {"refused\n", 8};
    socklen_t size = sizeof address;
    int i, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    set_route(&routes[0], "/", hello);
    set_route(&routes[1], "/echo", echo);
    set_route(&routes[2], "/news", news);
    set_route(&routes[3], "/pass", pass);
    set_route(&routes[4], "/mirror", mirror);
    routes[4].pieces = 1;
    set_route(&routes[5], "/large", large);
    server.routes = routes_new(routes, 6);
    server.limits = (struct limits){
        .body_bytes = 1 << 20, .buffered_bytes = 1 << 28, .linger_bytes = 1 << 20, .head_ns = 1000000000,
        .idle_ns = 1000000000, .body_ns = 1000000000, .body_grace_ns = 1000000000, .write_ns = 1000000000,
        .write_grace_ns = 1000000000, .linger_ns = 100000000, .linger_check_ns = 50000000,
        .body_check_ns = 1000000000, .write_check_ns = 1000000000, .chunk_line = 256,
        .trailer_bytes = 8192, .pipelined = 4, .remembered = 8, .head = {8190, 100, 32768}};
    for (i = 200; i < CODES; i++)
        server.reasons[i] = (struct text){"HTTP/1.1 299 Any\r\n", 18};
    for (i = 0; i < R_END; i++)
        server.refusals[i] = text;
    for (i = 0; i < BUCKETS; i++)
        server.bounds[i] = INT64_MAX;
    server.logs = server.counts_time = 1;
    server.owned_size = 65536;
    server.owned = calloc(server.owned_size, sizeof *server.owned);
    server.python.event = eventfd(0, EFD_NONBLOCK);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 100))
        exit(2);
    getsockname(fd, (struct sockaddr *)&address, &size);
    server.listeners = malloc(sizeof fd);
    server.listeners[0] = fd;
    server.listener_count = 1;
    server.threads = calloc(THREADS, sizeof *server.threads);
    for (i = 0; i < THREADS; i++)
        server.threads[i] = thread_new(&server, i), server.thread_count = i + 1;
    for (i = 0; i < THREADS; i++)
        if (thread_start(server.threads[i]))
            exit(2);
}

static const char *const pieces[] = {
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /news HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
    "POST /mirror HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    "POST /mirror?fail HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "GET /large HTTP/1.1\r\nHost: a\r\n\r\n", "GET /large HTTP/1.0\r\n\r\n",
    "GET /pass HTTP/1.1\r\nHost: a\r\n\r\n", "GET /%2f%41 HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD / HTTP/1.0\r\n\r\n",
    "\r\n", "GET", " / HTTP/1.1\r\n", "\0\1", "Content-Length: 99999999\r\n\r\n", "0\r\n\r\n"};

/* One client: connections with random pieces, some bytes of which are changed. */
static void *client(void *argument) {
    unsigned seed = (unsigned)(size_t)argument;
    char data[2000];
    while (!over) {
        int fd = socket(AF_INET, SOCK_STREAM, 0), n;
        struct timeval patience = {0, 20000};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        if (connect(fd, (struct sockaddr *)&address, sizeof address)) {
            close(fd);
            continue;
        }
        for (n = rand_r(&seed) % 12; n >= 0; n--) {
            size_t size = 0, at = 0;
            int i;
            for (i = rand_r(&seed) % 4; i >= 0; i--) {
                const char *piece = pieces[rand_r(&seed) % (sizeof pieces / sizeof *pieces)];
                memcpy(data + size, piece, strlen(piece));
                size += strlen(piece);
            }
            if (size && rand_r(&seed) % 4 == 0)
                data[rand_r(&seed) % size] = (char)rand_r(&seed);
            while (at < size) {
                size_t part = 1 + rand_r(&seed) % size;
                ssize_t sent = send(fd, data + at, part < size - at ? part : size - at, MSG_NOSIGNAL);
                if (sent <= 0)
                    break;
                at += sent;
            }
            if (rand_r(&seed) % 2 && recv(fd, data, sizeof data, 0) > 0)
                answers++;
        }
        close(fd);
    }
    return NULL;
}

/* Python's part: takes what is sent, and gives half of the connections back. */
static void *python(void *argument) {
    unsigned turn = 0;
    (void)argument;
    while (!over) {
        struct pollfd wait = {server.python.event, POLLIN, 0};
        struct message *message, *next;
        uint64_t count;
        poll(&wait, 1, 10);
        if (read(server.python.event, &count, sizeof count) < 0 && errno != EAGAIN)
            abort();
        for (message = take_messages(&server.python); message; message = next) {
            next = message->next;
            if (message->kind == LOG_MESSAGE)
                atomic_fetch_sub(&server.log_held, (int64_t)message->size);
            if (message->kind == CONNECTION_MESSAGE) {
                if (++turn % 2) {
                    struct message *back = message_new(CONNECTION_MESSAGE, 0);
                    back->fd = message->fd;
                    back->address = message->address;
                    send_connection(server.threads[turn / 2 % THREADS], back);
                } else {
                    close(message->fd);
                    atomic_fetch_sub(&server.connections, 1);
                }
            }
            free(message);
        }
    }
    return NULL;
}

static void *publisher(void *argument) {
    static char data[5000];
    unsigned n = 0;
    (void)argument;
    while (!over) {
        memset(data, 'a' + n % 26, sizeof data);
        if (publish_bytes("news", 4, data, 1 + n * 37 % sizeof data))
            abort();
        n++;
        usleep(100);
    }
    return NULL;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    pthread_t others[CLIENTS + 2];
    int i;
    build();
    for (i = 0; i < CLIENTS; i++)
        pthread_create(&others[i], NULL, client, (void *)(size_t)(i + 1));
    pthread_create(&others[CLIENTS], NULL, python, NULL);
    pthread_create(&others[CLIENTS + 1], NULL, publisher, NULL);
    usleep((useconds_t)(seconds * 1e6));
    atomic_store(&server.stopping, 1);
    atomic_fetch_add(&server.closings, 1);
    atomic_store(&server.draining, 1);
    usleep(50000);
    over = 1;
    for (i = 0; i < CLIENTS + 2; i++)
        pthread_join(others[i], NULL);
    atomic_store(&server.quit, 1);
    for (i = 0; i < THREADS; i++)
        wake(&server.threads[i]->inbox);
    for (i = 0; i < THREADS; i++)
        pthread_join(server.threads[i]->id, NULL);
    for (i = 0; i < THREADS; i++) /* One that still runs may wake any other, so none is freed before. */
        thread_free(server.threads[i]);
    printf("%ld answers\n", (long)answers);
    return answers == 0;
}
