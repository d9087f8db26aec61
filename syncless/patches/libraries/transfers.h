/* A hook's wait for one descriptor, shared by transfers.c and connecting.c. */

#ifndef SYNCLESS_TRANSFERS_H
#define SYNCLESS_TRANSFERS_H

#include "hooks.h"

#include <sys/socket.h>
#include <sys/uio.h>

typedef struct {
    int fd, bits;
    int option;       /* SO_RCVTIMEO or SO_SNDTIMEO: it bounds each wait */
    int insists;      /* an exception does not end the wait */
    int decided;      /* the deadline is known, and that the descriptor may wait */
    int64_t deadline; /* of the whole call */
} transfer;

enum {
    TRANSFER_AGAIN,  /* try once more */
    TRANSFER_ENDS,   /* the time is over, or the descriptor never waits: EAGAIN */
    TRANSFER_REFUSED /* libc must wait */
};

int transfer_wait(transfer *wait);

#endif
