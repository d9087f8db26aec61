"""Keeps the 16 KiB blocks in which CPython 3.11+ holds Python frames, instead of mapping and unmapping them.

Fact: since 3.11 the first Python frame of a greenlet takes a 16 KiB block straight from the arena allocator:
mmap, page fault, munmap, about 8 us, more than a whole request. Danger: the hook is process-wide. Decision:
wrap the allocator by the public API (PyObject_SetArenaAllocator), touch that one size only, hold `LIMIT`
blocks, hand everything else through. Loads come in waves: blocks are held beyond that if as many were in use
at once a moment ago. That mark sinks, and the loop gives the others back (lower_mark()). Price: up to 1 MiB
kept after a burst of tasklets, and for some seconds all that it took. SYNCLESS_CHUNK_CACHE=0 leaves the
allocator alone. Guarded by tests/core/test_loop.py.
"""

from libc.stdint cimport int64_t

import os

cdef extern from *:
    """
    #include <stdatomic.h>
    #define SYNCLESS_CHUNK 16384
    #define SYNCLESS_CHUNK_LIMIT 64
    static PyObjectArenaAllocator syncless_base;
    static void *syncless_free_chunks;             /* a list linked through the first word of each block */
    static long syncless_kept;
    static long syncless_reused;
    static long syncless_used;                     /* handed out and not freed */
    static syncless_mark syncless_lately;          /* what was in use */
    /* a dying thread may free its block without the GIL */
    static atomic_flag syncless_chunk_lock = ATOMIC_FLAG_INIT;

    static void syncless_lock(void) {
        while (atomic_flag_test_and_set_explicit(&syncless_chunk_lock, memory_order_acquire)) {}
    }
    static void syncless_unlock(void) {
        atomic_flag_clear_explicit(&syncless_chunk_lock, memory_order_release);
    }

    static void *syncless_arena_alloc(void *ctx, size_t size) {
        if (size == SYNCLESS_CHUNK) {
            void *block;
            syncless_lock();
            syncless_mark_note(&syncless_lately, ++syncless_used);
            block = syncless_free_chunks;
            if (block) {
                syncless_free_chunks = *(void **)block;
                syncless_kept--;
                syncless_reused++;
            }
            syncless_unlock();
            if (block)
                return block;
        }
        return syncless_base.alloc(syncless_base.ctx, size);
    }

    static void syncless_arena_free(void *ctx, void *block, size_t size) {
        if (size == SYNCLESS_CHUNK) {
            int keep;
            syncless_lock();
            syncless_used--;
            keep = syncless_kept < SYNCLESS_CHUNK_LIMIT ||
                   syncless_kept + syncless_used < syncless_lately.most;
            if (keep) {
                *(void **)block = syncless_free_chunks;
                syncless_free_chunks = block;
                syncless_kept++;
            }
            syncless_unlock();
            if (keep)
                return;
        }
        syncless_base.free(syncless_base.ctx, block, size);
    }

    /* Gives a block back that is beyond the limit and the mark. Whether there was one. */
    static int syncless_give_one(void) {
        void *block = NULL;
        syncless_lock();
        if (syncless_kept > SYNCLESS_CHUNK_LIMIT && syncless_kept + syncless_used > syncless_lately.most) {
            block = syncless_free_chunks;
            syncless_free_chunks = *(void **)block;
            syncless_kept--;
        }
        syncless_unlock();
        if (block)
            syncless_base.free(syncless_base.ctx, block, SYNCLESS_CHUNK);
        return block != NULL;
    }

    static void syncless_chunkcache_install(void) {
        PyObjectArenaAllocator mine = {NULL, syncless_arena_alloc, syncless_arena_free};
        PyObject_GetArenaAllocator(&syncless_base);
        PyObject_SetArenaAllocator(&mine);
    }
    """
    long syncless_kept
    long syncless_reused
    long syncless_used
    Mark syncless_lately
    enum: SYNCLESS_CHUNK_LIMIT
    bint syncless_give_one()
    void syncless_chunkcache_install()

cdef enum:
    GIVEN_AT_ONCE = 256

LIMIT = SYNCLESS_CHUNK_LIMIT
_installed = False


cdef int64_t lower_mark(int64_t now) noexcept:
    """Give blocks back that have not been needed lately. When to call it again, ns; 0: there is no need."""
    cdef int _
    cdef int64_t again = sink(&syncless_lately, syncless_used, now)
    for _ in range(GIVEN_AT_ONCE):
        if not syncless_give_one():
            return again if syncless_kept > SYNCLESS_CHUNK_LIMIT else 0
    return now


def install() -> bool:
    """Wrap the arena allocator, once per process; False if SYNCLESS_CHUNK_CACHE=0 forbids it."""
    global _installed
    if not _installed and os.environ.get("SYNCLESS_CHUNK_CACHE", "1") != "0":
        syncless_chunkcache_install()
        _installed = True
    return _installed


def stats() -> tuple[int, int]:
    """(blocks kept now, blocks handed out again since the start)."""
    return syncless_kept, syncless_reused
