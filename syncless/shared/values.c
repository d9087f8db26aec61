/* Values by name in a region: a hash table whose entries are chains of cells, all of one size. See region.h.

   Cells of one size need no search for room, and their list of free ones can be made anew from the entries
   alone. Values and rates can be dropped to make room; counters, locks and amounts cannot. */

#include "region.h"

enum { SWEEP_CELLS = 64 };      /* looked at for expired entries before a live one is dropped */

/* What others see after the death of this process is in the order in which it is written here. */
static inline void link_store(uint32_t *link, uint32_t cell) {
    __atomic_store_n(link, cell, __ATOMIC_RELEASE);
}

struct entry *values_entry(struct region *r, uint32_t cell) {
    return (struct entry *)region_cell(r, cell);
}

static int can_be_dropped(const struct entry *e) {
    return e->kind == VALUE_ENTRY || e->kind == RATE_ENTRY;
}

/* -- bytes of an entry ----------------------------------------------------------------------------------- */

static uint32_t cells_for(uint64_t bytes) {
    const uint64_t first = sizeof ((struct entry *)0)->bytes, each = sizeof ((struct cell *)0)->bytes;
    return bytes <= first ? 1 : (uint32_t)(1 + (bytes - first + each - 1) / each);
}

enum what { READ_BYTES, WRITE_BYTES, COMPARE_BYTES };

/* Reads, writes or compares bytes of an entry, behind `skip` of them; 1 if they differ. */
static int walk(struct region *r, uint32_t number, uint64_t skip, void *with, uint64_t size, enum what what) {
    struct entry *e = values_entry(r, number);
    unsigned char *bytes = e->bytes;
    uint64_t here = sizeof e->bytes, part;
    char *at = with;
    while (size) {
        if (skip >= here)
            skip -= here;
        else {
            part = here - skip < size ? here - skip : size;
            if (what == READ_BYTES)
                memcpy(at, bytes + skip, part);
            else if (what == WRITE_BYTES)
                memcpy(bytes + skip, at, part);
            else if (memcmp(bytes + skip, at, part))
                return 1;
            at += part;
            size -= part;
            skip = 0;
        }
        if (size) {
            number = region_cell(r, number)->next;
            bytes = region_cell(r, number)->bytes;
            here = sizeof region_cell(r, number)->bytes;
        }
    }
    return 0;
}

void values_read(struct region *r, uint32_t number, void *to) {
    struct entry *e = values_entry(r, number);
    walk(r, number, e->key_bytes, to, e->data_bytes, READ_BYTES);
}

int values_equal(struct region *r, uint32_t number, const struct data *data) {
    struct entry *e = values_entry(r, number);
    return e->data_bytes == data->size && e->format == data->format &&
           !walk(r, number, e->key_bytes, (void *)data->bytes, data->size, COMPARE_BYTES);
}

/* -- the order of use ------------------------------------------------------------------------------------ */

static void forget_use(struct region *r, uint32_t number) {
    struct entry *e = values_entry(r, number);
    if (e->older)
        values_entry(r, e->older)->newer = e->newer;
    else
        r->oldest = e->newer;
    if (e->newer)
        values_entry(r, e->newer)->older = e->older;
    else
        r->newest = e->older;
}

static void note_use(struct region *r, uint32_t number) {
    struct entry *e = values_entry(r, number);
    e->newer = 0;
    e->older = r->newest;
    if (r->newest)
        values_entry(r, r->newest)->newer = number;
    else
        r->oldest = number;
    r->newest = number;
}

/* -- entries --------------------------------------------------------------------------------------------- */

static uint32_t *bucket_of(struct region *r, uint64_t hash) {
    return &region_buckets(r)[hash & (r->buckets - 1)];
}

/* The link that leads to an entry. */
static uint32_t *link_to(struct region *r, uint32_t number) {
    uint32_t *link = bucket_of(r, values_entry(r, number)->hash);
    while (*link && *link != number)
        link = &values_entry(r, *link)->after;
    return link;
}

static void free_cells(struct region *r, uint32_t number) {
    uint32_t next;
    for (; number; number = next) {
        struct cell *cell = region_cell(r, number);
        next = cell->next;
        cell->role = CELL_FREE;
        cell->next = r->free;
        r->free = number;
        r->used--;
    }
}

