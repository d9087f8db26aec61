/* Handlers that fail, for the error log: one line a second from each thread. See server.h. */

#include <stdio.h>

#include "server.h"

#define FAULT_NS 1000000000LL   /* between two lines */
enum { LINE = 512 };

void tell_fault(struct thread *t, const struct route *route, const char *words) {
    struct letter *letter;
    if (t->now < t->fault_at) {
        t->faults++;
        return;
    }
    letter = letter_new(FAULT_LETTER, LINE);
    if (!letter)
        return;
    letter->size = snprintf(letter->data, LINE, "the native handler of '%.200s' %s", route->name, words);
    if (t->faults && letter->size < LINE)
        letter->size += snprintf(letter->data + letter->size, LINE - letter->size,
                                 "; before that, %lld more requests have failed", (long long)t->faults);
    if (letter->size >= LINE)
        letter->size = LINE - 1;
    t->fault_at = t->now + FAULT_NS;
    t->faults = 0;
    send_letter(&t->server->python, letter);
}
