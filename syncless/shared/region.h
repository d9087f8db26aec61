/* Memory that processes share: values by name, and a ring of messages. The manual of region.c, values.c and
   ring.c.

   It knows neither Python nor a clock: times are arguments, in ns of any clock that all processes share. The
   mapping is made before the fork, so it is at the same place in all of them.

   Any process may be killed at any instruction. So what others see changes by one store: that of a link, of a
   number, of the head of the ring. What a dead process leaves half done (lists of free cells, the order of
   use) is made anew by the next one that gets the mutex, see region_repair(). */

#ifndef SYNCLESS_REGION_H
#define SYNCLESS_REGION_H

#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum {
    CELL_BYTES = 128,
    MOST_PLACES = 1024,         /* loops with subscriptions, of all processes */
    PLACE_NAME_BYTES = 20,      /* room for a socket's name that the system has chosen */
    TOPIC_BYTES = 255           /* of a topic, at most */
};

enum region_status {            /* besides 0 */
    REGION_FULL = 1,
    REGION_OVERFLOW = 2         /* a counter would leave 64 bits */
};

enum cell_role { CELL_FREE, CELL_ENTRY, CELL_MORE };

enum entry_kind {               /* each has names of its own */
    COUNTER_ENTRY = 1,
    VALUE_ENTRY,
    RATE_ENTRY,
    LOCK_ENTRY,
    AMOUNT_ENTRY                /* never removed, so read and changed without the mutex */
};

/* Cell 0 is none. Free cells are in a list; one is CELL_MORE if it goes on an entry that needs several. */
struct cell {
    uint32_t next;              /* of its entry, or of the free ones; 0: the last */
    uint32_t role;
    unsigned char bytes[CELL_BYTES - 8];
};

struct entry {                  /* a cell that is CELL_ENTRY */
    uint32_t next;
    uint32_t role;
    uint32_t after;             /* in its bucket */
    uint32_t older, newer;      /* in the order of use, if its kind can be dropped; of an amount, the one made
                                   before it, and whether it is in their list */
    uint32_t key_bytes, data_bytes;
    uint8_t kind;
    uint8_t format;             /* of the data; the caller's */
    uint64_t hash;
    int64_t expires;            /* ns; 0: never */
    int64_t number;             /* a counter's, a rate's, or the caller's; an amount's, as the bits of it */
    unsigned char bytes[CELL_BYTES - 56];       /* of the key and, behind it, of the data */
};

struct place {                  /* a loop that subscribes; free if pid is 0 */
    uint32_t pid;
    uint32_t name_bytes;
    uint64_t started;           /* when its process started, as /proc tells it: a pid is used again */
    uint64_t asleep;            /* grows with each sleep; 0: awake */
    uint64_t told;              /* the sleep from which it has been woken */
    char name[PLACE_NAME_BYTES];        /* of its socket, a datagram to which wakes it */
};

struct region {
    size_t bytes;               /* of the mapping */
    pthread_mutex_t mutex;      /* robust; held for microseconds, by one who calls no Python */
    uint64_t repaired;          /* processes that died with the mutex */
    /* values: under the mutex */
    uint32_t buckets, cells;
    uint32_t fresh;             /* from this cell on, none has ever been used */
    uint32_t free;
    uint32_t used;              /* cells of entries */
    uint32_t newest, oldest;    /* of the entries that can be dropped */
    uint32_t hand;              /* the next cell where a look for expired ones begins */
    uint32_t amounts;           /* the newest one */
    uint64_t entries, evicted, expired;
    /* messages: changed under the mutex, read without */
    uint64_t ring_bytes;
    uint64_t head, tail;        /* of the ring, in bytes since its start */
    uint64_t last;              /* the place of the last message; the head: there is none */
    uint64_t published;         /* messages; the number of the last one */
    uint64_t overwritten;       /* messages that are gone */
    uint32_t places;            /* of which the highest is in use */
    struct place place[MOST_PLACES];
};

struct key {
    const void *bytes;
    uint32_t size;
    uint64_t hash;
    int kind;
};

struct data {
    const void *bytes;
    uint32_t size;
    uint8_t format;
    int64_t expires;
    int64_t number;
};

struct record {                 /* a message in the ring, before its topic and its data */
    uint32_t size;              /* of it all, a multiple of 8; 0 at the end of the ring's turn is none */
    uint32_t data_bytes;
    uint64_t number;            /* from 1 */
    uint32_t before;            /* the size of the record before it; 0: none */
    uint8_t topic_bytes;
    uint8_t format;
    uint8_t unused[2];
};

