/* The letters that threads send one another, and queues of them: any thread may send, one takes. */

#ifndef SYNCLESS_LETTERS_H
#define SYNCLESS_LETTERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct address {                /* of a client */
    uint8_t bytes[16];          /* IPv4: the first four */
    uint16_t port;
    uint8_t family;             /* AF_INET, AF_INET6, or anything else for none */
    uint8_t listener;           /* index of the socket that it was accepted on */
};

/* A connection, a block of the access log, a notice, a line for the error log, or the wish that Python closes
   an idle connection for a client that waits. */
enum { CONNECTION_LETTER, LOG_LETTER, NOTICE_LETTER, FAULT_LETTER, ROOM_LETTER };

struct letter {
    struct letter *next;
    int kind;
    int fd;                     /* of a connection; the error of a notice */
    struct address address;
    size_t size;
    char data[];
};

struct letters {
    _Atomic(struct letter *) first;
    int event;                  /* eventfd that tells of the first one */
};

/* NULL where there is no memory. */
struct letter *letter_new(int kind, size_t size);
void send_letter(struct letters *to, struct letter *letter);
struct letter *take_letters(struct letters *from);
void drop_letters(struct letters *from);

#endif
