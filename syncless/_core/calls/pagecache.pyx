"""Whether a part of a file lies in memory, and bringing it there.

Fact: sendfile waits for the disk, with all tasklets of the thread, if the bytes are not in memory. Decision:
look first, at both ends of the part, and have a thread read what is not there. Price: two system calls for
each megabyte. Guarded by tests/wsgi/test_static.py::test_large_file_is_brought_into_memory_by_a_thread.
"""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #include "syncless_config.h"
    #include <errno.h>
    #include <stdlib.h>
    #include <sys/uio.h>
    #include <unistd.h>

    static int syncless_absent(int fd, long long offset) {
    #if SYNCLESS_PREADV2
        char byte;
        struct iovec piece = {&byte, 1};
        return preadv2(fd, &piece, 1, (off_t) offset, RWF_NOWAIT) < 0 && errno == EAGAIN;
    #else
        return 0;
    #endif
    }

    static void syncless_bring_in(int fd, long long offset, long long count) {
        size_t room = 1 << 17;
        char *into = malloc(room);
        ssize_t n = 1;
        while (into && count > 0 && n > 0) {
            n = pread(fd, into, (long long) room < count ? room : (size_t) count, (off_t) offset);
            offset += n;
            count -= n;
        }
        free(into);
    }
    """
    bint syncless_absent(int fd, long long offset) noexcept nogil
    void syncless_bring_in(int fd, long long offset, long long count) noexcept nogil


cdef bint lies_in_memory(int fd, int64_t offset, int64_t count) noexcept:
    """Whether reading that part need not wait for a disk; True as well where the file system does not say."""
    return not (syncless_absent(fd, offset) or (count > 1 and syncless_absent(fd, offset + count - 1)))


def bring_in(int fd, int64_t offset, int64_t count) -> None:
    """Reads that part, for a thread. Errors are left to the next reader."""
    with nogil:
        syncless_bring_in(fd, offset, count)