enum record_status { RECORD_NONE, RECORD_THERE, RECORD_GONE };

/* -- region.c -------------------------------------------------------------------------------------------- */

/* NULL: errno says why. */
struct region *region_make(size_t value_bytes, size_t ring_bytes);
void region_unmake(struct region *r);

/* 0, ETIMEDOUT after ns, or another error number. */
int region_enter(struct region *r, int64_t ns);
void region_leave(struct region *r);

/* -- values.c: with the mutex ---------------------------------------------------------------------------- */

/* The entry's cell, or 0. One that has expired by now is dropped. It counts as used. */
uint32_t values_find(struct region *r, const struct key *key, int64_t now);

/* Sets the entry, which replaces one with the same key, whose readers see either. 0 or REGION_FULL. Drops
   others of the kinds that can be dropped: some that have expired, then those not used for longest. */
int values_put(struct region *r, const struct key *key, const struct data *data, int64_t now);

/* Adds to a counter, from 0 if there is none. 0 or a region_status. */
int values_add(struct region *r, const struct key *key, int64_t n, int64_t *sum);

/* Takes n of the rate's turns, `most` of which may be taken at once and each of which comes back after `each`
   ns. 0 if it has, or the ns until it could; -1 if the store is full. */
int64_t values_take(struct region *r, const struct key *key, int64_t n, int64_t most, int64_t each,
                    int64_t now);

/* The cell of an amount, 0.0 at first; 0 if the store is full. */
uint32_t values_amount(struct region *r, const struct key *key);

void values_remove(struct region *r, uint32_t entry);
void values_read(struct region *r, uint32_t entry, void *to);
int values_equal(struct region *r, uint32_t entry, const struct data *data);
void values_repair(struct region *r);

struct entry *values_entry(struct region *r, uint32_t cell);

/* Without the mutex: amounts. The newest is the first, and each leads to the one made before it; 0: none. */
uint32_t amounts_newest(const struct region *r);
void amounts_key(struct region *r, uint32_t amount, void *to);
void amount_add(struct entry *amount, double n);
void amount_set(struct entry *amount, double value);
double amount_get(const struct entry *amount);

/* -- ring.c ---------------------------------------------------------------------------------------------- */

/* With the mutex. The record, with its topic and data, must not need more than a quarter of the ring. Returns
   its number. */
uint64_t ring_put(struct region *r, struct record *record, const void *topic, const void *data);
uint32_t ring_size(uint32_t topic_bytes, uint32_t data_bytes);

/* Without the mutex: the record at this place, and its topic; then its data. RECORD_GONE if it has been
   overwritten, perhaps while it was read. */
int ring_look(const struct region *r, uint64_t at, struct record *record, char *topic);
int ring_read(const struct region *r, uint64_t at, const struct record *record, void *to);

/* Without the mutex: goes back from the message at `last` to the first one with a higher number, and returns
   its place, or `head` if there is none. `gone`: how many of them are overwritten. */
uint64_t ring_behind(const struct region *r, uint64_t last, uint64_t head, uint64_t number, uint64_t *gone);

/* With the mutex, after a process has died with it. */
void ring_repair(struct region *r);
uint64_t ring_head(const struct region *r);
uint64_t ring_tail(const struct region *r);

/* With the mutex: a place for a loop; -1 if all are taken. */
int place_take(struct region *r, uint32_t pid, uint64_t started, const char *name, uint32_t name_bytes);
void place_free(struct region *r, int number, uint32_t pid, uint64_t started);

/* Without the mutex: sleeps from now on, see ring.c; wakes; the next one from `from` on that is to be woken,
   with its name, or -1; it has been. */
void place_sleeps(struct region *r, int number, uint64_t turn);
void place_wakes(struct region *r, int number);
int place_next_sleeper(const struct region *r, int from, struct place *found);
void place_told(struct region *r, int number, uint64_t turn);

/* -- where things are ------------------------------------------------------------------------------------ */

static inline uint32_t *region_buckets(struct region *r) {
    return (uint32_t *)((char *)r + (sizeof *r + 63) / 64 * 64);
}

static inline struct cell *region_cell(struct region *r, uint32_t number) {
    char *buckets = (char *)region_buckets(r);
    return (struct cell *)(buckets + (size_t)r->buckets * 4 + (size_t)number * CELL_BYTES);
}

static inline unsigned char *region_ring(const struct region *r) {
    return (unsigned char *)region_cell((struct region *)r, r->cells);
}

#endif
