/* One kqueue for tests, on poll(2). It has the refusals of BSD: a pipe without a reader, and a wait of years.
   An event is reported once for each EV_ADD. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/event.h>

#define MOST 64

static struct pollfd polled[MOST];
static struct kevent added[MOST];
static int used;

int kqueue(void) { return open("/dev/null", O_RDONLY); }

static int change(struct kevent asked) {
    struct pollfd now = {asked.ident, asked.filter == EVFILT_READ ? POLLIN : POLLOUT, 0};
    int place = 0;
    while (place < used && (added[place].ident != asked.ident || added[place].filter != asked.filter))
        place++;
    if (asked.flags & EV_DELETE) {
        if (place < used) {
            polled[place] = polled[--used];
            added[place] = added[used];
        }
        return 0;
    }
    poll(&now, 1, 0);
    if (place == MOST || (asked.filter == EVFILT_WRITE && now.revents & POLLERR)) {
        errno = place == MOST ? ENOMEM : EPIPE;
        return -1;
    }
    used += place == used;
    polled[place] = now;
    added[place] = asked;
    return 0;
}

int kevent(int kq, const struct kevent *changes, int count, struct kevent *events, int room,
           const struct timespec *limit) {
    int found = 0;
    for (int i = 0; i < count; i++)
        if (change(changes[i]) < 0)
            return -1;
    if (room == 0)
        return 0;
    if (limit && limit->tv_sec > 100000000) {
        errno = EINVAL;
        return -1;
    }
    if (poll(polled, used, limit ? limit->tv_sec * 1000 + (limit->tv_nsec + 999999) / 1000000 : -1) < 0)
        return -1;
    for (int place = 0; place < used && found < room; place++)
        if (polled[place].revents) {
            events[found] = added[place];
            events[found++].flags = polled[place].revents & POLLHUP ? EV_EOF : 0;
            if (place)
                polled[place].fd = -1; /* the first is the loop's own pipe */
        }
    return found;
}
