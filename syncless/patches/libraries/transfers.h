/* A hook's wait for one descriptor (descriptors.c), shared by transfers.c and connecting.c. */

#ifndef SYNCLESS_TRANSFERS_H
#define SYNCLESS_TRANSFERS_H

#include "hooks.h"

#include <sys/socket.h>
#include <sys/stat.h>
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
    TRANSFER_ENDS,   /* with errno: EAGAIN, the time is over or the descriptor never waits; or EBADF */
    TRANSFER_REFUSED /* libc must wait */
};

/* Parks.

   Fact: others may close the descriptor meanwhile, and its number is given away again. Danger: the call would
   take the bytes of the new owner, or shut its connection down. Decision: the open file must be the same one
   after the wait. Price: two calls of fstat() for each wait. Guarded by
   tests/patches/test_native.py::test_call_does_not_touch_the_next_owner_of_its_descriptor. */
int transfer_wait(transfer *wait);
/* The same for more bytes than can be read, which the kernel does not tell of: parks for a short while.
   TRANSFER_ENDS: no more will come in time. */
int transfer_wait_for_more(transfer *wait);

#endif
