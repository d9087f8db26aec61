"""Keeps the 16 KiB blocks in which CPython 3.11+ holds Python frames, instead of mapping and unmapping them.

Fact: since 3.11 the first Python frame of a greenlet takes a 16 KiB block straight from the arena allocator:
mmap, page fault, munmap, about 8 us, more than a whole request. Danger: the hook is process-wide. Decision:
wrap the allocator by the public API (PyObject_SetArenaAllocator), touch that one size only, hold at most
`LIMIT` blocks, hand everything else through. Price: up to 16 MiB kept after a burst of tasklets.
SYNCLESS_CHUNK_CACHE=0 leaves the allocator alone. Guarded by tests/core/test_loop.py.
"""

import os

cdef extern from *:
    """
    #include <stdatomic.h>
    #define SYNCLESS_CHUNK 16384
    #define SYNCLESS_CHUNK_LIMIT 1024
    static PyObjectArenaAllocator syncless_base;
    static void *syncless_free_chunks;             /* a list linked through the first word of each block */
    static long syncless_kept;
    static long syncless_reused;
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
            keep = syncless_kept < SYNCLESS_CHUNK_LIMIT;
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

    static void syncless_chunkcache_install(void) {
        PyObjectArenaAllocator mine = {NULL, syncless_arena_alloc, syncless_arena_free};
        PyObject_GetArenaAllocator(&syncless_base);
        PyObject_SetArenaAllocator(&mine);
    }
    """
    long syncless_kept
    long syncless_reused
    enum: SYNCLESS_CHUNK_LIMIT
    void syncless_chunkcache_install()

LIMIT = SYNCLESS_CHUNK_LIMIT
_installed = False


def install() -> bool:
    """Wraps the arena allocator, once per process; False if SYNCLESS_CHUNK_CACHE=0 forbids it."""
    global _installed
    if not _installed and os.environ.get("SYNCLESS_CHUNK_CACHE", "1") != "0":
        syncless_chunkcache_install()
        _installed = True
    return _installed


def stats() -> tuple[int, int]:
    """(blocks kept now, blocks handed out again since the start)."""
    return syncless_kept, syncless_reused