/* What is linked no more. */
static void free_entry(struct region *r, uint32_t number) {
    if (can_be_dropped(values_entry(r, number)))
        forget_use(r, number);
    r->entries--;
    free_cells(r, number);
}

void values_remove(struct region *r, uint32_t number) {
    uint32_t *link = link_to(r, number);
    if (*link == number) {
        link_store(link, values_entry(r, number)->after);
        free_entry(r, number);
    }
}

static int has_expired(const struct entry *e, int64_t now) {
    return e->expires && e->expires <= now;
}

uint32_t values_find(struct region *r, const struct key *key, int64_t now) {
    uint32_t number = *bucket_of(r, key->hash);
    struct entry *e;
    for (; number; number = e->after) {
        e = values_entry(r, number);
        if (e->hash == key->hash && e->kind == key->kind && e->key_bytes == key->size &&
            !walk(r, number, 0, (void *)key->bytes, key->size, COMPARE_BYTES))
            break;
    }
    if (!number)
        return 0;
    if (has_expired(e, now)) {
        r->expired++;
        values_remove(r, number);
        return 0;
    }
    if (can_be_dropped(e) && r->newest != number) {
        forget_use(r, number);
        note_use(r, number);
    }
    return number;
}

/* -- room ------------------------------------------------------------------------------------------------ */

/* Drops those of the next cells that have expired. */
static void sweep(struct region *r, int64_t now) {
    int i;
    for (i = 0; i < SWEEP_CELLS; i++) {
        uint32_t number = r->hand;
        struct entry *e = values_entry(r, number);
        r->hand = number + 1 < r->fresh ? number + 1 : 1;
        if (number < r->fresh && e->role == CELL_ENTRY && has_expired(e, now)) {
            r->expired++;
            values_remove(r, number);
        }
    }
}

static int make_room(struct region *r, uint32_t wanted, int64_t now) {
    const uint32_t all = r->cells - 1;
    if (wanted > all)
        return REGION_FULL;
    while (all - r->used < wanted) {
        sweep(r, now);
        if (all - r->used >= wanted)
            break;
        if (!r->oldest)
            return REGION_FULL;
        r->evicted++;
        values_remove(r, r->oldest);
    }
    return 0;
}

static uint32_t take_cell(struct region *r, uint32_t role) {
    uint32_t number = r->free;
    if (number)
        r->free = region_cell(r, number)->next;
    else
        number = r->fresh++;
    region_cell(r, number)->next = 0;
    region_cell(r, number)->role = role;
    r->used++;
    return number;
}

int values_put(struct region *r, const struct key *key, const struct data *data, int64_t now) {
    uint32_t wanted = cells_for((uint64_t)key->size + data->size), number, last, old, *link;
    struct entry *e;
    if (make_room(r, wanted, now))
        return REGION_FULL;
    number = last = take_cell(r, CELL_ENTRY);
    while (--wanted) {
        uint32_t more = take_cell(r, CELL_MORE);
        region_cell(r, last)->next = more;
        last = more;
    }
    e = values_entry(r, number);
    e->key_bytes = key->size;
    e->data_bytes = data->size;
    e->kind = (uint8_t)key->kind;
    e->format = data->format;
    e->hash = key->hash;
    e->expires = data->expires;
    e->number = data->number;
    e->newer = 0;
    walk(r, number, 0, (void *)key->bytes, key->size, WRITE_BYTES);
    walk(r, number, key->size, (void *)data->bytes, data->size, WRITE_BYTES);
    old = values_find(r, key, now);
    link = old ? link_to(r, old) : bucket_of(r, key->hash);
    e->after = old ? values_entry(r, old)->after : *link;
    link_store(link, number);
    r->entries++;
    if (can_be_dropped(e))
        note_use(r, number);
    if (old)
        free_entry(r, old);
    return 0;
}

int values_add(struct region *r, const struct key *key, int64_t n, int64_t *sum) {
    uint32_t number = values_find(r, key, 0);
    if (!number) {
        struct data data = {"", 0, 0, 0, n};
        *sum = n;
        return values_put(r, key, &data, 0);
    }
    if (__builtin_add_overflow(values_entry(r, number)->number, n, sum))
        return REGION_OVERFLOW;
    __atomic_store_n(&values_entry(r, number)->number, *sum, __ATOMIC_RELEASE);
    return 0;
}

