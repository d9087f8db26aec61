/* The part of the BSD interface that the kqueue backend uses, for systems that have none. kqueue.c stands in. */
#ifndef SYNCLESS_TEST_EVENT_H
#define SYNCLESS_TEST_EVENT_H

#include <stdint.h>
#include <time.h>

struct kevent {
    uintptr_t ident;
    int16_t filter;
    uint16_t flags;
    uint32_t fflags;
    intptr_t data;
    void *udata;
};

#define EV_SET(event, a, b, c, d, e, f) (*(event) = (struct kevent){(a), (b), (c), (d), (e), (f)})

#define EVFILT_READ (-1)
#define EVFILT_WRITE (-2)
#define EV_ADD 0x0001
#define EV_DELETE 0x0002
#define EV_CLEAR 0x0020
#define EV_ERROR 0x4000
#define EV_EOF 0x8000

int kqueue(void);
int kevent(int kq, const struct kevent *changes, int count, struct kevent *events, int room,
           const struct timespec *limit);

#endif
