"""Blocks for Python frames that are kept; and the mark by which caches of the engine follow the load: the
most that was in use at once lately. See chunkcache.pyx."""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #ifndef SYNCLESS_MARK
    #define SYNCLESS_MARK
    /* ns in which a mark sinks by a quarter of what is beyond recent use */
    #define SYNCLESS_MARK_SINKS_EVERY 1000000000LL

    typedef struct {
        long most;              /* that was in use at once lately */
        long recent;            /* the most since it last sank */
        long long sunk;         /* when it did, ns */
    } syncless_mark;

    static inline void syncless_mark_note(syncless_mark *mark, long used) {
        if (used > mark->recent) {
            mark->recent = used;
            if (used > mark->most)
                mark->most = used;
        }
    }

    /* Lowers the mark if it is time to. Returns when it sinks next, ns. */
    static inline long long syncless_mark_sink(syncless_mark *mark, long used, long long now) {
        if (now - mark->sunk >= SYNCLESS_MARK_SINKS_EVERY) {
            mark->sunk = now;
            mark->most -= (mark->most - mark->recent + 3) / 4;
            mark->recent = used;
        }
        return mark->sunk + SYNCLESS_MARK_SINKS_EVERY;
    }
    #endif
    """
    ctypedef struct Mark "syncless_mark":
        long most
    void note "syncless_mark_note" (Mark* mark, long used) noexcept nogil
    int64_t sink "syncless_mark_sink" (Mark* mark, long used, int64_t now) noexcept nogil


cdef int64_t lower_mark(int64_t now) noexcept
