/* Queues between threads: any may send, one takes. A sender never waits. See letters.h. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "letters.h"

struct letter *letter_new(int kind, size_t size) {
    struct letter *letter = malloc(sizeof *letter + size);
    if (!letter)
        return NULL;
    letter->next = NULL;
    letter->kind = kind;
    letter->fd = -1;
    letter->size = size;
    memset(&letter->address, 0, sizeof letter->address);
    return letter;
}

void send_letter(struct letters *to, struct letter *letter) {
    struct letter *first = atomic_load_explicit(&to->first, memory_order_relaxed);
    do
        letter->next = first;
    while (!atomic_compare_exchange_weak_explicit(&to->first, &first, letter, memory_order_release,
                                                  memory_order_relaxed));
    if (!first) {                               /* it may be asleep */
        uint64_t one = 1;
        while (write(to->event, &one, sizeof one) < 0 && errno == EINTR)
            ;
    }
}

/* In the order in which they were sent. */
struct letter *take_letters(struct letters *from) {
    struct letter *letter, *next, *turned = NULL;
    letter = atomic_exchange_explicit(&from->first, NULL, memory_order_acquire);
    for (; letter; letter = next) {
        next = letter->next;
        letter->next = turned;
        turned = letter;
    }
    return turned;
}

/* Closes the connections that nobody takes. */
void drop_letters(struct letters *from) {
    struct letter *letter = take_letters(from), *next;
    for (; letter; letter = next) {
        next = letter->next;
        if (letter->kind == CONNECTION_LETTER)
            close(letter->fd);
        free(letter);
    }
}
