/* Memory of a thread: blocks that grow, and an arena that is dropped as a whole. */

#ifndef SYNCLESS_MEMORY_H
#define SYNCLESS_MEMORY_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct block {
    char *data;
    uint32_t size, room;
};

enum { BLOCK_MOST = 1 << 30 };

/* Room for `more` bytes: 0, or -1 where there is no memory; the block stays as it was then. */
static inline int block_reserve(struct block *b, size_t more) {
    size_t room = b->room ? (size_t)b->room * 2 : 512;
    char *grown;
    if (b->room - b->size >= more)
        return 0;
    if (more > BLOCK_MOST - (size_t)b->size)
        return -1;
    if (room < b->size + more)
        room = b->size + more;
    grown = (char *)realloc(b->data, room);
    if (!grown)
        return -1;
    b->data = grown;
    b->room = (uint32_t)room;
    return 0;
}

static inline int block_append(struct block *b, const char *data, size_t size) {
    if (block_reserve(b, size))
        return -1;
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += (uint32_t)size;
    return 0;
}

static inline void block_free(struct block *b) {
    free(b->data);
    b->data = NULL;
    b->size = b->room = 0;
}

/* Empties it for the next use; a large one is given back. */
static inline void block_reset(struct block *b, uint32_t keep) {
    b->size = 0;
    if (b->room > keep)
        block_free(b);
}

enum { ARENA = 16384 };

struct arena_piece {            /* memory that did not fit into `base` */
    struct arena_piece *next;
    max_align_t data[];
};

struct arena {
    char *base;
    size_t used;
    struct arena_piece *pieces;
};

static inline void *arena_alloc(struct arena *a, size_t size) {
    struct arena_piece *piece;
    size_t padded = (size + 15) & ~(size_t)15;
    if (padded < size || padded > BLOCK_MOST)
        return NULL;
    if (!a->base && !(a->base = (char *)malloc(ARENA)))
        return NULL;
    if (padded <= ARENA - a->used) {
        a->used += padded;
        return a->base + a->used - padded;
    }
    piece = (struct arena_piece *)malloc(sizeof *piece + padded);
    if (!piece)
        return NULL;
    piece->next = a->pieces;
    a->pieces = piece;
    return piece->data;
}

static inline void arena_reset(struct arena *a) {
    struct arena_piece *piece;
    a->used = 0;
    while ((piece = a->pieces)) {
        a->pieces = piece->next;
        free(piece);
    }
}

#endif
