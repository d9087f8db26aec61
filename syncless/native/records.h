/* A record of the access log as it passes from a thread to Python; the bytes of the head follow it. */

#ifndef SYNCLESS_RECORDS_H
#define SYNCLESS_RECORDS_H

#include "server.h"

struct record {
    uint32_t size;              /* of the head that follows */
    uint16_t status;
    uint8_t refused, closes;
    struct address address;
    int64_t body, ns;           /* bytes; since the request began */
};

/* Sends records that have been held back for long enough. ns until the next ones are, or -1. */
int64_t records_wait(struct thread *t);

#endif