/* The entry's number is the time at which all turns will have come back: one number tells all (GCRA). */
int64_t values_take(struct region *r, const struct key *key, int64_t n, int64_t most, int64_t each,
                    int64_t now) {
    uint32_t number = values_find(r, key, now);
    int64_t whole = now, late;
    if (number && values_entry(r, number)->number > now)
        whole = values_entry(r, number)->number;
    whole += n * each;
    late = whole - now - most * each;
    if (late > 0)
        return late;
    if (number) {
        values_entry(r, number)->expires = whole;
        values_entry(r, number)->number = whole;
    } else {
        struct data data = {"", 0, 0, whole, whole};
        if (values_put(r, key, &data, now))
            return -1;
    }
    return 0;
}

/* -- amounts --------------------------------------------------------------------------------------------- */

static void list_amount(struct region *r, uint32_t number) {
    values_entry(r, number)->older = r->amounts;
    link_store(&r->amounts, number);
    values_entry(r, number)->newer = 1;
}

uint32_t values_amount(struct region *r, const struct key *key) {
    const struct data none = {"", 0, 0, 0, 0};
    uint32_t number = values_find(r, key, 0);
    if (!number && !values_put(r, key, &none, 0)) {
        number = values_find(r, key, 0);
        list_amount(r, number);
    }
    return number;
}

uint32_t amounts_newest(const struct region *r) {
    return __atomic_load_n(&r->amounts, __ATOMIC_ACQUIRE);
}

void amounts_key(struct region *r, uint32_t amount, void *to) {
    walk(r, amount, 0, to, values_entry(r, amount)->key_bytes, READ_BYTES);
}

void amount_set(struct entry *amount, double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    __atomic_store_n(&amount->number, bits, __ATOMIC_RELAXED);
}

double amount_get(const struct entry *amount) {
    int64_t bits = __atomic_load_n(&amount->number, __ATOMIC_RELAXED);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void amount_add(struct entry *amount, double n) {
    int64_t before = __atomic_load_n(&amount->number, __ATOMIC_RELAXED), after;
    double value;
    do {
        memcpy(&value, &before, sizeof value);
        value += n;
        memcpy(&after, &value, sizeof after);
    } while (!__atomic_compare_exchange_n(&amount->number, &before, after, 1, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

/* -- after a death --------------------------------------------------------------------------------------- */

/* Whether the chain of an entry is whole, and not that of another; its cells are marked if it is. */
static int mark(struct region *r, uint32_t number) {
    struct entry *e = values_entry(r, number);
    uint32_t wanted = cells_for((uint64_t)e->key_bytes + e->data_bytes), cell = number, i;
    for (i = 0; i < wanted; i++) {
        if (!cell || cell >= r->fresh || region_cell(r, cell)->role != CELL_FREE)
            return 0;
        cell = region_cell(r, cell)->next;
    }
    for (cell = number, i = 0; i < wanted; i++, cell = region_cell(r, cell)->next)
        region_cell(r, cell)->role = i ? CELL_MORE : CELL_ENTRY;
    r->used += wanted;
    return 1;
}

void values_repair(struct region *r) {
    uint32_t i;
    if (r->fresh < 1 || r->fresh > r->cells)
        r->fresh = r->cells;
    for (i = 1; i < r->fresh; i++)
        region_cell(r, i)->role = CELL_FREE;
    r->free = r->used = r->newest = r->oldest = 0;
    r->entries = 0;
    r->hand = 1;
    for (i = 0; i < r->buckets; i++) {
        uint32_t *link = &region_buckets(r)[i];
        while (*link) {
            if (*link >= r->fresh || !mark(r, *link)) {
                *link = 0;
                break;
            }
            r->entries++;
            if (can_be_dropped(values_entry(r, *link)))
                note_use(r, *link);
            else if (values_entry(r, *link)->kind == AMOUNT_ENTRY && !values_entry(r, *link)->newer &&
                     r->amounts != *link)
                list_amount(r, *link);          /* its maker died before it was in the list */
            link = &values_entry(r, *link)->after;
        }
    }
    for (i = r->fresh; --i > 0;)
        if (region_cell(r, i)->role == CELL_FREE) {
            region_cell(r, i)->next = r->free;
            r->free = i;
        }
}
