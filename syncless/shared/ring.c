/* Messages in a region: a ring that one process writes at a time and all read without a lock; and the loops
   that sleep until there is more. See region.h.

   A place in the ring is a number of bytes since its start, so it only grows. A writer first gives up what it
   will overwrite, by moving the tail; a reader copies, and then looks whether the tail has passed it. So a
   slow reader holds up nobody, and knows what it has lost.

   A loop goes to sleep with a turn of its own, and looks at the head once more. A writer moves the head, and
   then looks which loops sleep. It notes the turn from which it has woken a loop after the datagram: a writer
   that is killed in between has not noted it, and the next one wakes the loop. */

#include "region.h"

static void copy_in(struct region *r, uint64_t at, const void *from, uint64_t size) {
    uint64_t start = at % r->ring_bytes, first = r->ring_bytes - start;
    if (first > size)
        first = size;
    memcpy(region_ring(r) + start, from, first);
    memcpy(region_ring(r), (const char *)from + first, size - first);
}

static void copy_out(const struct region *r, uint64_t at, void *to, uint64_t size) {
    uint64_t start = at % r->ring_bytes, first = r->ring_bytes - start;
    if (first > size)
        first = size;
    memcpy(to, region_ring(r) + start, first);
    memcpy((char *)to + first, region_ring(r), size - first);
}

uint64_t ring_head(const struct region *r) {
    return __atomic_load_n(&r->head, __ATOMIC_SEQ_CST);
}

uint64_t ring_tail(const struct region *r) {
    return __atomic_load_n(&r->tail, __ATOMIC_SEQ_CST);
}

static int is_there_still(const struct region *r, uint64_t at) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&r->tail, __ATOMIC_RELAXED) <= at;
}

/* -- messages -------------------------------------------------------------------------------------------- */

uint32_t ring_size(uint32_t topic_bytes, uint32_t data_bytes) {
    return (uint32_t)((sizeof(struct record) + topic_bytes + (uint64_t)data_bytes + 7) / 8 * 8);
}

uint64_t ring_put(struct region *r, struct record *record, const void *topic, const void *data) {
    uint64_t head = r->head, tail = r->tail, gone = 0;
    struct record oldest;
    record->size = ring_size(record->topic_bytes, record->data_bytes);
    record->number = r->published + 1;
    record->before = (uint32_t)(head - r->last);
    while (head + record->size - tail > r->ring_bytes) {
        copy_out(r, tail, &oldest, sizeof oldest);
        tail += oldest.size;
        gone++;
    }
    __atomic_store_n(&r->tail, tail, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    copy_in(r, head, record, sizeof *record);
    copy_in(r, head + sizeof *record, topic, record->topic_bytes);
    copy_in(r, head + sizeof *record + record->topic_bytes, data, record->data_bytes);
    r->published = record->number;
    r->overwritten += gone;
    r->last = head;
    __atomic_store_n(&r->head, head + record->size, __ATOMIC_SEQ_CST);
    return record->number;
}

int ring_look(const struct region *r, uint64_t at, struct record *record, char *topic) {
    if (at >= ring_head(r))
        return RECORD_NONE;
    copy_out(r, at, record, sizeof *record);
    if (!is_there_still(r, at))
        return RECORD_GONE;
    copy_out(r, at + sizeof *record, topic, record->topic_bytes);
    return is_there_still(r, at) ? RECORD_THERE : RECORD_GONE;
}

int ring_read(const struct region *r, uint64_t at, const struct record *record, void *to) {
    copy_out(r, at + sizeof *record + record->topic_bytes, to, record->data_bytes);
    return is_there_still(r, at) ? RECORD_THERE : RECORD_GONE;
}

uint64_t ring_behind(const struct region *r, uint64_t last, uint64_t head, uint64_t number, uint64_t *gone) {
    uint64_t at = head, place = last, first = number + 1;
    struct record record;
    *gone = 0;
    while (place < at) {
        copy_out(r, place, &record, sizeof record);
        if (!is_there_still(r, place)) {
            *gone = first - number - 1;
            break;
        }
        if (record.number <= number)
            break;
        first = record.number;
        at = place;
        place -= record.before;
    }
    return at;
}

void ring_repair(struct region *r) {
    struct record record = {0};
    uint64_t at;
    r->last = r->head;
    for (at = r->tail; at < r->head; at += record.size) {
        copy_out(r, at, &record, sizeof record);
        r->last = at;
    }
}

/* -- loops ----------------------------------------------------------------------------------------------- */

int place_take(struct region *r, uint32_t pid, uint64_t started, const char *name, uint32_t name_bytes) {
    uint32_t i;
    if (name_bytes > PLACE_NAME_BYTES)
        return -1;
    for (i = 0; i < MOST_PLACES; i++) {
        struct place *place = &r->place[i];
        if (place->pid)
            continue;
        place->started = started;
        place->told = 0;
        place->name_bytes = name_bytes;
        memcpy(place->name, name, name_bytes);
        __atomic_store_n(&place->asleep, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&place->pid, pid, __ATOMIC_SEQ_CST);
        if (r->places <= i)
            __atomic_store_n(&r->places, i + 1, __ATOMIC_SEQ_CST);
        return (int)i;
    }
    return -1;
}

void place_free(struct region *r, int number, uint32_t pid, uint64_t started) {
    struct place *place = &r->place[number];
    if (place->pid != pid || place->started != started)
        return;                 /* it has another owner */
    __atomic_store_n(&place->asleep, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&place->pid, 0, __ATOMIC_SEQ_CST);
    while (r->places && !r->place[r->places - 1].pid)
        __atomic_store_n(&r->places, r->places - 1, __ATOMIC_SEQ_CST);
}

void place_sleeps(struct region *r, int number, uint64_t turn) {
    __atomic_store_n(&r->place[number].asleep, turn, __ATOMIC_SEQ_CST);
}

void place_wakes(struct region *r, int number) {
    __atomic_store_n(&r->place[number].asleep, 0, __ATOMIC_SEQ_CST);
}

int place_next_sleeper(const struct region *r, int from, struct place *found) {
    int i, places = (int)__atomic_load_n(&r->places, __ATOMIC_SEQ_CST);
    for (i = from; i < places; i++) {
        const struct place *place = &r->place[i];
        uint64_t turn = __atomic_load_n(&place->asleep, __ATOMIC_SEQ_CST);
        if (turn && turn != __atomic_load_n(&place->told, __ATOMIC_RELAXED)) {
            *found = *place;
            found->asleep = turn;
            return i;
        }
    }
    return -1;
}

void place_told(struct region *r, int number, uint64_t turn) {
    __atomic_store_n(&r->place[number].told, turn, __ATOMIC_RELAXED);
}
