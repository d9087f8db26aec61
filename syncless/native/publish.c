/* Bytes that are replaced as a whole while others read them. A writer swaps a pointer; the old bytes are
   freed when every reader has begun anew since (reclamation by epochs), so a reader takes no lock and
   writes to no memory that others write to.

   A reader is a thread that says when it begins and ends to read. The bytes that it finds between the two
   stay as they are until then. See server.h. Tested under ThreadSanitizer by tests/native/threads.c. */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

enum { NAMES = 256 };

struct reader {                         /* a cache line for each: no reader waits for another one's stores */
    _Alignas(64) _Atomic uint64_t epoch;        /* in which it began; 0: it does not read */
    _Atomic int used;
};

struct bytes {
    struct bytes *next;                 /* among those that were replaced */
    uint64_t replaced;                  /* the first epoch in which no reader finds it */
    size_t size;
    char data[];
};

static struct reader readers[READERS];
static _Atomic uint64_t epoch = 1;
static struct {
    char *name;
    size_t size;
    _Atomic(struct bytes *) bytes;
} names[NAMES];
static _Atomic int name_count;

/* Writers only. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static struct bytes *replaced;

struct reader *reader_new(void) {
    int i;
    for (i = 0; i < READERS; i++) {
        int unused = 0;
        if (atomic_compare_exchange_strong(&readers[i].used, &unused, 1))
            return &readers[i];
    }
    errno = EAGAIN;
    return NULL;
}

void reader_free(struct reader *reader) {
    if (reader) {
        atomic_store(&reader->epoch, 0);
        atomic_store(&reader->used, 0);
    }
}

void reader_begin(struct reader *reader) {
    /* in one order with the exchange and the look at all readers in publish_bytes(): either the writer sees
       this store, or what is found afterwards is new */
    atomic_store(&reader->epoch, atomic_load(&epoch));
}

void reader_end(struct reader *reader) {
    atomic_store_explicit(&reader->epoch, 0, memory_order_release);
}

int find_published(const char *name, size_t name_size, const char **data, size_t *size) {
    int i, count = atomic_load_explicit(&name_count, memory_order_acquire);
    for (i = 0; i < count; i++)
        if (names[i].size == name_size && !memcmp(names[i].name, name, name_size)) {
            struct bytes *found = atomic_load(&names[i].bytes);
            if (!found)
                return 0;
            *data = found->data;
            *size = found->size;
            return 1;
        }
    return 0;
}

/* The place of a name, a new one if it must be; -1 where there is none. */
static int place_of_name(const char *name, size_t size) {
    int i, count = atomic_load(&name_count);
    for (i = 0; i < count; i++)
        if (names[i].size == size && !memcmp(names[i].name, name, size))
            return i;
    if (count == NAMES || !(names[i].name = malloc(size + 1)))
        return -1;
    memcpy(names[i].name, name, size);
    names[i].size = size;
    atomic_store_explicit(&name_count, count + 1, memory_order_release);
    return i;
}

static int reclaim(void) {
    struct bytes **at = &replaced, *old;
    uint64_t oldest = UINT64_MAX;
    int i, kept = 0;
    for (i = 0; i < READERS; i++) {
        uint64_t began = atomic_load(&readers[i].epoch);
        if (began && began < oldest)
            oldest = began;
    }
    while ((old = *at)) {
        if (old->replaced <= oldest) {
            *at = old->next;
            free(old);
        } else {
            at = &old->next;
            kept++;
        }
    }
    return kept;
}

int publish_bytes(const char *name, size_t name_size, const char *data, size_t size) {
    struct bytes *new = NULL, *old;
    int place;
    if (data) {
        new = malloc(sizeof *new + size);
        if (!new)
            return -1;
        new->size = size;
        memcpy(new->data, data, size);
    }
    pthread_mutex_lock(&writing);
    place = place_of_name(name, name_size);
    if (place < 0) {
        pthread_mutex_unlock(&writing);
        free(new);
        return -1;
    }
    old = atomic_exchange(&names[place].bytes, new);
    if (old) {
        old->replaced = atomic_fetch_add(&epoch, 1) + 1;
        old->next = replaced;
        replaced = old;
    }
    reclaim();
    pthread_mutex_unlock(&writing);
    return 0;
}

int reclaim_published(void) {
    int kept;
    pthread_mutex_lock(&writing);
    kept = reclaim();
    pthread_mutex_unlock(&writing);
    return kept;
}
