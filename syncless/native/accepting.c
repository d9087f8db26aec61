/* New connections of a thread: accepting, and which thread gets a connection. See server.h. */

#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"

#define STUCK_NS 50000000LL             /* in one turn, after which others get its connections */

static void tell_error(struct thread *t, int error) {
    struct message *message = t->now < t->complain_at ? NULL : message_new(NOTICE_MESSAGE, 0);
    if (!message)
        return;
    t->complain_at = t->now + COMPLAIN_NS;
    message->fd = error;
    send_message(&t->server->python, message);
}

static void forget_listeners(struct thread *t) {
    int i;
    t->listening = 0;
    for (i = 0; i < t->server->listener_count; i++)
        epoll_ctl(t->epoll, EPOLL_CTL_DEL, t->server->listeners[i], NULL);
}

/* Accepts or does not; where that is not possible now, it is tried again. */
void listen_to(struct thread *t, int on) {
    int i;
    if (t->listening == on)
        return;
    t->listening = on;
    for (i = 0; on && i < t->server->listener_count; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.u64 = MARKED(i << 1 | 1)};
        if (epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->server->listeners[i], &event) < 0) {
            tell_error(t, errno);
            t->retry_at = t->now + RETRY_NS;
            on = 0;
        }
    }
    if (!on)
        forget_listeners(t);
}

static void read_address(const struct sockaddr_storage *from, struct address *address) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
    memset(address, 0, sizeof *address);
    address->family = (uint8_t)from->ss_family;
    if (from->ss_family == AF_INET) {
        memcpy(address->bytes, &v4->sin_addr, 4);
        address->port = ntohs(v4->sin_port);
    } else if (from->ss_family == AF_INET6) {
        memcpy(address->bytes, &v6->sin6_addr, 16);
        address->port = ntohs(v6->sin6_port);
    }
}

static int takes_connections(const struct thread *t, int64_t now) {
    int64_t since = atomic_load_explicit(&t->busy_since, memory_order_relaxed);
    return (!since || now - since <= STUCK_NS) && !atomic_load_explicit(&t->ended, memory_order_relaxed);
}

/* The one of that index, or the next one that is not stuck. */
struct thread *thread_for(struct server *server, int index) {
    int64_t now = clock_ns();
    int i;
    for (i = index; i < index + server->thread_count; i++)
        if (takes_connections(server->threads[i % server->thread_count], now))
            return server->threads[i % server->thread_count];
    return server->threads[index];
}

/* The connection counts as the thread's at once, so that no other thread sends it more than its share. */
void send_connection(struct thread *to, struct message *message) {
    atomic_fetch_add(&to->counts.connections, 1);
    send_message(&to->inbox, message);
}

/* The kernel wakes whichever thread it likes, mostly the same: a connection goes where the fewest are.
   Returns whether another thread has it now. */
static int give_away(struct thread *t, int fd, const struct address *address) {
    struct server *server = t->server;
    struct thread *fewest = t;
    int64_t mine = t->counts.connections, least = mine;
    struct message *message;
    int i;
    for (i = 0; i < server->thread_count; i++) {
        int64_t count = atomic_load_explicit(&server->threads[i]->counts.connections, memory_order_relaxed);
        if (count < least && takes_connections(server->threads[i], t->now)) {
            least = count;
            fewest = server->threads[i];
        }
    }
    if (mine - least <= mine / 16)
        return 0;
    message = message_new(CONNECTION_MESSAGE, 0);
    if (!message)
        return 0;
    message->fd = fd;
    message->address = *address;
    send_connection(fewest, message);
    return 1;
}

/* Asks Python to close an idle connection of its own. It wakes us when it has. */
static void want_eviction(struct thread *t) {
    struct message *message;
    if (atomic_exchange(&t->server->eviction_wanted, 1))
        return;
    message = message_new(EVICT_MESSAGE, 0);
    if (message)
        send_message(&t->server->python, message);
    else
        atomic_store(&t->server->eviction_wanted, 0);
}

/* No descriptors or memory, or too many connections. Whether to go on at once. */
static int shortage(struct thread *t, int error) {
    if (error)
        tell_error(t, error);
    if (!conn_evict_one(t))
        want_eviction(t);
    else if (!error || error == EMFILE)
        return 1;
    t->retry_at = t->now + RETRY_NS;
    listen_to(t, 0);
    return 0;
}

/* Whether a connection waits to be accepted. */
static int is_ready(int listener) {
    struct pollfd waiting = {.fd = listener, .events = POLLIN};
    return poll(&waiting, 1, 0) > 0;
}

/* Accepts what has come, up to a batch; how many there were. A thread that comes out of its handler when the
   server has stopped accepts nothing: the number may be that of another socket. */
int accept_some(struct thread *t, int index) {
    int listener = t->server->listeners[index], n, fd, error;
    int most = t->server->draining ? 0 : t->server->limits.connections;
    for (n = 0; n < ACCEPT_BATCH && !atomic_load_explicit(&t->server->quit, memory_order_relaxed); n++) {
        struct sockaddr_storage from;
        socklen_t size = sizeof from;
        struct address address;
        struct conn *c;
        if (most && atomic_load_explicit(&t->server->connections, memory_order_relaxed) >= most &&
            is_ready(listener) && !shortage(t, 0))
            return n;
        fd = accept4(listener, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO || errno == EPERM)
                continue;
            error = errno;
            if (error == EAGAIN || error == EINVAL || !is_ready(listener))
                return n; /* without a descriptor left, accept4() fails where nobody waits, too */
            if (shortage(t, error))
                continue;
            return n;
        }
        if (size < sizeof(sa_family_t))
            from.ss_family = AF_UNIX;
        read_address(&from, &address);
        address.listener = (uint8_t)index;
        atomic_fetch_add_explicit(&t->counts.accepted, 1, memory_order_relaxed);
        atomic_fetch_add(&t->server->connections, 1);
        if (t->server->thread_count > 1 && give_away(t, fd, &address))
            continue;
        atomic_fetch_add(&t->counts.connections, 1);
        c = conn_open(t, fd, &address);
        if (c)
            conn_live(t, c);
    }
    return n;
}
