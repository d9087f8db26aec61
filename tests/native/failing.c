/* Preloaded: one allocation by the object that lies in a range of addresses fails, the one after so many. */

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static uintptr_t first, last;
static long left = -1;

void fail_after(uintptr_t begin, uintptr_t end, long calls) {
    first = begin;
    last = end;
    left = calls;
}

long calls_left(void) { return left; }

static int fails(void *caller) {
    if (left < 0 || (uintptr_t)caller < first || (uintptr_t)caller >= last || left-- > 0)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}
